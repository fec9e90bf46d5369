//! Release: there is no such booking, and that is believed. The same request may run again.

use super::{Lease, Moved, later_of};
use crate::database::Database;
use crate::key_state::Event;
use crate::store_error::StoreError;

/// Marks the key `released`, with a second look due `second_look_in_ms` from now; its retention of `retention_ms` begins after that
/// look, or at once where there is none to come: the release is final then. `last_sent_ms_ago` as in [`super::end_lease()`].
///
/// # Errors
/// [`StoreError`]: the lease lapses and the key comes up again.
pub async fn release(
    db: &Database,
    lease: &Lease,
    last_sent_ms_ago: Option<i64>,
    second_look_in_ms: Option<i64>,
    retention_ms: i64,
) -> Result<Moved, StoreError> {
    let sql = format!(
        "UPDATE idempotency_key SET state = 'released', lease_until_ms = NULL, lease_ended_at_ms = NULL, looks = 0, \
         next_look_at_ms = {{now}} + $4, expires_at_ms = {{now}} + $5, maybe_sent_until_ms = {} \
         WHERE digest = $1 AND lease_token = $2 AND {}",
        later_of("maybe_sent_until_ms", "$3"),
        Event::Release.guard()
    );
    let expires_in_ms = if second_look_in_ms.is_some() { None } else { Some(retention_ms) };
    let values = vec![
        lease.digest.as_bytes().to_vec().into(),
        lease.token.clone().into(),
        last_sent_ms_ago.into(),
        second_look_in_ms.into(),
        expires_in_ms.into(),
    ];
    Ok(Moved::from_rows(db.execute("release", &sql, values).await?))
}
