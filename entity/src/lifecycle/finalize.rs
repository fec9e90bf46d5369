//! Finalize: the answer and what it says about the reservation become one commit. What a crash leaves is both or neither.

use super::{Lease, SAME_ATTEMPT};
use crate::database::{Database, Transaction};
use crate::idempotency_key::{Answer, Record, State};
use crate::key_state::Event;
use crate::operator_action::OperatorAction;
use crate::reservation::{Details, Reservation};
use crate::store_error::StoreError;

/// What the answer says about the reservation.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Nothing: the booking system refused.
    None,
    /// It is booked.
    Create(NewReservation),
    /// It has these values now.
    Change {
        /// The values, the booking's id and the version after the change.
        after: Reservation,
        /// Until when a late first send could still undo a later change.
        busy_for_ms: Option<i64>,
    },
    /// It is cancelled.
    Cancel {
        /// The reservation's id.
        id: String,
        /// When the cancellation was asked for.
        at_ms: i64,
    },
}

/// A reservation that the booking system has confirmed.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReservation {
    /// Its id, which is the reference.
    pub id: String,
    /// Whose it is.
    pub account: String,
    /// What the caller asked for.
    pub details: Details,
    /// The booking system's id.
    pub booking_id: String,
    /// When the reference was made.
    pub created_at_ms: i64,
}

/// What became of a finalize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finalized {
    /// Committed, by this worker.
    Done,
    /// Somebody else has the key.
    LeaseLost,
}

/// How the key is compared.
enum Owner<'a> {
    Lease(&'a Lease),
    SecondLook(&'a Record),
    Operator(&'a Record, &'a OperatorAction),
}

impl Owner<'_> {
    const fn event(&self) -> Event {
        match self {
            Self::Lease(_) | Self::Operator(..) => Event::Finalize,
            Self::SecondLook(_) => Event::FindLate,
        }
    }

    /// The lease token, or state and attempt as they were seen; with the values of `$1` and `$2`.
    fn proof(&self) -> (&'static str, [sea_orm::Value; 2]) {
        match self {
            Self::Lease(lease) => {
                ("digest = $1 AND lease_token = $2", [lease.digest.as_bytes().to_vec().into(), lease.token.clone().into()])
            }
            Self::SecondLook(record) => (SAME_ATTEMPT, [record.reference.clone().into(), record.attempt.into()]),
            Self::Operator(record, _) => (super::resolve::NOBODY_WORKS_ON_IT, [record.reference.clone().into(), record.attempt.into()]),
        }
    }
}

/// Stores the answer under the lease. Repeating it after a lost acknowledgement is harmless: [`Finalized::Done`] again if it was ours.
///
/// # Errors
/// [`StoreError`]: the commit may or may not have happened; finalize again to find out.
pub async fn finalize(db: &Database, lease: &Lease, answer: &Answer, effect: &Effect, retention_ms: i64) -> Result<Finalized, StoreError> {
    if store(db, &Owner::Lease(lease), answer, effect, retention_ms).await? {
        return Ok(Finalized::Done);
    }
    let record = super::find::find(db, &lease.digest).await?;
    let ours = record.is_some_and(|r| matches!(r.state, State::Completed { .. }) && r.lease_token.as_deref() == Some(&lease.token));
    Ok(if ours { Finalized::Done } else { Finalized::LeaseLost })
}

/// Stores the answer of a late booking that the second look found; nothing happens to a key that moved meanwhile.
///
/// # Errors
/// [`StoreError`]: the look comes up again.
pub async fn find_late(db: &Database, seen: &Record, answer: &Answer, effect: &Effect, retention_ms: i64) -> Result<Finalized, StoreError> {
    Ok(if store(db, &Owner::SecondLook(seen), answer, effect, retention_ms).await? { Finalized::Done } else { Finalized::LeaseLost })
}

/// As [`find_late`], for what an operator says of an unknown key.
pub(super) async fn resolve(
    db: &Database,
    seen: &Record,
    answer: &Answer,
    effect: &Effect,
    retention_ms: i64,
    action: &OperatorAction,
) -> Result<Finalized, StoreError> {
    Ok(if store(db, &Owner::Operator(seen, action), answer, effect, retention_ms).await? { Finalized::Done } else { Finalized::LeaseLost })
}

fn complete(owner: &Owner<'_>, answer: &Answer, retention_ms: i64) -> (String, Vec<sea_orm::Value>) {
    let (proof, [whose, seen]) = owner.proof();
    let sql = format!(
        "UPDATE idempotency_key SET state = 'completed', lease_until_ms = NULL, lease_ended_at_ms = NULL, next_look_at_ms = NULL, \
         answer_status = $3, answer_content_type = $4, answer_location = $5, answer_etag = $6, answer_body = $7, \
         completed_at_ms = {{now}}, expires_at_ms = {{now}} + $8 WHERE {proof} AND {}",
        owner.event().guard()
    );
    let values = vec![
        whose,
        seen,
        i64::from(answer.status).into(),
        answer.content_type.clone().into(),
        answer.location.clone().into(),
        answer.etag.clone().into(),
        answer.body.clone().into(),
        retention_ms.into(),
    ];
    (sql, values)
}

/// Whether the key was ours to complete.
async fn store(db: &Database, owner: &Owner<'_>, answer: &Answer, effect: &Effect, retention_ms: i64) -> Result<bool, StoreError> {
    let (complete, mut values) = complete(owner, answer, retention_ms);
    let name = owner.event().as_str();
    match (effect, owner) {
        (Effect::None, Owner::Lease(_) | Owner::SecondLook(_)) => Ok(db.execute(name, &complete, values).await? > 0),
        (Effect::Create(new), Owner::Lease(_) | Owner::SecondLook(_)) if db.is_postgres() => {
            values.extend(reservation_values(new));
            let insert = insert_reservation(8, "SELECT", "FROM done");
            let sql = format!("WITH done AS ({complete} RETURNING digest) {insert}");
            Ok(db.execute(name, &sql, values).await? > 0)
        }
        (Effect::None | Effect::Create(_) | Effect::Change { .. } | Effect::Cancel { .. }, _) => {
            let tx = db.begin().await?;
            // The reservation first, the key second: the order in which a claim of the next change locks them.
            let done = apply(&tx, effect).await? && tx.execute(name, &complete, values).await? > 0;
            if let (true, Owner::Operator(record, action)) = (done, owner) {
                action.write(&tx, record).await?;
            }
            if done {
                tx.commit().await?
            } else {
                tx.rollback().await?
            }
            Ok(done)
        }
    }
}

/// What the answer says about the reservation; false where the reservation is not as the claim saw it.
async fn apply(tx: &Transaction<'_>, effect: &Effect) -> Result<bool, StoreError> {
    const NAME: &str = "write reservation";
    match effect {
        Effect::None => Ok(true),
        Effect::Create(new) => {
            // One that is there already belongs to whoever was faster: then the key is not ours either.
            let insert = insert_reservation(0, "VALUES (", ") ON CONFLICT DO NOTHING");
            tx.execute(NAME, &insert, reservation_values(new)).await?;
            Ok(true)
        }
        Effect::Change { after, busy_for_ms } => {
            let sql = "UPDATE reservation SET quantity = $2, starts_at_us = $3, ends_at_us = $4, note = $5, version = $6, \
                 updated_at_ms = $7, busy_until_ms = {now} + $8 WHERE id = $1 AND version = $6 - 1 AND status = 'confirmed'";
            let details = &after.details;
            let changed = vec![
                after.id.clone().into(),
                i64::from(details.quantity).into(),
                details.starts_at.map(|t| t.micros()).into(),
                details.ends_at.map(|t| t.micros()).into(),
                details.note.clone().into(),
                after.version.into(),
                after.updated_at_ms.into(),
                (*busy_for_ms).into(),
            ];
            Ok(tx.execute(NAME, sql, changed).await? > 0)
        }
        Effect::Cancel { id, at_ms } => {
            let sql = "UPDATE reservation SET status = 'cancelled', version = version + 1, updated_at_ms = $2 \
                 WHERE id = $1 AND status = 'confirmed'";
            Ok(tx.execute(NAME, sql, vec![id.clone().into(), (*at_ms).into()]).await? > 0)
        }
    }
}

/// The insert, its parameters counted from `$offset + 1`.
fn insert_reservation(offset: usize, open: &str, close: &str) -> String {
    let parameters: Vec<_> = (1..=11).map(|n| format!("${}", n + offset)).collect();
    format!(
        "INSERT INTO reservation (id, account, item_code, quantity, reserved_by, starts_at_us, ends_at_us, note, booking_id, \
         created_at_ms, updated_at_ms, status) {open} {}, 'confirmed' {close}",
        parameters.join(", ")
    )
}

fn reservation_values(new: &NewReservation) -> Vec<sea_orm::Value> {
    let details = &new.details;
    vec![
        new.id.clone().into(),
        new.account.clone().into(),
        details.item_code.clone().into(),
        i64::from(details.quantity).into(),
        details.reserved_by.clone().into(),
        details.starts_at.map(|t| t.micros()).into(),
        details.ends_at.map(|t| t.micros()).into(),
        details.note.clone().into(),
        new.booking_id.clone().into(),
        new.created_at_ms.into(),
        new.created_at_ms.into(),
    ]
}
