//! Nobody sends without a lease: compared with the database when a send arrives.

use std::time::{Duration, Instant};

use super::asked::Asked;
use super::database::{Database, Lease};
use super::ledger::Ledger;
use super::troubles::Kind;

/// For the way from the check to us; a worker checks that its lease has 200 ms more (`BOOKING_CONNECT_TIMEOUT`).
const LATE_MS: i64 = 300;
/// What the database needs longer for is not compared: the key may be another's by then.
const SOON: Duration = Duration::from_millis(150);
/// What keeps a send from arriving may have happened so long ago.
const BEFORE: Duration = Duration::from_secs(2);

/// A worker that was not kept from sending checked its lease just now, so it has one: whatever it does not hear from its database.
/// What the database said of it; none where it did not in time.
pub async fn is_held(database: &Database, ledger: &Ledger, asked: &Asked, process: &str) -> Option<Lease> {
    let arrived = Instant::now();
    let reference = asked.key.trim_matches('"');
    let Ok(Ok(lease)) = tokio::time::timeout(SOON, database.lease(reference)).await else {
        ledger.count("beside them", "a lease that could not be compared");
        return None;
    };
    compare(ledger, asked, process, arrived, lease.as_ref());
    lease
}

fn compare(ledger: &Ledger, asked: &Asked, process: &str, arrived: Instant, lease: Option<&Lease>) {
    let reference = asked.key.trim_matches('"');
    let (state, left_ms) = match lease {
        Some(lease) => (lease.state.as_str(), lease.left_ms),
        None => ("gone", None),
    };
    if left_ms.is_some_and(|left| left > -LATE_MS) {
        return ledger.count("beside them", "a lease compared");
    }
    let before = arrived.checked_sub(BEFORE).unwrap_or(arrived);
    if ledger.troubles.met(&[Kind::Sending], process, before, Instant::now()) {
        return ledger.count("beside them", "a send that was held up");
    }
    if ledger.troubles.met(&[Kind::Stepped], process, arrived, arrived) {
        return ledger.count("beside them", "a send under a lease that a step of the clock ended");
    }
    ledger.violation(format!("{} {reference} was sent by {process} without a lease: {state}, left {left_ms:?} ms", asked.method));
}
