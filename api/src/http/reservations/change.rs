//! `PATCH` and `DELETE /reservations/{id}`.

use std::sync::Arc;

use entity::api_token::Principal;
use entity::idempotency_key::{Answer, Record, State};
use entity::key_scope::Operation;
use entity::lifecycle::{self, Guard};
use entity::reservation::{Reservation, Status};
use jobs::answer;
use jobs::request::Change;
use poem::Request;
use poem::http::header;
use serde_json::Value;

use super::Found;
use crate::fingerprint;
use crate::http::auth::Caller;
use crate::http::entity_tag::{Condition, MalformedCondition};
use crate::http::key_header::IdempotencyKey;
use crate::http::keyed::{self, Keyed, KeyedOperation, outcome_pending_soon, reservation_busy};
use crate::http::payload::{canonical_change, check_period};
use crate::http::prefer::Preference;
use crate::http::problem::{Code, FieldError, Problem};
use crate::http::query::QueryParameters;
use crate::http::stored::Outgoing;
use crate::service::Service;

pub(super) async fn change(request: &Request, caller: Caller, id: &str, key: IdempotencyKey, change: Change) -> Result<Outgoing, Problem> {
    QueryParameters::read(request, &[])?;
    let service = Service::of(request)?;
    let if_match = Condition::of(request.headers(), &header::IF_MATCH);
    let keyed = Keyed {
        account: caller.0.account.clone(),
        operation: Operation::Change,
        key: key.as_str().to_owned(),
        path_id: Some(id.to_owned()),
        body: canonical_change(&change),
    };
    let operation = ChangeIt { service: Arc::clone(&service), caller: caller.0, id: id.to_owned(), change, if_match };
    keyed::answer(&service, &keyed, Preference::of(request.headers()), &operation).await
}

struct ChangeIt {
    service: Arc<Service>,
    caller: Principal,
    id: String,
    change: Change,
    /// Looked at after the key: a replay is not refused by it, whatever it says.
    if_match: IfMatch,
}

/// The header as it was sent.
type IfMatch = Result<Option<Condition>, MalformedCondition>;

impl KeyedOperation for ChangeIt {
    /// Everything that can change its mind: asked only for a key that is not known yet.
    async fn guard(&self) -> Result<Guard, Problem> {
        let before = match Found::find(&self.service, &self.caller, &self.id).await? {
            Found::Permanent(reservation) => reservation,
            Found::Unsettled(record) if is_settled(&record) => return Err(self.too_late()),
            Found::Unsettled(_) => return Err(reservation_busy(None)),
        };
        if self.if_match == Ok(None) {
            let detail = "A change needs If-Match with the ETag of the reservation it was made for.";
            return Err(Problem::new(Code::IfMatchMissing, detail));
        }
        let if_match = named(&self.if_match)?;
        match before.status {
            Status::Confirmed => {}
            Status::Cancelled => return Err(self.too_late()),
        }
        not_busy(&self.service, &before, Operation::Change).await?;
        still(if_match, &before)?;
        let after = self.change.apply(&before.details);
        check_period(after.starts_at, after.ends_at).map_err(|fault| {
            // At a member that was sent.
            let fault = if self.change.ends_at.is_some() { fault } else { FieldError::new("/starts_at", "must be before ends_at") };
            Problem::invalid(vec![fault])
        })?;
        let change_to = serde_json::to_value(&after).map(|value| fingerprint::canonical_bytes(&value));
        Ok(Guard::Change { version: before.version, change_to: change_to.unwrap_or_default() })
    }

    /// The reservation as it stands.
    async fn accepted(&self, record: &Record) -> Result<Outgoing, Problem> {
        let Found::Permanent(reservation) = Found::find(&self.service, &self.caller, &record.reservation_id).await? else {
            return Err(reservation_busy(None));
        };
        let representation = answer::represent(&reservation);
        Ok(Outgoing::plain(Answer {
            status: 202,
            content_type: Some(answer::JSON.into()),
            location: Some(answer::location(&self.service.settler.settings().public_base, &reservation.id)),
            etag: Some(representation.etag),
            body: representation.body,
        }))
    }
}

impl ChangeIt {
    fn too_late(&self) -> Problem {
        Problem::new(Code::BookingRejected, "The reservation is cancelled, rejected or released: it cannot be changed any more.")
            .instance(answer::location(&self.service.settler.settings().public_base, &self.id))
    }
}

/// What `If-Match` names, if it was sent.
fn named(if_match: &IfMatch) -> Result<Option<&Condition>, Problem> {
    let malformed = |fault| Problem::invalid(vec![FieldError::new("", format!("the header `If-Match` {fault}"))]);
    if_match.as_ref().map(Option::as_ref).map_err(malformed)
}

/// Whether the reservation is still what `If-Match` names.
fn still(if_match: Option<&Condition>, reservation: &Reservation) -> Result<(), Problem> {
    match if_match {
        Some(condition) => {
            let current = answer::represent(reservation).etag;
            let detail = match (condition.matches_strong(&current), condition.names_weakly(&current)) {
                (true, _) => return Ok(()),
                // A proxy that compresses answers weakens their tags.
                (false, true) => "If-Match names the current version by a weak tag, which never matches. Send the tag without `W/`.",
                (false, false) => "The reservation has changed since. Read it again, then decide anew.",
            };
            Err(Problem::new(Code::VersionStale, detail))
        }
        None => Ok(()),
    }
}

pub(super) async fn cancel(request: &Request, caller: Caller, id: &str) -> Result<Outgoing, Problem> {
    QueryParameters::read(request, &[])?;
    let service = Service::of(request)?;
    let if_match = Condition::of(request.headers(), &header::IF_MATCH);
    // Idempotent by its method: the key is the reservation itself.
    let keyed = Keyed {
        account: caller.0.account.clone(),
        operation: Operation::Cancel,
        key: id.to_owned(),
        path_id: Some(id.to_owned()),
        body: Value::Null,
    };
    match Found::find(&service, &caller.0, id).await? {
        Found::Permanent(reservation) => match reservation.status {
            // Also for another version: what was asked for is done.
            Status::Cancelled => return Ok(Outgoing::plain(answer::cancelled())),
            Status::Confirmed => still(named(&if_match)?, &reservation)?,
        },
        Found::Unsettled(record) if is_settled(&record) => return Ok(Outgoing::plain(answer::cancelled())),
        Found::Unsettled(_) => return Err(reservation_busy(None)),
    }
    let operation = CancelIt { service: Arc::clone(&service), caller: caller.0, id: id.to_owned(), if_match };
    match keyed::answer_joining(&service, &keyed, &operation).await {
        // As often as it is sent, the same answer.
        Ok(outgoing) => Ok(Outgoing { replayed: false, ..outgoing }),
        Err(problem) => match problem.code() {
            // Whatever keeps it, sending it again is right.
            Code::KeyInProgress | Code::OutcomeUnknown => Err(outcome_pending_soon()),
            _ => Err(problem),
        },
    }
}

struct CancelIt {
    service: Arc<Service>,
    caller: Principal,
    id: String,
    if_match: IfMatch,
}

impl KeyedOperation for CancelIt {
    async fn guard(&self) -> Result<Guard, Problem> {
        let mut version = None;
        if let Found::Permanent(reservation) = Found::find(&self.service, &self.caller, &self.id).await?
            && reservation.status == Status::Confirmed
        {
            not_busy(&self.service, &reservation, Operation::Cancel).await?;
            let if_match = named(&self.if_match)?;
            still(if_match, &reservation)?;
            version = if_match.map(|_| reservation.version);
        }
        Ok(Guard::Cancel { version })
    }

    async fn accepted(&self, _: &Record) -> Result<Outgoing, Problem> {
        Err(outcome_pending_soon())
    }
}

/// Rejected or finally released: nothing is booked, and nothing will be under this reference by itself.
fn is_settled(record: &Record) -> bool {
    match record.state {
        State::Completed { .. } => true,
        State::Released { next_look_at_ms, .. } => next_look_at_ms.is_none(),
        State::InProgress { .. } | State::OutcomeUnknown { .. } => false,
    }
}

async fn not_busy(service: &Service, reservation: &Reservation, asked: Operation) -> Result<(), Problem> {
    if reservation.busy_for_ms.is_some() {
        return Err(reservation_busy(reservation.busy_for_ms));
    }
    let (db, id) = (service.db.clone(), reservation.id.clone());
    match service.storage(async move { lifecycle::find_unsettled_change(&db, &id).await }).await? {
        // A cancellation joins the one under way: its key is the reservation itself.
        Some(unsettled) if (unsettled.operation, asked) != (Operation::Cancel, Operation::Cancel) => Err(reservation_busy(None)),
        Some(_) | None => Ok(()),
    }
}
