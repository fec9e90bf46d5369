//! What a keyed request is told when it gets no answer: the problems of the table, each with its `Retry-After`.

use entity::idempotency_key::{Record, State};
use entity::key_scope::Operation;
use jobs::answer::location;
use jobs::booking::Nothing;
use serde_json::Value;

use super::patience::Patience;
use crate::http::payload;
use crate::http::problem::{Code, Problem};
use crate::http::stored::PREFERENCE_APPLIED;
use crate::service::Service;

/// Spread, so that a herd does not come back at once; within the lease, after which a retry takes over.
pub(super) fn retry_within_lease_s(record: &Record) -> u64 {
    let left_s = u64::try_from(record.lease_left_ms().unwrap_or(0)).unwrap_or(0).div_ceil(1000);
    rand::random_range(1..=left_s.clamp(1, 5))
}

pub(super) fn key_in_progress(record: &Record, patience: &Patience) -> Problem {
    let problem = Problem::new(Code::KeyInProgress, "The first request under this key is still being worked on.")
        .retry_after_s(retry_within_lease_s(record));
    match patience.applied(false).and_then(|applied| applied.parse().ok()) {
        Some(applied) => problem.header(PREFERENCE_APPLIED, applied),
        None => problem,
    }
}

pub(super) fn outcome_unknown(record: &Record) -> Problem {
    let problem = Problem::new(
        Code::OutcomeUnknown,
        "Nobody can tell yet whether the booking system booked this request. Ask again under this key; a new key could book twice.",
    );
    match record.state {
        State::OutcomeUnknown { next_look_at_ms: Some(at) } => {
            let wait_ms = u64::try_from(at - record.now_ms).unwrap_or(0);
            problem.retry_after_s(wait_ms.div_ceil(1000).clamp(1, 300))
        }
        State::OutcomeUnknown { .. } | State::InProgress { .. } | State::Completed { .. } | State::Released { .. } => problem,
    }
}

/// Names the members that differ, never the other request's values.
pub(super) fn key_reused(record: &Record, sent: &Value) -> Problem {
    let stored: Value = serde_json::from_slice(&record.request).unwrap_or_default();
    let mismatch = payload::mismatch(&stored, sent);
    let detail = if mismatch.is_empty() {
        "This key belongs to the same request for another reservation. Nothing was done; make a new key for a new request."
    } else {
        "This key belongs to another request. Nothing was done; make a new key for a new request."
    };
    Problem::new(Code::KeyReused, detail).mismatch(mismatch)
}

/// The booking system's final no to what is not stored: a cancellation.
pub(super) fn refused(service: &Service, record: &Record) -> Problem {
    Problem::new(Code::BookingRejected, "The booking system refused this request. Nothing was changed.")
        .instance(location(&service.settler.settings().public_base, &record.reservation_id))
}

/// A cancellation has no key of the caller's.
pub(super) const fn under_its_key(operation: Operation) -> &'static str {
    match operation {
        Operation::Create | Operation::Change => " under the same key",
        Operation::Cancel => "",
    }
}

/// What a caller hears whose outcome is not known in time.
pub(super) fn outcome_pending(record: &Record) -> Problem {
    let under_its_key = under_its_key(record.operation);
    Problem::new(Code::OutcomePending, format!("The outcome is not known yet. Send the same request again{under_its_key}."))
        .retry_after_s(retry_within_lease_s(record))
}

/// The same where there is no record at hand.
pub(in crate::http) fn outcome_pending_soon() -> Problem {
    Problem::new(Code::OutcomePending, "The outcome is not known yet. Send the same request again.")
        .retry_after_s(rand::random_range(1..=3))
}

/// Nothing happened at the booking system; the key is bound to no request.
pub(super) fn freed(nothing: Nothing, operation: Operation) -> Problem {
    let (code, what, retry_after_s) = match nothing {
        Nothing::NoConnection => (Code::BookingSystemUnavailable, "The booking system cannot be reached.", rand::random_range(1..=3)),
        Nothing::Misconfigured { .. } => {
            let what = "The booking system does not accept this service's calls.";
            (Code::BookingSystemMisconfigured, what, rand::random_range(5..=15))
        }
        Nothing::Busy { retry_after_s } => (Code::BookingSystemBusy, "The booking system is too busy.", retry_after_s),
    };
    let nothing = match operation {
        Operation::Create => "Nothing was booked; the key is free.",
        Operation::Change => "Nothing was changed; the key is free.",
        Operation::Cancel => "Nothing was cancelled.",
    };
    Problem::new(code, format!("{what} {nothing}")).retry_after_s(retry_after_s)
}

/// Another change of the reservation is not settled.
pub(in crate::http) fn reservation_busy(for_ms: Option<i64>) -> Problem {
    let wait_s = for_ms.and_then(|ms| u64::try_from(ms).ok()).map_or_else(|| rand::random_range(1..=3), |ms| ms.div_ceil(1000).max(1));
    Problem::new(Code::ReservationBusy, "Another change of this reservation is not settled yet. Nothing was done.").retry_after_s(wait_s)
}

pub(super) fn internal() -> Problem {
    Problem::new(Code::Internal, "The service failed while it handled this request.")
}
