/** The operations. */
import { DelegateBackoff, handleWhen, retry } from "cockatiel";

import { NotYet, read, type Check, type Final } from "./answer.js";
import { IntentMismatch, KeyReused, NeedsCorrection, OutcomeUnknown, Rejected, ReservationError } from "./errors.js";
import { encode } from "./json.js";
import {
  isKeyStatus,
  isObject,
  isReservation,
  type ChangeReservation,
  type NewReservation,
  type Problem,
  type Reservation,
} from "./models.js";
import { check, type IntentRecord, type SavedAnswer, type SavedRequest, type Store } from "./store.js";

const LONGEST_PAUSE = 30_000;
// No setting and no server makes a client spin.
const SHORTEST_PAUSE = 100;
const LARGEST_PAUSE_SETTING = 3_600_000;
// What the server answers to a create that the booking system refused. `lookUp` learns of it from the reservation.
const REJECTED: Problem = {
  type: "/problems/booking-rejected",
  title: "The booking system rejected the reservation.",
  status: 422,
  detail: "The server shows the reservation as rejected; its own answer was lost.",
  code: "booking-rejected",
  retry: "never",
};
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

/** All times are in milliseconds. A setting that cannot work throws; the message names it and its value, but never the token. */
export interface ClientOptions {
  /** Sent as a bearer token. */
  token?: string;
  /** For one call, all attempts and pauses together, 120 s; whatever the server does, the call ends by then. 0 sends nothing; `Infinity` is refused. */
  deadline?: number;
  /** For one attempt, more than 0; longer than the server's `ANSWER_WITHIN` (25 s) saves retries; 40 s. */
  attemptTimeout?: number;
  /** The first pause where the server names none, 1 s; 0 to an hour; it doubles up to 30 s. No pause is shorter than 0.1 s. */
  pause?: number;
  /** An intent older than this is never sent again, 20 h, more than 0; keep it below the server's `retention_ms`. */
  keepFor?: number;
  /** Instead of the global `fetch`, for proxies or hooks. */
  fetch?: (request: Request) => Promise<Response>;
}

interface Sending<T = Reservation> {
  method: string;
  path: string;
  headers: Headers;
  body?: string;
  success: number;
  expected: Check<T>;
}

/** Sends each intent under one key until its answer is final. */
export class Client {
  readonly #base: string;
  readonly #store: Store;
  readonly #options: Required<Omit<ClientOptions, "token">> & { token: string | undefined };

  constructor(baseUrl: string, store: Store, options: ClientOptions = {}) {
    if (typeof baseUrl !== "string" || !/^https?:$/.test(protocolOf(baseUrl))) {
      throw new TypeError(`baseUrl must begin with http:// or https:// and name a host, not ${shown(baseUrl)}`);
    }
    if (![store?.begin, store?.save, store?.find].every((method) => typeof method === "function")) {
      throw new TypeError(`store must have the methods begin, save and find, not ${shown(store)}`);
    }
    if (options.fetch !== undefined && typeof options.fetch !== "function") {
      throw new TypeError(`fetch must be a function, not ${shown(options.fetch)}`);
    }
    checkToken(options.token);
    this.#base = baseUrl.replace(/\/+$/, "");
    this.#store = store;
    this.#options = {
      token: options.token,
      deadline: milliseconds("deadline", options.deadline ?? 120_000, { zero: true, most: Number.MAX_VALUE }),
      attemptTimeout: milliseconds("attemptTimeout", options.attemptTimeout ?? 40_000),
      pause: milliseconds("pause", options.pause ?? 1000, { zero: true, most: LARGEST_PAUSE_SETTING }),
      keepFor: milliseconds("keepFor", options.keepFor ?? 20 * 3_600_000),
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
    return this.#keyed(intent, { method: "POST", path: "/reservations", headers, success: 201, expected: isReservation }, request);
  }

  /** Changes a reservation, once for this intent. `ifMatch`: the ETag of what the change was decided on. */
  async change(intent: string, id: string, change: ChangeReservation, ifMatch: string): Promise<Answer> {
    const headers = new Headers({ "If-Match": ifMatch });
    return this.#keyed(intent, { method: "PATCH", path: path(id), headers, success: 200, expected: isReservation }, { if_match: ifMatch, body: change });
  }

  /** Cancels a reservation. Needs no intent: cancelling twice is cancelling once. */
  async cancel(id: string): Promise<void> {
    const sending = { method: "DELETE", path: path(id), headers: new Headers(), success: 204 as const, expected: isReservation };
    await this.#settle(sending, this.#options.deadline);
  }

  /** Reads a reservation. */
  async get(id: string): Promise<Answer> {
    const sending = { method: "GET", path: path(id), headers: new Headers(), success: 200, expected: isReservation };
    const { etag, body, attempts } = await this.#settle(sending, this.#options.deadline);
    return { reservation: body, etag, replayed: false, attempts };
  }

  /**
   * Asks the server what happened under the intent's key, and closes the intent or frees it. Books nothing.
   *
   * The way out where an attempt had no answer and the next was refused (`NeedsCorrection`), so that the intent takes no other
   * request. Call it with a token of the same account: no other account sees the key.
   *
   * Gives the reservation as it is now where the intent was carried out; the intent then has its answer. Gives `undefined` where
   * nothing was accepted: `create` or `change` takes another request under the same intent and key. Should the lost attempt arrive
   * after that, the key lets only one of the two book.
   *
   * Throws `Rejected` where the booking system said no, `OutcomeUnknown` where that cannot be told yet.
   */
  async lookUp(intent: string): Promise<Answer | undefined> {
    return named(intent, this.#lookUp(intent));
  }

  async #lookUp(intent: string): Promise<Answer | undefined> {
    const end = performance.now() + this.#options.deadline;
    const record = await this.#find(intent);
    if (record === undefined || record.state === "mendable") return undefined;
    if (record.answer !== null) return finish(record.answer, false, 0);
    const create = record.method === "POST";
    const operation = create ? "createReservation" : "changeReservation";
    const look = `/idempotency-keys/${encodeURIComponent(record.key)}?operation=${operation}`;
    const asking = { method: "GET", path: look, headers: new Headers(), success: 200, expected: isKeyStatus };
    let found;
    try {
      found = await this.#settle(asking, this.#options.deadline);
    } catch (error) {
      if (!(error instanceof NeedsCorrection && error.code === "not-found")) throw error;
      const stored = await this.#stored(intent, error.attempts);
      if (stored !== undefined) return stored;
      // After its retention the server has forgotten the key, whatever was booked under it.
      if (record.created_at_ms + this.#options.keepFor <= Date.now()) {
        const message = "the server does not know the key, which may be too old: look whether it was booked";
        throw new OutcomeUnknown(message, error.problem, error.attempts, { cause: error });
      }
      await this.#store.save(intent, { ...record, state: "mendable" });
      return undefined;
    }
    let { attempts } = found;
    const { state, reservation_id } = found.body;
    if (state !== "completed" || reservation_id === null || found.body.operation !== operation) {
      throw new OutcomeUnknown(`the key is ${state}: make the same call again later`, undefined, attempts);
    }
    const reading = { method: "GET", path: path(reservation_id), headers: new Headers(), success: 200, expected: isReservation };
    let read;
    try {
      read = await this.#settle(reading, end - performance.now());
    } catch (cause) {
      if (!(cause instanceof ReservationError)) throw cause;
      throw new OutcomeUnknown(`the reservation cannot be read: ${cause.message}`, cause.problem, attempts, { cause });
    }
    attempts += read.attempts;
    const { status } = read.body;
    if (create && status === "rejected") {
      await this.#saveAnswer(intent, record, { status: 422, etag: null, body: REJECTED });
      throw refusal(REJECTED, attempts);
    }
    const carriedOut = create ? status === "confirmed" || status === "cancelled" : shows(read.body, record.request.body);
    if (!carriedOut) {
      throw new OutcomeUnknown(`reservation ${reservation_id} does not show what became of it: look at it`, undefined, attempts);
    }
    const answer = { status: create ? 201 : 200, etag: read.etag, body: read.body };
    await this.#saveAnswer(intent, record, answer);
    return finish(answer, false, attempts);
  }

  async #find(intent: string): Promise<IntentRecord | undefined> {
    const found = await this.#store.find(intent);
    return found === undefined ? undefined : check(intent, found);
  }

  /** The final answer that another call has stored meanwhile, if any. Throws where that is a refusal. */
  async #stored(intent: string, attempts: number): Promise<Answer | undefined> {
    const answer = (await this.#find(intent))?.answer ?? null;
    return answer === null ? undefined : finish(answer, false, attempts);
  }

  async #keyed(intent: string, sending: Sending, request: SavedRequest): Promise<Answer> {
    return named(intent, this.#sendIntent(intent, sending, request));
  }

  async #sendIntent(intent: string, sending: Sending, request: SavedRequest): Promise<Answer> {
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
    let settled: Settled<Reservation>;
    try {
      settled = await this.#settle(sending, Math.min(this.#options.deadline, left));
    } catch (error) {
      if (!(error instanceof ReservationError)) throw error;
      // Another call may have stored the final answer since this one began: a late refusal must not overwrite it.
      const stored = await this.#stored(intent, error.attempts);
      if (stored !== undefined) return stored;
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
  #settle<T>(sending: Sending<T>, deadline: number): Promise<Settled<T>>;
  /** Sends the same request until its answer is final or the deadline is over. */
  async #settle<T>(sending: Sending<T>, deadline: number): Promise<Settled<T> | void> {
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

  async #send<T>(sending: Sending<T>, end: number): Promise<Final<T>> {
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
    return read(sending.success, sending.expected, response, content);
  }

  #pause(after: number | undefined, attempts: number): number {
    const { pause } = this.#options;
    const least = after === undefined ? Math.min(LONGEST_PAUSE, pause * 2 ** Math.min(attempts - 1, 16)) : Math.max(after, pause);
    // Never earlier than asked, and not all clients at once.
    return Math.max(least, SHORTEST_PAUSE) * (1 + Math.random() / 2);
  }

  /** Seconds that the server may hold a request which asks for an answer that was not finished before. */
  #pollFor(): number {
    return Math.max(1, Math.min(10, Math.floor(this.#options.attemptTimeout / 2000)));
  }
}

interface Settled<T> {
  status: number;
  etag: string | null;
  replayed: boolean;
  body: T;
  attempts: number;
}

function path(id: string): string {
  return "/reservations/" + encodeURIComponent(id);
}

/** Lets an error say which intent it belongs to. */
async function named<T>(intent: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof ReservationError ? error.of(intent) : error;
  }
}

function shows(reservation: Reservation, change: object): boolean {
  return Object.entries(change).every(([name, value]) => reservation[name as keyof Reservation] === value);
}

function shown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

function protocolOf(url: string): string {
  try {
    return new URL(url).protocol;
  } catch {
    return "";
  }
}

function checkToken(token: unknown): void {
  if (token === undefined) return;
  // Headers would trim white space at the ends, and take a line break there.
  if (typeof token !== "string" || !/^[!-~]([ -~]*[!-~])?$/.test(token)) throw new TypeError("token must be visible ASCII characters");
}

function milliseconds(name: string, value: unknown, { zero = false, most = Infinity } = {}): number {
  const range = (zero ? "from 0" : "above 0") + (most < Number.MAX_VALUE ? ` to ${most}` : "");
  const wanted = `${name} must be a ${most === Number.MAX_VALUE ? "finite " : ""}number of milliseconds ${range}, not ${shown(value)}`;
  if (typeof value !== "number") throw new TypeError(wanted);
  // NaN is neither above nor below: such a deadline would never be over.
  if (!((zero ? value >= 0 : value > 0) && value <= most)) throw new RangeError(wanted);
  return value;
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
