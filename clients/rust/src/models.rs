//! What goes over the wire. A test compares these with the types generated from openapi.yaml.

use serde::{Deserialize, Deserializer, Serialize};

/// A reservation to be made. Times are RFC 3339 with an offset.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NewReservation {
    /// What is reserved; 1 to 64 characters.
    pub item_code: String,
    /// How many, at least 1.
    pub quantity: i32,
    /// For whom; 1 to 128 characters.
    pub reserved_by: String,
    /// Begin of the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<String>,
    /// End of the period, after its begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<String>,
    /// Free text; up to 1000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A change: `None` leaves a member as it is, `Some(None)` clears an optional one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ChangeReservation {
    /// How many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity: Option<i32>,
    /// Begin of the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Option<String>>,
    /// End of the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Option<String>>,
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Option<String>>,
}

/// Where a reservation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// Not known yet.
    Pending,
    /// Booked.
    Confirmed,
    /// Refused for good.
    Rejected,
    /// There was no booking when the server looked: the same request may be sent again, under the same key.
    Released,
    /// Cancelled.
    Cancelled,
    /// One that a later version of the server has.
    #[serde(other)]
    Other,
}

/// A reservation as the server shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// A UUIDv7.
    pub id: String,
    /// Where it stands.
    pub status: Status,
    /// What is reserved.
    pub item_code: String,
    /// How many.
    pub quantity: i32,
    /// For whom.
    pub reserved_by: String,
    /// Begin of the period.
    #[serde(deserialize_with = "Option::deserialize")] // or it might be absent
    pub starts_at: Option<String>,
    /// End of the period.
    #[serde(deserialize_with = "Option::deserialize")] // or it might be absent
    pub ends_at: Option<String>,
    /// Free text.
    #[serde(deserialize_with = "Option::deserialize")] // or it might be absent
    pub note: Option<String>,
    /// The booking system's id, once booked.
    #[serde(deserialize_with = "Option::deserialize")] // or it might be absent
    pub booking_id: Option<String>,
    /// When its key was claimed.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
}

/// What `Client::look_up` needs of an `IdempotencyKeyStatus`.
#[derive(Debug, Deserialize)]
pub(crate) struct KeyStatus {
    pub operation: String,
    pub state: String,
    #[serde(deserialize_with = "Option::deserialize")] // or it might be absent
    pub reservation_id: Option<String>,
}

/// What a problem asks the caller to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Retry {
    /// Send it again as it is.
    SameKey,
    /// Correct it; the key is not spent.
    Corrected,
    /// This key belongs to another request.
    NewKey,
    /// Final.
    Never,
    /// Outcome unknown: ask again, and do not make a new key.
    Ask,
    /// Advice that a later version of the server gives.
    #[serde(other)]
    Other,
}

/// One fault in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// JSON Pointer into the body.
    pub pointer: String,
    /// What is wrong there.
    pub detail: String,
}

/// An error answer (RFC 9457). Decide by `code`, show `title` and `detail`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A page that explains it.
    pub r#type: String,
    /// What kind of problem it is.
    pub title: String,
    /// The status of the answer, 400 to 599.
    #[serde(deserialize_with = "error_status")]
    pub status: u16,
    /// What is special about this occurrence.
    pub detail: String,
    /// Which problem it is, such as `booking-rejected`.
    pub code: String,
    /// What to do.
    pub retry: Retry,
    /// The resource it is about.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_null")]
    pub instance: Option<String>,
    /// Every fault found in the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Where the request differs from the one that owns the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mismatch: Vec<String>,
}

fn not_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

fn error_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let status = u16::deserialize(deserializer)?;
    if (400..=599).contains(&status) { Ok(status) } else { Err(serde::de::Error::custom("not the status of an error")) }
}
