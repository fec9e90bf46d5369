//! The stored answers: the only place where a reservation or a refusal becomes bytes.
//!
//! An answer is a pure function of what is stored at the claim and of the booking's id, so that the one made after a recovery is the
//! one the first caller would have had.

use entity::idempotency_key::{Answer, Record, State};
use entity::reservation::{Details, Reservation, Status};
use entity::timestamp::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// `Content-Type` of a reservation.
pub const JSON: &str = "application/json";
/// `Content-Type` of a problem (RFC 9457).
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Status of a reservation as the API shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ShownStatus {
    /// Asked for; the outcome is not known yet.
    Pending,
    /// Booked.
    Confirmed,
    /// The booking system refused, finally.
    Rejected,
    /// There is no booking; the same request may run again.
    Released,
    /// Cancelled.
    Cancelled,
}

/// A reservation as the API shows it.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    id: &'a str,
    status: ShownStatus,
    item_code: &'a str,
    quantity: i32,
    reserved_by: &'a str,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
    note: Option<&'a str>,
    booking_id: Option<&'a str>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// A refusal (RFC 9457), its members in the order of every other problem. English whatever the caller prefers: it is stored.
#[derive(Debug, Serialize)]
struct Rejected<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    instance: String,
    code: &'a str,
    retry: &'a str,
}

/// A reservation's representation: its bytes, and the strong `ETag` that is made of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Representation {
    /// JSON.
    pub body: Vec<u8>,
    /// With its quotes.
    pub etag: String,
}

/// The stored request of a creation, or the new values of a change, cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the stored request is unreadable: {0}")]
pub struct UnreadableRequest(#[source] serde_json::Error);

/// The details of the reservation that this key makes or changes.
///
/// # Errors
/// [`UnreadableRequest`]: not written by this service, or by a later release of it.
pub fn stored_details(record: &Record) -> Result<Details, UnreadableRequest> {
    serde_json::from_slice(record.change_to.as_deref().unwrap_or(&record.request)).map_err(UnreadableRequest)
}

/// A confirmed or cancelled reservation.
#[must_use]
pub fn represent(reservation: &Reservation) -> Representation {
    let status = match reservation.status {
        Status::Confirmed => ShownStatus::Confirmed,
        Status::Cancelled => ShownStatus::Cancelled,
    };
    shown(
        &reservation.id,
        status,
        &reservation.details,
        Some(&reservation.booking_id),
        (reservation.created_at_ms, reservation.updated_at_ms),
    )
}

/// A reservation that is read from the key that makes it: pending, rejected or released.
///
/// # Errors
/// [`UnreadableRequest`].
pub fn represent_unsettled(record: &Record) -> Result<Representation, UnreadableRequest> {
    let status = match record.state {
        State::InProgress { .. } | State::OutcomeUnknown { .. } => ShownStatus::Pending,
        State::Released { .. } => ShownStatus::Released,
        State::Completed { .. } => ShownStatus::Rejected,
    };
    let at = record.created_at_ms;
    Ok(shown(&record.reservation_id, status, &stored_details(record)?, None, (at, at)))
}

/// A page of confirmed and cancelled reservations.
#[must_use]
pub fn page(reservations: &[Reservation], next_cursor: Option<&str>) -> Vec<u8> {
    let items: Vec<_> = reservations.iter().map(|r| String::from_utf8_lossy(&represent(r).body).into_owned()).collect();
    format!("{{\"items\":[{}],\"next_cursor\":{}}}", items.join(","), serde_json::json!(next_cursor)).into_bytes()
}

/// 201: booked.
#[must_use]
pub fn created(public_base: &str, reservation: &Reservation) -> Answer {
    let representation = represent(reservation);
    Answer {
        status: 201,
        content_type: Some(JSON.into()),
        location: Some(location(public_base, &reservation.id)),
        etag: Some(representation.etag),
        body: representation.body,
    }
}

/// 200: changed.
#[must_use]
pub fn changed(reservation: &Reservation) -> Answer {
    let representation = represent(reservation);
    Answer { status: 200, content_type: Some(JSON.into()), location: None, etag: Some(representation.etag), body: representation.body }
}

/// 204: cancelled.
#[must_use]
pub const fn cancelled() -> Answer {
    Answer { status: 204, content_type: None, location: None, etag: None, body: Vec::new() }
}

/// 422 `booking-rejected`: the booking system's final refusal.
#[must_use]
pub fn rejected(public_base: &str, reservation_id: &str) -> Answer {
    let problem = Rejected {
        r#type: format!("{public_base}/problems/booking-rejected"),
        title: "Booking rejected",
        status: 422,
        detail: "The booking system refused this request for good. Sending it again gives this answer again.",
        instance: location(public_base, reservation_id),
        code: "booking-rejected",
        retry: "never",
    };
    Answer { status: 422, content_type: Some(PROBLEM_JSON.into()), location: None, etag: None, body: json(&problem) }
}

/// Address of a reservation as callers see it.
#[must_use]
pub fn location(public_base: &str, reservation_id: &str) -> String {
    format!("{public_base}/reservations/{reservation_id}")
}

fn shown(
    id: &str,
    status: ShownStatus,
    details: &Details,
    booking_id: Option<&str>,
    (created_at_ms, updated_at_ms): (i64, i64),
) -> Representation {
    let body = json(&Shown {
        id,
        status,
        item_code: &details.item_code,
        quantity: details.quantity,
        reserved_by: &details.reserved_by,
        starts_at: details.starts_at,
        ends_at: details.ends_at,
        note: details.note.as_deref(),
        booking_id,
        created_at: Timestamp::from_millis(created_at_ms),
        updated_at: Timestamp::from_millis(updated_at_ms),
    });
    let etag = format!("\"{}\"", hex::encode(&Sha256::digest(&body)[..16]));
    Representation { body, etag }
}

#[expect(clippy::expect_used, reason = "strings, numbers and nulls always have a JSON form")]
fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a plain struct serializes")
}
