//! Take over: lapsed and unknown keys go to the release job, in batches that several processes share.

use super::{Lease, Origin, Work};
use crate::database::Database;
use crate::idempotency_key::{COLUMNS, Record};
use crate::key_state::Event;
use crate::store_error::StoreError;

/// A worker that vanished counts as having sent until the end of its lease, whether it had sent or not; one that ended
/// its lease has written down when it last sent.
pub(super) const NEW_ATTEMPT: &str = "attempt = attempt + 1, lease_ended_at_ms = NULL, maybe_sent_until_ms = CASE \
     WHEN lease_ended_at_ms IS NULL AND lease_until_ms IS NOT NULL \
          AND (maybe_sent_until_ms IS NULL OR maybe_sent_until_ms < lease_until_ms) \
     THEN lease_until_ms ELSE maybe_sent_until_ms END";

/// One of the two sweeps.
struct Sweep {
    event: Event,
    origin: Origin,
    /// Which keys are due.
    due: &'static str,
    /// Longest due first.
    order: &'static str,
}

/// Takes at most `limit` lapsed keys over, longest lapsed first. An unreadable row is passed over with an error logged.
///
/// # Errors
/// [`StoreError`]; a batch that was taken all the same lapses again.
pub async fn take_over_stale(db: &Database, token: &str, lease_ms: i64, limit: u64) -> Result<Vec<Work>, StoreError> {
    let lapsed = "lease_until_ms <= {now}";
    let sweep = Sweep { event: Event::TakeOver, origin: Origin::TakeOver, due: lapsed, order: "lease_until_ms" };
    sweep.take(db, token, lease_ms, limit).await
}

/// Leases at most `limit` unknown keys whose next look is due; their state and answers stay meanwhile.
///
/// # Errors
/// [`StoreError`]; a batch that was leased all the same comes up again when the lease has lapsed.
pub async fn take_for_look_again(db: &Database, token: &str, lease_ms: i64, limit: u64) -> Result<Vec<Work>, StoreError> {
    let due = "next_look_at_ms <= {now} AND (lease_until_ms IS NULL OR lease_until_ms <= {now})";
    let sweep = Sweep { event: Event::LookAgain, origin: Origin::LookAgain, due, order: "next_look_at_ms" };
    sweep.take(db, token, lease_ms, limit).await
}

impl Sweep {
    async fn take(self, db: &Database, token: &str, lease_ms: i64, limit: u64) -> Result<Vec<Work>, StoreError> {
        let Self { event, origin, due, order } = self;
        let guard = event.guard();
        // Materialized: as a plain subquery PostgreSQL may run it once a row, and pass the LIMIT. State and deadline are compared again.
        let sql = format!(
            "WITH due AS MATERIALIZED \
             (SELECT digest FROM idempotency_key WHERE {guard} AND {due} ORDER BY {order} LIMIT $3 {{skip_locked}}) \
             UPDATE idempotency_key SET {NEW_ATTEMPT}, lease_token = $1, lease_until_ms = {{now}} + $2 \
             WHERE digest IN (SELECT digest FROM due) AND {guard} AND {due} RETURNING {COLUMNS}"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = db.write_all(event.as_str(), &sql, vec![token.into(), lease_ms.into(), limit.into()]).await?;
        let records = Record::read_all(&rows).into_iter();
        Ok(records.map(|record| Work { lease: Lease { digest: record.digest, token: token.to_owned() }, origin, record }).collect())
    }
}
