//! A booking system that recognises a key for a while only: what is sent again later must follow a look-up that could know.

use std::time::{Duration, Instant};

use super::asked::Asked;
use super::database::Lease;
use super::ledger::Ledger;
use super::settings::{REMEMBERED_MS, SETTLES_AFTER};
use super::troubles::Kind;

/// For the way from the check to us.
const LATE_MS: i64 = 250;
/// What keeps a send from arriving, or makes two clocks differ, may have happened so long ago.
const BEFORE: Duration = Duration::from_secs(4);

/// The age of a reference from which on nobody may count on being recognised: what is sent then may be under way for so long.
fn limit_ms() -> i64 {
    i64::try_from(REMEMBERED_MS).unwrap_or(i64::MAX) - i64::try_from(SETTLES_AFTER.as_millis()).unwrap_or(i64::MAX)
}

/// How long the answer to a look-up is kept, so that it was asked while the key was recognised and comes when it is not; none where
/// that would be too long for whoever waits for it.
pub fn held_for(age_ms: i64) -> Option<Duration> {
    const AFTER_MS: i64 = LATE_MS + 30;
    const MOST_MS: i64 = 600;
    let left_ms = limit_ms() + AFTER_MS - age_ms;
    (left_ms <= MOST_MS).then(|| Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)))
}

/// Somebody sent again, and no look-up could have told him that he may.
pub fn is_not_sent(ledger: &Ledger, asked: &Asked, process: &str, lease: Option<&Lease>) {
    let Some(lease) = lease else { return };
    if lease.age_ms <= limit_ms() + LATE_MS {
        return ledger.count("beside them", "a send that is recognised");
    }
    let now = Instant::now();
    let before = now.checked_sub(BEFORE).unwrap_or(now);
    if ledger.troubles.met(&[Kind::Sending, Kind::Stepped], process, before, now) {
        return ledger.count("beside them", "a late send that was held up");
    }
    let (reference, age_ms) = (asked.text("reference"), lease.age_ms);
    ledger.violation(format!("{reference} was sent again by {process} when its key may be forgotten: it is {age_ms} ms old"));
}
