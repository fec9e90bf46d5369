//! End the own lease: the worker stops without an outcome and says when it last sent, so that the next one need not wait.

use super::{Lease, Moved, later_of};
use crate::database::Database;
use crate::key_state::Event;
use crate::store_error::StoreError;

/// Ends the lease now. `last_sent_ms_ago`: the begin of the last send of this attempt that may have had an effect.
///
/// # Errors
/// [`StoreError`]: the lease ends by itself then, and this worker counts as vanished.
pub async fn end_lease(db: &Database, lease: &Lease, last_sent_ms_ago: Option<i64>) -> Result<Moved, StoreError> {
    let sql = format!(
        "UPDATE idempotency_key SET lease_until_ms = {{now}}, lease_ended_at_ms = {{now}}, maybe_sent_until_ms = {} \
         WHERE digest = $1 AND lease_token = $2 AND {}",
        later_of("maybe_sent_until_ms", "$3"),
        Event::EndLease.guard()
    );
    let values = vec![lease.digest.as_bytes().to_vec().into(), lease.token.clone().into(), last_sent_ms_ago.into()];
    Ok(Moved::from_rows(db.execute("end lease", &sql, values).await?))
}
