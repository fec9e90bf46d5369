//! The second look at released keys. No lease: a retry may claim the key meanwhile, so state, reference and attempt are compared instead.

use super::SAME_ATTEMPT;
use crate::database::Database;
use crate::idempotency_key::{COLUMNS, Record};
use crate::key_state::Event;
use crate::store_error::StoreError;

/// At most `limit` released keys whose second look is due. Each is put off by `hold_ms`, so that no other process looks meanwhile.
///
/// # Errors
/// [`StoreError`]; what was put off all the same comes up again.
pub async fn take_second_looks(db: &Database, hold_ms: i64, limit: u64) -> Result<Vec<Record>, StoreError> {
    let guard = Event::FindLate.guard();
    // Materialized, as in `take_over.rs`.
    let sql = format!(
        "WITH due AS MATERIALIZED \
         (SELECT digest FROM idempotency_key WHERE {guard} AND next_look_at_ms <= {{now}} ORDER BY next_look_at_ms LIMIT $2 {{skip_locked}}) \
         UPDATE idempotency_key SET next_look_at_ms = {{now}} + $1 \
         WHERE digest IN (SELECT digest FROM due) AND {guard} AND next_look_at_ms <= {{now}} RETURNING {COLUMNS}"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = db.write_all("take second looks", &sql, vec![hold_ms.into(), limit.into()]).await?;
    Ok(Record::read_all(&rows))
}

/// The second look found nothing: the release is final, and the retention begins. Nothing happens to a key that moved meanwhile.
///
/// # Errors
/// [`StoreError`]: the look comes up again.
pub async fn confirm_absence(db: &Database, seen: &Record, retention_ms: i64) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE idempotency_key SET next_look_at_ms = NULL, expires_at_ms = {{now}} + $3 WHERE {SAME_ATTEMPT} AND {} \
         AND expires_at_ms IS NULL",
        Event::ConfirmAbsence.guard()
    );
    let values = vec![seen.reference.clone().into(), seen.attempt.into(), retention_ms.into()];
    Ok(db.execute("confirm absence", &sql, values).await? > 0)
}

/// The second look was not answered: again in `pause_ms`.
///
/// # Errors
/// [`StoreError`]: the look comes up again.
pub async fn postpone_second_look(db: &Database, seen: &Record, pause_ms: i64) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE idempotency_key SET next_look_at_ms = {{now}} + $3, looks = looks + 1 WHERE {SAME_ATTEMPT} AND {} \
         AND expires_at_ms IS NULL",
        Event::ConfirmAbsence.guard()
    );
    db.execute("postpone second look", &sql, vec![seen.reference.clone().into(), seen.attempt.into(), pause_ms.into()]).await?;
    Ok(())
}
