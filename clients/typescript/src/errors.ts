/** How an operation can end without a reservation. */
import type { Problem } from "./models.js";

/**
 * Every error of this package. `problem` is the server's last problem document, if it sent one. `intent` is the name that the caller
 * gave, undefined where the operation has none; the message begins with it.
 */
export class ReservationError extends Error {
  readonly problem: Problem | undefined;
  readonly attempts: number;
  #intent: string | undefined;

  constructor(message: string, problem?: Problem, attempts = 0, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.problem = problem;
    this.attempts = attempts;
  }

  get intent(): string | undefined {
    return this.#intent;
  }

  /** Says which intent it belongs to, once. */
  of(intent: string): this {
    if (this.#intent === undefined) {
      this.#intent = intent;
      this.message = this.named(intent);
    }
    return this;
  }

  protected named(intent: string): string {
    return `intent ${JSON.stringify(intent)}: ${this.message}`;
  }

  /** The problem's code, such as `booking-rejected`. */
  get code(): string | undefined {
    return this.problem?.code;
  }
}

/** Final: the booking system said no. The same intent gives the same error for ever. */
export class Rejected extends ReservationError {}

/**
 * A mistake in the request, or in the token. The key is kept: call again under the same intent with what was wrong put right.
 *
 * Where an earlier attempt had no answer it may have booked: then the intent takes the same request only.
 */
export class NeedsCorrection extends ReservationError {}

/** The key belongs to another request: a mistake in the program. Never "mend" it with a new key. */
export class KeyReused extends ReservationError {}

/** Not known (yet) whether it is booked. Call again later under the same intent; never make a new one for it. */
export class OutcomeUnknown extends ReservationError {}

/** This intent was begun with another request, which may have been booked. Nothing was sent. */
export class IntentMismatch extends ReservationError {}

/** What the store has under this intent is no record of it. Nothing was sent. */
export class DamagedRecord extends ReservationError {
  protected override named(): string {
    return this.message; // it names the intent itself
  }
}
