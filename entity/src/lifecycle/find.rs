//! Find: read a key, and change nothing.

use crate::database::Database;
use crate::idempotency_key::{COLUMNS, Record};
use crate::key_scope::KeyDigest;
use crate::store_error::StoreError;

/// The key of that address, expired ones included ([`Record::is_expired`]).
///
/// # Errors
/// [`StoreError`].
pub async fn find(db: &Database, digest: &KeyDigest) -> Result<Option<Record>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM idempotency_key WHERE digest = $1");
    db.read_one("find", &sql, vec![digest.as_bytes().to_vec().into()]).await?.as_ref().map(Record::read).transpose()
}

/// The key that makes this reservation, if it is `account`'s and has not expired.
///
/// # Errors
/// [`StoreError`].
pub async fn find_creation(db: &Database, account: &str, reservation_id: &str) -> Result<Option<Record>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM idempotency_key WHERE reference = $1 AND account = $2 AND operation = 'createReservation'");
    let record =
        db.read_one("find creation", &sql, vec![reservation_id.into(), account.into()]).await?.as_ref().map(Record::read).transpose()?;
    Ok(record.filter(|r| !r.is_expired()))
}

/// The change or cancellation of this reservation that is not settled, if there is one.
///
/// # Errors
/// [`StoreError`].
pub async fn find_unsettled_change(db: &Database, reservation_id: &str) -> Result<Option<Record>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM idempotency_key WHERE reservation_id = $1 AND operation <> 'createReservation' \
         AND state IN ('in_progress', 'outcome_unknown')"
    );
    db.read_one("find unsettled change", &sql, vec![reservation_id.into()]).await?.as_ref().map(Record::read).transpose()
}
