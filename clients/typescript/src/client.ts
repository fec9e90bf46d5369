/** The operations. */
import { DelegateBackoff, handleWhen, retry } from "cockatiel";

import { NotYet, read, type Final } from "./answer.js";
import { IntentMismatch, KeyReused, NeedsCorrection, OutcomeUnknown, Rejected, ReservationError } from "./errors.js";
import { isObject, isReservation, type ChangeReservation, type NewReservation, type Problem, type Reservation } from "./models.js";
import type { IntentRecord, Store } from "./store.js";

const LONGEST_PAUSE = 30_000;

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

/** Times are in milliseconds. */
export interface ClientOptions {
  /** Sent as a bearer token. */
  token?: string;
  /** For one call, all attempts and pauses together; 120 s. */
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
    return this.#keyed(intent, { method: "POST", path: "/reservations", headers, success: 201 }, null, reservation);
  }

  /** Changes a reservation, once for this intent. `ifMatch`: the ETag of what the change was decided on. */
  async change(intent: string, id: string, change: ChangeReservation, ifMatch: string): Promise<Answer> {
    return this.#keyed(intent, { method: "PATCH", path: path(id), headers: new Headers(), success: 200 }, ifMatch, change);
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

  async #keyed(
    intent: string,
    sending: Sending,
    ifMatch: string | null,
    body: NewReservation | ChangeReservation,
  ): Promise<Answer> {
    // The key exists, durably, before the first attempt: whoever comes back after a crash finds it.
    let record: IntentRecord = await this.#store.begin(intent, {
      key: crypto.randomUUID(),
      created_at_ms: Date.now(),
      method: sending.method,
      path: sending.path,
      if_match: ifMatch,
      body,
      state: "open",
      answer: null,
    });
    if (record.method !== sending.method || record.path !== sending.path) {
      throw new IntentMismatch("this intent was begun with another operation");
    }
    if (record.if_match !== ifMatch || canonical(record.body) !== canonical(body)) {
      // A refused request may be mended. Safe under the same key: had it been spent after all, the server would say so.
      if (record.state !== "corrected") throw new IntentMismatch("this intent was begun with another request");
      record = { ...record, if_match: ifMatch, body, state: "open" };
      await this.#store.save(intent, record);
    }
    if (record.answer !== null) return finish(record.answer.body, record.answer.etag, false, 0);

    // The server forgets a key after its retention. Sent again after that it would book again.
    const left = record.created_at_ms + this.#options.keepFor - Date.now();
    if (left <= 0) throw new OutcomeUnknown("this intent is too old to be sent again: look whether it was booked");
    sending.headers.set("Idempotency-Key", `"${record.key}"`);
    if (record.if_match !== null) sending.headers.set("If-Match", record.if_match);
    sending.body = JSON.stringify(record.body);
    try {
      const { status, etag, replayed, body, attempts } = await this.#settle(sending, Math.min(this.#options.deadline, left));
      await this.#store.save(intent, { ...record, state: "final", answer: { status, etag, body } });
      return finish(body, etag, replayed, attempts);
    } catch (error) {
      if (error instanceof Rejected && error.problem) {
        const answer = { status: error.problem.status, etag: null, body: error.problem };
        await this.#store.save(intent, { ...record, state: "final", answer });
      } else if (error instanceof NeedsCorrection) {
        await this.#store.save(intent, { ...record, state: "corrected" });
      }
      throw error;
    }
  }

  #settle(sending: Sending & { success: 204 }, deadline: number): Promise<void>;
  #settle(sending: Sending, deadline: number): Promise<Settled>;
  /** Sends the same request until its answer is final or the deadline is over. */
  async #settle(sending: Sending, deadline: number): Promise<Settled | void> {
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
    const timeout = Math.max(1, Math.min(this.#options.attemptTimeout, end - performance.now()));
    // Built outside of the try: a request that cannot be built is a mistake on this side and would fail every time.
    const request = new Request(this.#base + sending.path, {
      method: sending.method,
      headers,
      body: sending.body ?? null,
      // Redirects would send the body elsewhere, or turn the POST into a GET.
      redirect: "manual",
      signal: AbortSignal.timeout(Math.ceil(timeout)),
    });
    let response: Response;
    let text: string;
    try {
      response = await this.#options.fetch(request);
      text = await response.text();
    } catch (cause) {
      throw new NotYet("no answer", { cause });
    }
    return read(sending.success, response, text);
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

function finish(body: Reservation | Problem, etag: string | null, replayed: boolean, attempts: number): Answer {
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
