//! Resolve: an operator says what nobody else can tell. Acts on `outcome_unknown` only, compared by state and attempt, not while the
//! release job is asking, and leaves an audit row in the same commit.

use super::{Effect, Finalized};
use crate::database::Database;
use crate::idempotency_key::{Answer, Record};
use crate::key_state::Event;
use crate::operator_action::OperatorAction;
use crate::store_error::StoreError;

/// Attempt and state as the operator saw them, and no worker of the release job on it: it may just be sending.
pub(super) const NOBODY_WORKS_ON_IT: &str =
    "reference = $1 AND attempt = $2 AND state = 'outcome_unknown' AND (lease_until_ms IS NULL OR lease_until_ms <= {now})";

/// "Not booked": the key is released, and that is believed: an earlier send no longer counts. With `second_look_in_ms` the release
/// becomes final only after a look; without one it is final at once. False where the key has moved meanwhile.
///
/// # Errors
/// [`StoreError`]: ask again what the key is.
pub async fn resolve_not_booked(
    db: &Database,
    seen: &Record,
    second_look_in_ms: Option<i64>,
    retention_ms: i64,
    action: &OperatorAction,
) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE idempotency_key SET state = 'released', lease_until_ms = NULL, looks = 0, maybe_sent_until_ms = NULL, \
         next_look_at_ms = {{now}} + $3, expires_at_ms = {{now}} + $4 WHERE {NOBODY_WORKS_ON_IT} \
         AND {}",
        Event::Release.guard()
    );
    let expires_in_ms = if second_look_in_ms.is_some() { None } else { Some(retention_ms) };
    let values = vec![seen.reference.clone().into(), seen.attempt.into(), second_look_in_ms.into(), expires_in_ms.into()];
    let tx = db.begin().await?;
    let moved = tx.execute(Event::Release.as_str(), &sql, values).await? > 0;
    if moved {
        action.write(&tx, seen).await?;
        tx.commit().await?;
    } else {
        tx.rollback().await?;
    }
    Ok(moved)
}

/// "Booked" (or applied, or refused for good): the answer is stored as if the booking system had given it.
///
/// # Errors
/// [`StoreError`]: ask again what the key is.
pub async fn resolve_answered(
    db: &Database,
    seen: &Record,
    answer: &Answer,
    effect: &Effect,
    retention_ms: i64,
    action: &OperatorAction,
) -> Result<Finalized, StoreError> {
    super::finalize::resolve(db, seen, answer, effect, retention_ms, action).await
}
