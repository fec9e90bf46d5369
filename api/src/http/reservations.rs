//! The reservations: create, change, cancel, read, list.

mod change;
mod create;
mod read;

use std::sync::Arc;

use entity::api_token::Principal;
use entity::idempotency_key::{Record, State};
use entity::lifecycle;
use entity::reservation;
use jobs::request::{Change, Details};
use poem::Request;
use poem_openapi::param::Path;
use poem_openapi::{Enum, OpenApi, Tags};

use super::auth::Caller;
use super::documented::{self, Answers, Header};
use super::parameter::{HeaderParameter, KeyParameter, QueryParameter};
use super::payload::StrictJson;
use super::problem::{Code, Problem};
use super::schema::{ReservationBody, ReservationListBody};
use crate::service::Service;

/// The operations on reservations.
pub struct ReservationsApi;

#[derive(Tags)]
enum Tag {
    /// Make, change, cancel and read reservations.
    Reservations,
}

/// Which reservations to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename = "ReservationStatusFilter", rename_all = "lowercase")]
pub enum StatusFilter {
    /// Booked.
    Confirmed,
    /// Cancelled.
    Cancelled,
}

/// Documents `createReservation`.
pub struct Create;
/// Documents `changeReservation`.
pub struct ChangeIt;
/// Documents `cancelReservation`.
pub struct Cancel;
/// Documents `getReservation`.
pub struct Get;
/// Documents `listReservations`.
pub struct List;

const KEYED: &[Header] = &[Header::ETag, Header::IdempotentReplayed, Header::PreferenceApplied];
const ACCEPTED: &[Header] = &[Header::Location, Header::ETag, Header::PreferenceApplied, Header::RetryAfter];

impl Answers for Create {
    type Body = ReservationBody;
    const TAKES_KEY: bool = true;
    const SUCCESSES: &'static [(u16, &'static str, bool, &'static [Header])] = &[
        (
            201,
            "Booked. A retry gets the same bytes, marked `Idempotent-Replayed: true`.",
            true,
            &[Header::Location, Header::ETag, Header::IdempotentReplayed, Header::PreferenceApplied],
        ),
        (202, "Still being worked on: the pending reservation, where `Prefer` asked for it.", true, ACCEPTED),
    ];
    const PROBLEMS: &'static [(u16, &'static str)] = &[
        (400, "`key-missing`, `key-malformed`, `request-invalid`: correct it; the key is not spent."),
        (401, "`unauthenticated`"),
        (403, "`forbidden`"),
        (408, "`request-timeout`: the body did not arrive in time."),
        (409, "`key-in-progress`: retry after `Retry-After`. `outcome-unknown`: ask again, do not make a new key."),
        (413, "`body-too-large`"),
        (415, "`media-type-unsupported`"),
        (422, "`key-reused`: this key belongs to another request. `booking-rejected`: the booking system's final no, stored and replayed."),
        (429, "`too-many-requests`"),
        (500, "`internal`"),
        (502, "`booking-system-misconfigured`: nothing was booked."),
        (503, "`booking-system-unavailable`, `booking-system-busy`, `storage-unavailable`: nothing was booked. `outcome-pending`: retry."),
    ];
}

impl Answers for ChangeIt {
    type Body = ReservationBody;
    const TAKES_KEY: bool = true;
    const SUCCESSES: &'static [(u16, &'static str, bool, &'static [Header])] = &[
        (200, "Changed. A retry gets the same bytes, marked `Idempotent-Replayed: true`.", true, KEYED),
        (202, "Still being worked on: the reservation as it stands, where `Prefer` asked for it.", true, ACCEPTED),
    ];
    const PROBLEMS: &'static [(u16, &'static str)] = &[
        (400, "`key-missing`, `key-malformed`, `request-invalid`: correct it; the key is not spent."),
        (401, "`unauthenticated`"),
        (403, "`forbidden`"),
        (404, "`not-found`"),
        (408, "`request-timeout`: the body did not arrive in time."),
        (409, "`key-in-progress`, `reservation-busy`: retry after `Retry-After`. `outcome-unknown`: ask again, do not make a new key."),
        (412, "`version-stale`: the reservation has changed; read it again."),
        (413, "`body-too-large`"),
        (415, "`media-type-unsupported`"),
        (422, "`key-reused`: this key belongs to another request. `booking-rejected`: the change was refused, or cannot be made any more."),
        (428, "`if-match-missing`"),
        (429, "`too-many-requests`"),
        (500, "`internal`"),
        (502, "`booking-system-misconfigured`: nothing was changed."),
        (503, "`booking-system-unavailable`, `booking-system-busy`, `storage-unavailable`: nothing was changed. `outcome-pending`: retry."),
    ];
}

impl Answers for Cancel {
    type Body = ReservationBody;
    const SUCCESSES: &'static [(u16, &'static str, bool, &'static [Header])] =
        &[(204, "Cancelled, now or before: the same answer as often as it is sent.", false, &[])];
    const PROBLEMS: &'static [(u16, &'static str)] = &[
        (400, "`request-invalid`"),
        (401, "`unauthenticated`"),
        (403, "`forbidden`"),
        (404, "`not-found`"),
        (409, "`reservation-busy`: the reservation or another change of it is not settled."),
        (412, "`version-stale`: the reservation has changed; read it again."),
        (422, "`booking-rejected`: the booking system does not cancel it. Not stored."),
        (429, "`too-many-requests`"),
        (500, "`internal`"),
        (502, "`booking-system-misconfigured`: nothing was cancelled."),
        (
            503,
            "`booking-system-unavailable`, `booking-system-busy`, `storage-unavailable`: nothing was cancelled. `outcome-pending`: retry.",
        ),
    ];
}

impl Answers for Get {
    type Body = ReservationBody;
    const SUCCESSES: &'static [(u16, &'static str, bool, &'static [Header])] =
        &[(200, "The reservation.", true, &[Header::ETag]), (304, "It is still what `If-None-Match` names.", false, &[Header::ETag])];
    const PROBLEMS: &'static [(u16, &'static str)] = READ_PROBLEMS;
}

impl Answers for List {
    type Body = ReservationListBody;
    const SUCCESSES: &'static [(u16, &'static str, bool, &'static [Header])] = &[
        (200, "One page of reservations, newest first.", true, &[Header::ETag]),
        (304, "It is still what `If-None-Match` names.", false, &[Header::ETag]),
    ];
    const PROBLEMS: &'static [(u16, &'static str)] = &[
        (400, "`request-invalid`"),
        (401, "`unauthenticated`"),
        (403, "`forbidden`"),
        (429, "`too-many-requests`"),
        (500, "`internal`"),
        (503, "`storage-unavailable`"),
    ];
}

/// Problems of operations that read one thing.
pub const READ_PROBLEMS: &[(u16, &str)] = &[
    (400, "`request-invalid`"),
    (401, "`unauthenticated`"),
    (403, "`forbidden`"),
    (404, "`not-found`"),
    (429, "`too-many-requests`"),
    (500, "`internal`"),
    (503, "`storage-unavailable`"),
];

#[OpenApi(tag = "Tag::Reservations")]
impl ReservationsApi {
    /// Make a reservation
    ///
    /// Books once under its key, whatever crashes, hangs or is retried. Make one key per intended booking, before the first attempt, and
    /// send the same request under the same key until the answer is final.
    #[oai(path = "/reservations", method = "post", operation_id = "createReservation")]
    async fn create(
        &self,
        request: &Request,
        caller: Caller,
        /// One key per intended booking, reused on every retry of it: a quoted string (RFC 9651), 1 to 255 visible ASCII characters.
        #[oai(name = "Idempotency-Key")]
        key: KeyParameter,
        /// `wait=N`: wait up to N seconds for the answer. `respond-async`: 202 at once (RFC 7240).
        #[oai(name = "Prefer")]
        _prefer: HeaderParameter,
        body: StrictJson<Details>,
    ) -> documented::Result<Create> {
        create::create(request, caller, key.0, body.0).await.map(documented::Success::new).map_err(Into::into)
    }

    /// Change a reservation
    ///
    /// Changes quantity, period or note at the booking system and here. `If-Match` names the version that the change was made for; a
    /// replay is never refused by it.
    #[oai(path = "/reservations/:id", method = "patch", operation_id = "changeReservation")]
    async fn change(
        &self,
        request: &Request,
        caller: Caller,
        /// The reservation's id.
        id: Path<String>,
        /// One key per intended change, reused on every retry of it: a quoted string (RFC 9651), 1 to 255 visible ASCII characters.
        #[oai(name = "Idempotency-Key")]
        key: KeyParameter,
        /// The `ETag` of the reservation as it was read, or `*`. Required for a new change.
        #[oai(name = "If-Match")]
        _if_match: HeaderParameter,
        /// `wait=N`: wait up to N seconds for the answer. `respond-async`: 202 at once (RFC 7240).
        #[oai(name = "Prefer")]
        _prefer: HeaderParameter,
        body: StrictJson<Change>,
    ) -> documented::Result<ChangeIt> {
        change::change(request, caller, &id.0, key.0, body.0).await.map(documented::Success::new).map_err(Into::into)
    }

    /// Cancel a reservation
    ///
    /// Idempotent by its method: 204 as often as it is sent. A key is not needed, and ignored. `If-Match` is not needed, and kept to where
    /// it is sent; of a reservation that is cancelled already it is 204 all the same.
    #[oai(path = "/reservations/:id", method = "delete", operation_id = "cancelReservation")]
    async fn cancel(
        &self,
        request: &Request,
        caller: Caller,
        /// The reservation's id.
        id: Path<String>,
        /// The `ETag` of the reservation as it was read: it is cancelled only if it has not changed since.
        #[oai(name = "If-Match")]
        _if_match: HeaderParameter,
    ) -> documented::Result<Cancel> {
        change::cancel(request, caller, &id.0).await.map(documented::Success::new).map_err(Into::into)
    }

    /// Read a reservation
    ///
    /// A pending, rejected or released one is readable as long as its key lives.
    #[oai(path = "/reservations/:id", method = "get", operation_id = "getReservation")]
    async fn get(
        &self,
        request: &Request,
        caller: Caller,
        /// The reservation's id.
        id: Path<String>,
        /// Entity tags that the caller has: 304 if one still holds.
        #[oai(name = "If-None-Match")]
        _if_none_match: HeaderParameter,
    ) -> documented::Result<Get> {
        read::get(request, &caller, &id.0).await.map(documented::Success::new).map_err(Into::into)
    }

    /// List reservations
    ///
    /// Confirmed and cancelled ones, newest first. Pages neither repeat nor skip what was there when the first one was read.
    #[oai(path = "/reservations", method = "get", operation_id = "listReservations")]
    async fn list(
        &self,
        request: &Request,
        caller: Caller,
        /// Only those of this status.
        #[oai(name = "status")]
        _status: QueryParameter<StatusFilter>,
        /// At most so many, 1 to 100; 20 if absent.
        #[oai(name = "limit")]
        _limit: QueryParameter<i32>,
        /// `next_cursor` of the page before.
        #[oai(name = "cursor")]
        _cursor: QueryParameter<String>,
        /// Entity tags of pages that the caller has: 304 if one still holds.
        #[oai(name = "If-None-Match")]
        _if_none_match: HeaderParameter,
    ) -> documented::Result<List> {
        read::list(request, &caller).await.map(documented::Success::new).map_err(Into::into)
    }
}

/// A reservation of this caller, wherever it stands.
enum Found {
    /// Confirmed or cancelled.
    Permanent(Box<reservation::Reservation>),
    /// Read from the key that makes it: pending, rejected or released.
    Unsettled(Box<Record>),
}

impl Found {
    /// The reservation with this id.
    async fn find(service: &Arc<Service>, caller: &Principal, id: &str) -> Result<Self, Problem> {
        if !uuid::Uuid::parse_str(id).is_ok_and(|uuid| uuid.to_string() == id) {
            return Err(not_found());
        }
        let (db, account, id) = (service.db.clone(), caller.account.clone(), id.to_owned());
        let found = service.storage(async move {
            if let Some(reservation) = reservation::find(&db, &account, &id).await? {
                return Ok(Some(Self::Permanent(Box::new(reservation))));
            }
            let Some(record) = lifecycle::find_creation(&db, &account, &id).await? else { return Ok(None) };
            // Finalized between the two reads.
            if matches!(&record.state, State::Completed { answer, .. } if answer.status == 201) {
                return Ok(reservation::find(&db, &account, &id).await?.map(Box::new).map(Self::Permanent));
            }
            Ok(Some(Self::Unsettled(Box::new(record))))
        });
        found.await?.ok_or_else(not_found)
    }
}

fn not_found() -> Problem {
    Problem::new(Code::NotFound, "There is no such reservation.")
}

/// What was stored with a key cannot be read.
fn unreadable(error: &jobs::answer::UnreadableRequest) -> Problem {
    tracing::error!(%error, "the storage holds something unreadable");
    Problem::new(Code::Internal, "The service failed while it handled this request.")
}
