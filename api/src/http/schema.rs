//! How the OpenAPI document shows what is answered. The bytes are made by `jobs::answer`; a test holds the two together.

use poem_openapi::{Enum, Object};

use super::payload::DateTime;

/// Where a reservation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename = "ReservationStatus", rename_all = "lowercase")]
pub enum ReservationStatus {
    /// Asked for; the outcome is not known yet.
    Pending,
    /// Booked; permanent.
    Confirmed,
    /// The booking system refused, finally; readable as long as its key lives.
    Rejected,
    /// There is no booking; the same request may run again under its key.
    Released,
    /// Cancelled; permanent.
    Cancelled,
}

/// A reservation.
#[derive(Debug, Clone, Object)]
#[oai(rename = "Reservation")]
pub struct ReservationBody {
    /// UUIDv7; also the reference under which the booking system knows it.
    #[oai(validator(min_length = 36, max_length = 36))]
    pub id: String,
    /// Where it stands.
    pub status: ReservationStatus,
    /// What is reserved.
    pub item_code: String,
    /// How many.
    pub quantity: i32,
    /// For whom.
    pub reserved_by: String,
    /// Begin of the period, in UTC.
    #[oai(nullable)]
    pub starts_at: Option<DateTime>,
    /// End of the period, in UTC.
    #[oai(nullable)]
    pub ends_at: Option<DateTime>,
    /// Free text.
    #[oai(nullable)]
    pub note: Option<String>,
    /// The booking system's id; null until booked.
    #[oai(nullable)]
    pub booking_id: Option<String>,
    /// When its key was claimed.
    pub created_at: DateTime,
    /// When it last changed.
    pub updated_at: DateTime,
}

/// One page of reservations, newest first.
#[derive(Debug, Clone, Object)]
#[oai(rename = "ReservationList")]
pub struct ReservationListBody {
    /// The reservations of this page.
    pub items: Vec<ReservationBody>,
    /// Where the next page begins; null on the last one.
    #[oai(nullable)]
    pub next_cursor: Option<String>,
}

/// State of an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename = "KeyState", rename_all = "snake_case")]
pub enum KeyStateBody {
    /// A request under it is being worked on.
    InProgress,
    /// Its answer is stored.
    Completed,
    /// There is no booking; the same request may run again.
    Released,
    /// Nobody can tell yet; do not make a new key.
    OutcomeUnknown,
}

/// A keyed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename = "KeyedOperation", rename_all = "camelCase")]
pub enum OperationBody {
    /// `POST /reservations`.
    CreateReservation,
    /// `PATCH /reservations/{id}`.
    ChangeReservation,
}

/// The caller's own idempotency key.
#[derive(Debug, Clone, Object)]
#[oai(rename = "IdempotencyKey")]
pub struct IdempotencyKeyBody {
    /// The key, decoded.
    pub key: String,
    /// What it is for.
    pub operation: OperationBody,
    /// Where it stands.
    pub state: KeyStateBody,
    /// Attempts so far.
    pub attempt: i64,
    /// The reservation it makes or changes.
    pub reservation_id: String,
    /// What is left of the lease; null where there is none.
    #[oai(nullable)]
    pub lease_remaining_ms: Option<i64>,
    /// When it was claimed.
    pub created_at: DateTime,
    /// When its answer was stored; null before.
    #[oai(nullable)]
    pub completed_at: Option<DateTime>,
    /// When it expires; null before completion or final release.
    #[oai(nullable)]
    pub expires_at: Option<DateTime>,
}

/// How this server treats idempotency keys.
#[derive(Debug, Clone, Object)]
#[oai(rename = "IdempotencyPolicy")]
pub struct IdempotencyPolicyBody {
    /// The request header that carries the key.
    pub header: String,
    /// `lenient`: a quoted string (RFC 9651) or bare; `strict`: quoted only.
    pub key_syntax: String,
    /// Longest key, decoded.
    pub key_max_length: i32,
    /// What a key is valid for.
    pub scope: Vec<String>,
    /// How long an answer is kept, from its completion.
    pub retention_ms: i64,
    /// How long a worker has a key to itself without renewing.
    pub lease_ms: i64,
    /// What is stored of an answer and replayed.
    pub stored: Vec<String>,
    /// How two requests are compared.
    pub fingerprint: FingerprintPolicyBody,
}

/// How two requests are compared.
#[derive(Debug, Clone, Object)]
#[oai(rename = "FingerprintPolicy")]
pub struct FingerprintPolicyBody {
    /// Version that new keys carry.
    pub version: i32,
    /// Digest.
    pub algorithm: String,
    /// Canonical form of the digested JSON.
    pub canonical_form: String,
    /// What is digested.
    pub members: Vec<String>,
}
