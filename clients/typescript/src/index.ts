/** Reservations that can be retried safely: one key per intent, kept until its answer is final. */
export { Client, type Answer, type ClientOptions } from "./client.js";
export { DamagedRecord, IntentMismatch, KeyReused, NeedsCorrection, OutcomeUnknown, Rejected, ReservationError } from "./errors.js";
export type { ChangeReservation, NewReservation, Problem, Reservation } from "./models.js";
export { MemoryStore, type IntentRecord, type SavedAnswer, type SavedRequest, type Store } from "./store.js";
