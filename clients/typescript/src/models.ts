/** What goes over the wire: generated from openapi.yaml, with the checks that let an answer be believed. */
import type { components } from "./schema.js";

export type NewReservation = components["schemas"]["CreateReservation"];
export type ChangeReservation = components["schemas"]["ChangeReservation"];
export type Reservation = components["schemas"]["Reservation"];
export type Problem = components["schemas"]["Problem"];

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isReservation(value: unknown): value is Reservation {
  return isObject(value) && typeof value["id"] === "string" && typeof value["status"] === "string";
}

export function isProblem(value: unknown): value is Problem {
  return isObject(value) && typeof value["code"] === "string" && typeof value["retry"] === "string";
}
