/** Where intents are kept, so that a client that comes back after a crash finds its key again. */
import type { ChangeReservation, NewReservation, Problem, Reservation } from "./models.js";

/** A final answer. */
export interface SavedAnswer {
  status: number;
  etag: string | null;
  body: Reservation | Problem;
}

/** An intent: the request, its key, and its final answer once there is one. JSON, the same in every language's helper. */
export interface IntentRecord {
  key: string;
  created_at_ms: number;
  method: string;
  path: string;
  if_match: string | null;
  body: NewReservation | ChangeReservation;
  state: "open" | "corrected" | "final";
  answer: SavedAnswer | null;
}

/** Supplied by the caller. Both methods resolve only when a crash cannot undo them any more. */
export interface Store {
  /** Adds the record unless the intent has one, atomically; gives the one that is there now. */
  begin(intent: string, record: IntentRecord): Promise<IntentRecord>;
  /** Replaces the record. */
  save(intent: string, record: IntentRecord): Promise<void>;
}

/** Forgets with the process: for tests, and for callers for whom a crash cannot leave an intent half done. */
export class MemoryStore implements Store {
  readonly #records = new Map<string, IntentRecord>();

  async begin(intent: string, record: IntentRecord): Promise<IntentRecord> {
    const found = this.#records.get(intent) ?? record;
    this.#records.set(intent, found);
    return structuredClone(found);
  }

  async save(intent: string, record: IntentRecord): Promise<void> {
    this.#records.set(intent, structuredClone(record));
  }
}
