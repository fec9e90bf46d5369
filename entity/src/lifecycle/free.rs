//! Free: nothing can have happened there, so the key is bound to no request again and its row goes.

use super::{Lease, Moved};
use crate::database::Database;
use crate::key_state::Event;
use crate::store_error::StoreError;

/// Deletes the key. Only for an attempt before which no send can have had an effect.
///
/// # Errors
/// [`StoreError`]: the key may or may not be gone.
pub async fn free(db: &Database, lease: &Lease) -> Result<Moved, StoreError> {
    let sql = format!("DELETE FROM idempotency_key WHERE digest = $1 AND lease_token = $2 AND {}", Event::Free.guard());
    let values = vec![lease.digest.as_bytes().to_vec().into(), lease.token.clone().into()];
    Ok(Moved::from_rows(db.execute("free", &sql, values).await?))
}
