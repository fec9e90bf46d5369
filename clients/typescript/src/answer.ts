/** Reads one answer and decides: done, final error, or once more under the same key. */
import { decode } from "./json.js";
import { isProblem, type Problem } from "./models.js";

export type Final<T> =
  | { done: true; status: number; etag: string | null; replayed: boolean; body: T | undefined }
  | { done: false; problem: Problem };

export type Check<T> = (value: unknown) => value is T;

/** The outcome is not known yet: send the same request again under the same key. */
export class NotYet extends Error {
  /** Milliseconds, as the server or a gateway asked for. */
  readonly after: number | undefined;
  readonly problem: Problem | undefined;
  readonly accepted: boolean;
  /** Milliseconds to wait before the next attempt; set by the loop. */
  pause = 0;

  constructor(reason: string, known: { after?: number | undefined; problem?: Problem; accepted?: boolean; cause?: unknown } = {}) {
    super(reason, { cause: known.cause });
    this.after = known.after;
    this.problem = known.problem;
    this.accepted = known.accepted ?? false;
  }
}

/** Throws `NotYet` unless the answer is final. `success`: the one status that means done; `expected`: what its body must be. */
export function read<T>(success: number, expected: Check<T>, response: Response, content: Uint8Array): Final<T> {
  const after = retryAfter(response.headers.get("Retry-After"));
  const body = parse(content);
  if (response.status === 202) throw new NotYet("accepted, not finished", { after, accepted: true });
  if (response.status === success) {
    const replayed = response.headers.get("Idempotent-Replayed") === "true";
    const head = { done: true, status: success, etag: response.headers.get("ETag"), replayed } as const;
    if (success === 204) return { ...head, body: undefined };
    if (expected(body)) return { ...head, body };
  }
  if (isProblem(body) && body.status === response.status) {
    switch (body.retry) {
      case "never":
      case "corrected":
      case "new_key":
        return { done: false, problem: body };
      case "same_key":
      case "ask":
        throw new NotYet(body.code, { after, problem: body });
    }
  }
  // A gateway's page, a truncated body, a redirect, advice from a later version: it says nothing about the booking.
  throw new NotYet(`status ${response.status} without an answer of the server`, { after });
}

function parse(content: Uint8Array): unknown {
  try {
    return decode(content);
  } catch {
    return undefined;
  }
}

/** Seconds, or a date as gateways send it. */
function retryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  if (/^\s*[0-9]+\s*$/.test(value)) return Number(value) * 1000;
  // Date.parse alone would take "1.5" for a day in 2001.
  const date = /^\s*[A-Za-z]{3,9},? .* GMT\s*$/.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}
