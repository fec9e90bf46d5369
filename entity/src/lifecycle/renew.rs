//! Renew: the worker lives, its lease is extended.

use super::Lease;
use crate::database::Database;
use crate::key_state::Event;
use crate::store_error::StoreError;

/// What became of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// The lease runs its full length again, counted from before this statement was sent.
    Extended,
    /// Somebody else has the key.
    LeaseLost,
}

/// Extends the lease to `lease_ms` from now.
///
/// # Errors
/// [`StoreError`]: the lease may or may not have been extended; count on the old deadline.
pub async fn renew(db: &Database, lease: &Lease, lease_ms: i64) -> Result<Renewed, StoreError> {
    let sql = format!(
        "UPDATE idempotency_key SET lease_until_ms = {{now}} + $3 \
         WHERE digest = $1 AND lease_token = $2 AND lease_ended_at_ms IS NULL AND {}",
        Event::Renew.guard()
    );
    let values = vec![lease.digest.as_bytes().to_vec().into(), lease.token.clone().into(), lease_ms.into()];
    Ok(if db.execute("renew", &sql, values).await? == 0 { Renewed::LeaseLost } else { Renewed::Extended })
}
