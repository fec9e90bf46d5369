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
const client = new Client(order.base_url, new FileStore(order.store), {
  token: order.token,
  deadline: order.deadline * 1000,
  attemptTimeout: order.attempt_timeout * 1000,
  pause: order.pause * 1000,
  keepFor: (order.keep_for ?? 72000) * 1000,
});
try {
  if (order.operation === "cancel") {
    await client.cancel(order.id);
    console.log(JSON.stringify({ result: "done" }));
  } else {
    const answer =
      order.operation === "create"
        ? await client.create(order.intent, order.body, { respondAsync: order.respond_async ?? false })
        : await client.change(order.intent, order.id, order.body, order.if_match);
    const { reservation, etag, replayed, attempts } = answer;
    console.log(JSON.stringify({ result: "done", id: reservation.id, quantity: reservation.quantity, etag, replayed, attempts }));
  }
} catch (error) {
  const name = error instanceof Error ? result(error) : undefined;
  if (!(error instanceof Error) || name === undefined) throw error;
  const { code, attempts } = error instanceof ReservationError ? error : {};
  console.log(JSON.stringify({ result: name, code, attempts, message: error.message }));
}
