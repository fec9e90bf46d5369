/** What goes over the wire: generated from openapi.yaml, with the checks that let an answer be believed. */
import type { components } from "./schema.js";

export type NewReservation = components["schemas"]["CreateReservation"];
export type ChangeReservation = components["schemas"]["ChangeReservation"];
export type Reservation = components["schemas"]["Reservation"];
export type Problem = components["schemas"]["Problem"];

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isTextOrNull(value: unknown): value is string | null {
  return typeof value === "string" || value === null;
}

/** Whether it is what the document says a `Reservation` is; a status of a later version is one too. */
export function isReservation(value: unknown): value is Reservation {
  return (
    isObject(value) &&
    ["id", "status", "item_code", "reserved_by", "created_at", "updated_at"].every((name) => typeof value[name] === "string") &&
    typeof value["quantity"] === "number" &&
    (value["quantity"] | 0) === value["quantity"] &&
    ["starts_at", "ends_at", "note", "booking_id"].every((name) => isTextOrNull(value[name]))
  );
}

export interface KeyStatus {
  operation: string;
  state: string;
  reservation_id: string | null;
}

/** Whether it has what `lookUp` needs of an `IdempotencyKeyStatus`; a state of a later version is one too. */
export function isKeyStatus(value: unknown): value is KeyStatus {
  return (
    isObject(value) &&
    typeof value["operation"] === "string" &&
    typeof value["state"] === "string" &&
    isTextOrNull(value["reservation_id"])
  );
}

/** Whether it is what the document says a `Problem` is; a code or advice of a later version is one too. */
export function isProblem(value: unknown): value is Problem {
  if (!isObject(value)) return false;
  const { status, instance = "", errors = [], mismatch = [] } = value;
  return (
    ["type", "title", "detail", "code", "retry"].every((name) => typeof value[name] === "string") &&
    Number.isInteger(status) &&
    Number(status) >= 400 &&
    Number(status) <= 599 &&
    typeof instance === "string" &&
    Array.isArray(errors) &&
    errors.every((error) => isObject(error) && typeof error["pointer"] === "string" && typeof error["detail"] === "string") &&
    Array.isArray(mismatch) &&
    mismatch.every((pointer) => typeof pointer === "string")
  );
}
