//! Give up: nobody can tell yet. The key waits for a look-up that answers and is believed, or for an operator.

use super::{Lease, Moved, later_of};
use crate::database::Database;
use crate::key_state::Event;
use crate::store_error::StoreError;

/// Marks the key `outcome_unknown`. `next_look_in_ms`: when the release job asks again, `None` where only an operator can tell.
/// `last_sent_ms_ago` as in [`super::end_lease()`].
///
/// # Errors
/// [`StoreError`]: the lease lapses and the key comes up again.
pub async fn give_up(
    db: &Database,
    lease: &Lease,
    last_sent_ms_ago: Option<i64>,
    next_look_in_ms: Option<i64>,
) -> Result<Moved, StoreError> {
    let sql = format!(
        "UPDATE idempotency_key SET state = 'outcome_unknown', lease_until_ms = NULL, lease_ended_at_ms = NULL, looks = looks + 1, \
         next_look_at_ms = {{now}} + $4, maybe_sent_until_ms = {} WHERE digest = $1 AND lease_token = $2 AND {}",
        later_of("maybe_sent_until_ms", "$3"),
        Event::GiveUp.guard()
    );
    let digest = lease.digest.as_bytes().to_vec();
    let values = vec![digest.into(), lease.token.clone().into(), last_sent_ms_ago.into(), next_look_in_ms.into()];
    Ok(Moved::from_rows(db.execute("give up", &sql, values).await?))
}
