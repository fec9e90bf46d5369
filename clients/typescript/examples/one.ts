/** One operation, told as JSON on standard input, its outcome as JSON on standard output. The cases in ../../cases run it. */
import { text } from "node:stream/consumers";
import { stdin } from "node:process";

import {
  Client,
  DamagedRecord,
  IntentMismatch,
  KeyReused,
  NeedsCorrection,
  OutcomeUnknown,
  Rejected,
  ReservationError,
} from "../src/index.js";
import { FileStore } from "../src/file-store.js";

function result(error: Error): string | undefined {
  if (error instanceof Rejected) return "rejected";
  if (error instanceof NeedsCorrection) return "needs-correction";
  if (error instanceof KeyReused) return "key-reused";
  if (error instanceof OutcomeUnknown) return "unknown";
  if (error instanceof IntentMismatch) return "intent-mismatch";
  if (error instanceof DamagedRecord) return "damaged";
  return "syscall" in error ? "store-failed" : undefined;
}

const order = JSON.parse(await text(stdin));

function make(): Client | undefined {
  try {
    return new Client(order.base_url, new FileStore(order.store), {
      token: order.token,
      deadline: order.deadline * 1000,
      attemptTimeout: order.attempt_timeout * 1000,
      pause: order.pause * 1000,
      keepFor: (order.keep_for ?? 72000) * 1000,
    });
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    console.log(JSON.stringify({ result: "wrong-setting", message: error.message }));
    return undefined;
  }
}

async function run(client: Client): Promise<void> {
  if (order.operation === "cancel") {
    await client.cancel(order.id);
    console.log(JSON.stringify({ result: "done" }));
  } else {
    const answer =
      order.operation === "look-up"
        ? await client.lookUp(order.intent)
        : order.operation === "create"
          ? await client.create(order.intent, order.body, { respondAsync: order.respond_async ?? false })
          : await client.change(order.intent, order.id, order.body, order.if_match);
    if (answer === undefined) {
      console.log(JSON.stringify({ result: "nothing" }));
      return;
    }
    const { reservation, etag, replayed, attempts } = answer;
    console.log(JSON.stringify({ result: "done", id: reservation.id, quantity: reservation.quantity, etag, replayed, attempts }));
  }
}

const client = make();
try {
  if (client !== undefined) await run(client);
} catch (error) {
  const name = error instanceof Error ? result(error) : undefined;
  if (!(error instanceof Error) || name === undefined) throw error;
  const { intent, code, attempts } = error instanceof ReservationError ? error : {};
  console.log(JSON.stringify({ result: name, intent, code, attempts, message: error.message }));
}
