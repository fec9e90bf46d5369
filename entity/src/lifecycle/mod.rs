//! The life of a key: one transition a file, each one guarded statement with a typed outcome.
//!
//! Every guard is the state ([`crate::key_state::Event::guard`]) and, from the claim on, the lease token. No row changed means somebody
//! else moved the key: the worker stops, reads the record again ([`find()`]) and answers what it says. A crash before a
//! statement leaves the key as it was, one after it leaves it moved; there is nothing in between.

mod claim;
mod end_lease;
mod expire;
mod finalize;
mod find;
mod free;
mod give_up;
mod list;
mod release;
mod renew;
mod resolve;
mod second_look;
mod take_over;

pub use claim::{Claimed, FingerprintOf, Guard, NewKey, claim};
pub use end_lease::end_lease;
pub use expire::expire;
pub use finalize::{Effect, Finalized, NewReservation, finalize, find_late};
pub use find::{find, find_creation, find_unsettled_change};
pub use free::free;
pub use give_up::give_up;
pub use list::{KeyFilter, count_unknown, find_by_reference, list};
pub use release::release;
pub use renew::{Renewed, renew};
pub use resolve::{resolve_answered, resolve_not_booked};
pub use second_look::{confirm_absence, postpone_second_look, take_second_looks};
pub use take_over::{take_for_look_again, take_over_stale};

use crate::idempotency_key::Record;
use crate::key_scope::KeyDigest;
use crate::key_state::KeyState;

/// The right to work on a key until its deadline passes; every statement of its worker compares `token`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The key.
    pub digest: KeyDigest,
    /// Made anew by every claim and take-over.
    pub token: String,
}

/// Why a worker has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nothing was ever sent under this reference.
    First,
    /// The booking system said "no such booking", and that was believed.
    AfterRelease,
    /// An earlier worker left or vanished.
    TakeOver,
    /// The key is `outcome_unknown`, and stays so meanwhile.
    LookAgain,
}

/// A key under a lease, with all that is needed to settle it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The right to do it.
    pub lease: Lease,
    /// How it came about.
    pub origin: Origin,
    /// The key, read when the lease was taken.
    pub record: Record,
}

impl Work {
    /// State under which the lease is held.
    #[must_use]
    pub const fn state(&self) -> KeyState {
        self.record.key_state()
    }
}

/// What became of a transition of a leased key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The key is there now.
    Done,
    /// The lease is somebody else's, or the key is gone: read the record again.
    LeaseLost,
}

impl Moved {
    const fn from_rows(rows: u64) -> Self {
        if rows == 0 { Self::LeaseLost } else { Self::Done }
    }
}

/// The key as it was seen, without a lease: of the life with reference `$1`, at attempt `$2`. Attempts are counted anew in every life.
const SAME_ATTEMPT: &str = "reference = $1 AND attempt = $2";

/// `column` becomes the later of itself and the moment `$n` milliseconds ago; nothing where `$n` is null.
fn later_of(column: &str, ago: &str) -> String {
    format!("CASE WHEN {ago} IS NULL OR {column} >= {{now}} - {ago} THEN {column} ELSE {{now}} - {ago} END")
}
