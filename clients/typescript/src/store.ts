/** Where intents are kept, so that a client that comes back after a crash finds its key again. */
import { DamagedRecord } from "./errors.js";
import {
  isObject,
  isProblem,
  isReservation,
  isTextOrNull,
  type ChangeReservation,
  type NewReservation,
  type Problem,
  type Reservation,
} from "./models.js";

/** What is sent, besides method and path. */
export interface SavedRequest {
  if_match: string | null;
  body: NewReservation | ChangeReservation;
}

/** A final answer. */
export interface SavedAnswer {
  status: number;
  etag: string | null;
  body: Reservation | Problem;
}

/** An intent: the request, its key, and its final answer once there is one. JSON, the same in every language's helper. */
export interface IntentRecord {
  intent: string;
  key: string;
  created_at_ms: number;
  method: string;
  path: string;
  request: SavedRequest;
  /** The requests that stood here before they were refused and mended. */
  replaced: SavedRequest[];
  /** `open`: the request may have been accepted. `mendable`: it was not, so another may take its place. */
  state: "open" | "mendable" | "final";
  answer: SavedAnswer | null;
}

/** Supplied by the caller. `begin` and `save` resolve only when a crash cannot undo them any more. */
export interface Store {
  /** Adds the record unless the intent has one, atomically; gives the one that is there now. */
  begin(intent: string, record: IntentRecord): Promise<IntentRecord>;
  /** Replaces the record. */
  save(intent: string, record: IntentRecord): Promise<void>;
  /** Gives the record that is there now, undefined where the intent has none. */
  find(intent: string): Promise<IntentRecord | undefined>;
}

/** Forgets with the process: for tests, and for callers for whom a crash cannot leave an intent half done. */
export class MemoryStore implements Store {
  readonly #records = new Map<string, IntentRecord>();

  async begin(intent: string, record: IntentRecord): Promise<IntentRecord> {
    const found = this.#records.get(intent) ?? structuredClone(record);
    this.#records.set(intent, found);
    return structuredClone(found);
  }

  async save(intent: string, record: IntentRecord): Promise<void> {
    this.#records.set(intent, structuredClone(record));
  }

  async find(intent: string): Promise<IntentRecord | undefined> {
    return structuredClone(this.#records.get(intent));
  }
}

/** Throws `DamagedRecord` unless it is a record of this intent. */
export function check(intent: string, value: unknown, place = "the store"): IntentRecord {
  const fault = isObject(value) ? wrongMember(intent, value) : "it is no object";
  if (fault !== undefined) throw new DamagedRecord(`the record of intent ${JSON.stringify(intent)} in ${place} is damaged: ${fault}`);
  return value as unknown as IntentRecord;
}

function wrongMember(intent: string, value: Record<string, unknown>): string | undefined {
  const { key, created_at_ms, replaced, state, answer } = value;
  const right = {
    intent: value["intent"] === intent,
    key: typeof key === "string" && /^[!#-[\]-~]{1,255}$/.test(key),
    created_at_ms: Number.isSafeInteger(created_at_ms) && Number(created_at_ms) >= 0,
    method: typeof value["method"] === "string",
    path: typeof value["path"] === "string",
    request: isRequest(value["request"]),
    replaced: Array.isArray(replaced) && replaced.every(isRequest),
    state: state === "open" || state === "mendable" || state === "final",
    answer: state === "final" ? isAnswer(answer) : answer === null,
  };
  const wrong = Object.entries(right).find(([, isRight]) => !isRight);
  return wrong && `its member ${wrong[0]} is missing or wrong`;
}

function isRequest(value: unknown): boolean {
  return isObject(value) && isTextOrNull(value["if_match"]) && isObject(value["body"]);
}

function isAnswer(value: unknown): boolean {
  if (!isObject(value) || !Number.isInteger(value["status"]) || !isTextOrNull(value["etag"])) return false;
  const body = value["body"];
  return Number(value["status"]) < 400 ? isReservation(body) : isProblem(body) && body.retry === "never";
}
