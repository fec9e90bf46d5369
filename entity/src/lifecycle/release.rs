//! Release: there is no such booking, and that is believed. The same request may run again.

use super::{Lease, Moved, later_of};
use crate::database::Database;
use crate::key_state::Event;
use crate::store_error::StoreError;

/// Marks the key `released`, with a second look due `second_look_in_ms` from now; its retention begins after that look.
/// `last_sent_ms_ago` as in [`super::end_lease()`].
///
/// # Errors
/// [`StoreError`]: the lease lapses and the key comes up again.
pub async fn release(
    db: &Database,
    lease: &Lease,
    last_sent_ms_ago: Option<i64>,
    second_look_in_ms: i64,
) -> Result<Moved, StoreError> {
    let sql = format!(
        "UPDATE idempotency_key SET state = 'released', lease_until_ms = NULL, lease_ended_at_ms = NULL, looks = 0, \
         next_look_at_ms = {{now}} + $4, maybe_sent_until_ms = {} WHERE digest = $1 AND lease_token = $2 AND {}",
        later_of("maybe_sent_until_ms", "$3"),
        Event::Release.guard()
    );
    let digest = lease.digest.as_bytes().to_vec();
    let values = vec![digest.into(), lease.token.clone().into(), last_sent_ms_ago.into(), second_look_in_ms.into()];
    Ok(Moved::from_rows(db.execute(&sql, values).await?))
}
