/** The operations. */
import { DelegateBackoff, handleWhen, retry } from "cockatiel";

import { NotYet, read, type Final } from "./answer.js";
import { IntentMismatch, KeyReused, NeedsCorrection, OutcomeUnknown, Rejected, ReservationError } from "./errors.js";
import { encode } from "./json.js";
import { isObject, isReservation, type ChangeReservation, type NewReservation, type Problem, type Reservation } from "./models.js";
import { check, type IntentRecord, type SavedAnswer, type SavedRequest, type Store } from "./store.js";

const LONGEST_PAUSE = 30_000;
const LONGEST_TIMER = 2 ** 31 - 1;
const LARGEST_ANSWER = 1 << 20;

/** A final answer: the same on every retry. */
export interface Answer {
  reservation: Reservation;
  /** Pass it to `change` as `ifMatch`. */
  etag: string | null;
  /** The server had stored the answer before: an earlier attempt did the work. */
  replayed: boolean;
  /** HTTP requests of this call; 0 where the store had the answer. */
  attempts: number;
}

/** All times are in milliseconds. */
export interface ClientOptions {
  /** Sent as a bearer token. */
  token?: string;
  /** For one call, all attempts and pauses together, 120 s; whatever the server does, the call ends by then. 0 sends nothing. */
  deadline?: number;
  /** For one attempt; longer than the server's `ANSWER_WITHIN` (25 s) saves retries; 40 s. */
  attemptTimeout?: number;
  /** The first pause where the server names none, 1 s; it doubles up to 30 s. */
  pause?: number;
  /** An intent older than this is never sent again, 20 h; keep it below the server's `retention_ms`. */
  keepFor?: number;
  /** Instead of the global `fetch`, for proxies or hooks. */
  fetch?: (request: Request) => Promise<Response>;
}

interface Sending {
  method: string;
  path: string;
  headers: Headers;
  body?: string;
  success: number;
}

/** Sends each intent under one key until its answer is final. */
export class Client {
  readonly #base: string;
  readonly #store: Store;
  readonly #options: Required<Omit<ClientOptions, "token">> & { token: string | undefined };

  constructor(baseUrl: string, store: Store, options: ClientOptions = {}) {
    if (!/^https?:$/.test(new URL(baseUrl).protocol)) throw new TypeError("the base URL must begin with http:// or https://");
    this.#base = baseUrl.replace(/\/+$/, "");
    this.#store = store;
    new Headers({ Authorization: `Bearer ${options.token}` }); // throws where it is none
    this.#options = {
      token: options.token,
      deadline: options.deadline ?? 120_000,
      attemptTimeout: options.attemptTimeout ?? 40_000,
      pause: options.pause ?? 1000,
      keepFor: options.keepFor ?? 20 * 3_600_000,
      fetch: options.fetch ?? ((request) => fetch(request)),
    };
  }

  /**
   * Makes a reservation, once for this intent however often it is called.
   *
   * @param intent your own name of what you want, such as an order number
   * @param options `respondAsync`: ask the server not to hold the connection; the answer is then polled
   */
  async create(intent: string, reservation: NewReservation, options: { respondAsync?: boolean } = {}): Promise<Answer> {
    const headers = new Headers(options.respondAsync ? { Prefer: "respond-async" } : {});
    // Absent and null are one request to the server.
    const members = Object.entries(reservation).filter(([, value]) => value !== null);
    const request = { if_match: null, body: Object.fromEntries(members) as NewReservation };
    return this.#keyed(intent, { method: "POST", path: "/reservations", headers, success: 201 }, request);
  }

  /** Changes a reservation, once for this intent. `ifMatch`: the ETag of what the change was decided on. */
  async change(intent: string, id: string, change: ChangeReservation, ifMatch: string): Promise<Answer> {
    const headers = new Headers({ "If-Match": ifMatch });
    return this.#keyed(intent, { method: "PATCH", path: path(id), headers, success: 200 }, { if_match: ifMatch, body: change });
  }

  /** Cancels a reservation. Needs no intent: cancelling twice is cancelling once. */
  async cancel(id: string): Promise<void> {
    await this.#settle({ method: "DELETE", path: path(id), headers: new Headers(), success: 204 }, this.#options.deadline);
  }

  /** Reads a reservation. */
  async get(id: string): Promise<Answer> {
    const sending = { method: "GET", path: path(id), headers: new Headers(), success: 200 };
    const { etag, body, attempts } = await this.#settle(sending, this.#options.deadline);
    return { reservation: body, etag, replayed: false, attempts };
  }

  async #keyed(intent: string, sending: Sending, request: SavedRequest): Promise<Answer> {
    const begun: IntentRecord = {
      intent,
      key: crypto.randomUUID(),
      created_at_ms: Date.now(),
      method: sending.method,
      path: sending.path,
      request,
      replaced: [],
      state: "open",
      answer: null,
    };
    // What cannot be sent is not stored either; and a member that is undefined is left out, as the store will leave it out.
    const wanted = check(intent, JSON.parse(encode(begun)));
    // The key exists, durably, before the first attempt: whoever comes back after a crash finds it.
    const record = check(intent, await this.#store.begin(intent, wanted));
    if (record.method !== sending.method || record.path !== sending.path) {
      throw new IntentMismatch("this intent was begun with another operation");
    }
    const same = canonical(record.request) === canonical(wanted.request);
    if (!same && record.state !== "mendable") {
      throw new IntentMismatch("this intent was begun with another request, which may have been booked: call with that one");
    }
    if (record.answer !== null) return finish(record.answer, false, 0);

    // The server forgets a key after its retention. Sent again after that it would book again.
    const left = record.created_at_ms + this.#options.keepFor - Date.now();
    if (left <= 0) throw new OutcomeUnknown("this intent is too old to be sent again: look whether it was booked");
    // Nothing that was sent under this key so far can have been accepted.
    const fresh = record.key === wanted.key || record.state === "mendable";
    if (record.state === "mendable") {
      if (!same) {
        record.replaced.push(record.request);
        record.request = wanted.request;
      }
      record.state = "open";
      await this.#store.save(intent, record);
    }
    sending.headers.set("Idempotency-Key", `"${record.key}"`);
    sending.body = encode(record.request.body);
    let settled: Settled;
    try {
      settled = await this.#settle(sending, Math.min(this.#options.deadline, left));
    } catch (error) {
      if (error instanceof Rejected && error.problem) {
        await this.#saveAnswer(intent, record, { status: error.problem.status, etag: null, body: error.problem });
      } else if (error instanceof NeedsCorrection && fresh && error.attempts === 1) {
        // After an attempt of unknown outcome the request may have been accepted: no other may take its place.
        await this.#store.save(intent, { ...record, state: "mendable" });
      } else if (error instanceof KeyReused) {
        // Not this request has the key: rather the one before, whose refusal was not the whole truth.
        const request = record.replaced.pop() ?? record.request;
        await this.#store.save(intent, { ...record, request, state: "mendable" });
      }
      throw error;
    }
    const answer = { status: settled.status, etag: settled.etag, body: settled.body };
    await this.#saveAnswer(intent, record, answer);
    return finish(answer, settled.replayed, settled.attempts);
  }

  async #saveAnswer(intent: string, record: IntentRecord, answer: SavedAnswer): Promise<void> {
    await this.#store.save(intent, { ...record, state: "final", answer });
  }

  #settle(sending: Sending & { success: 204 }, deadline: number): Promise<void>;
  #settle(sending: Sending, deadline: number): Promise<Settled>;
  /** Sends the same request until its answer is final or the deadline is over. */
  async #settle(sending: Sending, deadline: number): Promise<Settled | void> {
    if (deadline <= 0) throw new OutcomeUnknown("no time to send anything");
    const end = performance.now() + deadline;
    let attempts = 0;
    let lastProblem: Problem | undefined;
    const inTime = (error: Error) => error instanceof NotYet && performance.now() + error.pause < end;
    const policy = retry(handleWhen(inTime), {
      maxAttempts: Number.MAX_SAFE_INTEGER,
      backoff: new DelegateBackoff(({ result }) => ("error" in result && result.error instanceof NotYet ? result.error.pause : 0)),
    });
    try {
      const final = await policy.execute(async () => {
        attempts += 1;
        try {
          return await this.#send(sending, end);
        } catch (error) {
          if (error instanceof NotYet) {
            lastProblem = error.problem ?? lastProblem;
            error.pause = this.#pause(error.after, attempts);
            if (error.accepted) sending.headers.set("Prefer", `wait=${this.#pollFor()}`);
          }
          throw error;
        }
      });
      if (!final.done) throw refusal(final.problem, attempts);
      if (final.body === undefined) return;
      return { ...final, body: final.body, attempts };
    } catch (error) {
      if (!(error instanceof NotYet)) throw error;
      throw new OutcomeUnknown(`no final answer in time: ${error.message}`, lastProblem, attempts, { cause: error });
    }
  }

  async #send(sending: Sending, end: number): Promise<Final> {
    const headers = new Headers(sending.headers);
    if (this.#options.token !== undefined) headers.set("Authorization", `Bearer ${this.#options.token}`);
    if (sending.body !== undefined) headers.set("Content-Type", "application/json");
    const timeout = Math.max(0, Math.min(this.#options.attemptTimeout, end - performance.now(), LONGEST_TIMER));
    const stop = new AbortController();
    // Built outside of the try: a request that cannot be built is a mistake on this side and would fail every time.
    const request = new Request(this.#base + sending.path, {
      method: sending.method,
      headers,
      body: sending.body ?? null,
      // Redirects would send the body elsewhere, or turn the POST into a GET.
      redirect: "manual",
      signal: stop.signal,
    });
    const timer = setTimeout(() => stop.abort(), timeout);
    let response: Response;
    let content: Uint8Array;
    try {
      response = await this.#options.fetch(request);
      content = await readBytes(response);
    } catch (cause) {
      throw new NotYet("no complete answer", { cause });
    } finally {
      clearTimeout(timer);
      stop.abort(); // what is not read yet is not wanted
    }
    return read(sending.success, response, content);
  }

  #pause(after: number | undefined, attempts: number): number {
    const { pause } = this.#options;
    const least = after === undefined ? Math.min(LONGEST_PAUSE, pause * 2 ** Math.min(attempts - 1, 16)) : Math.max(after, pause);
    // Never earlier than asked, and not all clients at once.
    return least * (1 + Math.random() / 2);
  }

  /** Seconds that the server may hold a request which asks for an answer that was not finished before. */
  #pollFor(): number {
    return Math.max(1, Math.min(10, Math.floor(this.#options.attemptTimeout / 2000)));
  }
}

interface Settled {
  status: number;
  etag: string | null;
  replayed: boolean;
  body: Reservation;
  attempts: number;
}

function path(id: string): string {
  return "/reservations/" + encodeURIComponent(id);
}

/** The body, which must not be too large. */
async function readBytes(response: Response): Promise<Uint8Array> {
  if (response.body === null) return new Uint8Array();
  const reader = response.body.getReader();
  const chunks = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(chunks).arrayBuffer());
    chunks.push(value);
    size += value.byteLength;
    if (size > LARGEST_ANSWER) throw new RangeError("the answer is too large");
  }
}

function finish({ body, etag }: SavedAnswer, replayed: boolean, attempts: number): Answer {
  if (!isReservation(body)) throw refusal(body, attempts);
  return { reservation: body, etag, replayed, attempts };
}

function refusal(problem: Problem, attempts: number): ReservationError {
  const Kind = problem.retry === "never" ? Rejected : problem.retry === "corrected" ? NeedsCorrection : KeyReused;
  return new Kind(`${problem.title} ${problem.detail}`, problem, attempts);
}

/** The same text for the same JSON value, whatever the order of its members. */
function canonical(value: unknown): string {
  const sorted = (_: string, member: unknown) =>
    isObject(member) ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1))) : member;
  return JSON.stringify(value, sorted);
}
