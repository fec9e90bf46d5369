//! Expire: the retention is over and the row goes. Running and unknown keys have no end of retention and are never touched.

use crate::database::Database;
use crate::key_scope::KeyDigest;
use crate::key_state::Event;
use crate::store_error::StoreError;

/// Deletes at most `limit` expired keys, oldest first; how many. Expiry is compared again in the delete itself.
///
/// # Errors
/// [`StoreError`]; nothing but expired keys is gone in any case.
pub async fn expire(db: &Database, limit: u64) -> Result<u64, StoreError> {
    let expired = format!("{} AND expires_at_ms <= {{now}}", Event::Expire.guard());
    // Materialized, as in `take_over.rs`.
    let sql = format!(
        "WITH due AS MATERIALIZED (SELECT digest FROM idempotency_key WHERE {expired} ORDER BY expires_at_ms LIMIT $1 {{skip_locked}}) \
         DELETE FROM idempotency_key WHERE digest IN (SELECT digest FROM due) AND {expired}"
    );
    db.execute("expire", &sql, vec![i64::try_from(limit).unwrap_or(i64::MAX).into()]).await
}

/// Deletes this key if it has expired: what follows is a new life.
pub(super) async fn expire_one(db: &Database, digest: &KeyDigest) -> Result<(), StoreError> {
    let sql = format!("DELETE FROM idempotency_key WHERE digest = $1 AND {} AND expires_at_ms <= {{now}}", Event::Expire.guard());
    db.execute("expire one", &sql, vec![digest.as_bytes().to_vec().into()]).await?;
    Ok(())
}
