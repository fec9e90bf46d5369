//! What is checked: the bounds, the assumptions and the mutation of one run. A tick is one second, so that the pauses of the rules count.

use jobs::rules::{Bounds, Offer};

use crate::mutations::Mutation;

/// Milliseconds of a tick: the first pause of `growing_pause_ms`.
pub const TICK_MS: i64 = 1000;

/// `LEASE`, in ticks. At least twice [`CONNECT`], as the start demands.
pub const LEASE: i8 = 2;
/// `BOOKING_CONNECT_TIMEOUT`, in ticks.
pub const CONNECT: i8 = 1;
/// `BOOKING_TIMEOUT`, in ticks.
pub const TIMEOUT: i8 = 1;
/// `ABSENT_AFTER`, in ticks.
pub const ABSENT_AFTER: i8 = 2;
/// `KEY_RETENTION`, in ticks: the least that the start accepts.
pub const RETENTION: i8 = LEASE + TIMEOUT;

/// Ages stop counting here: the rules tell no older ones apart.
pub const OLD: i8 = TIMEOUT + ABSENT_AFTER;

/// The pauses between looks grow with so many of them.
pub const MANY_LOOKS: u8 = 2;

/// How much may go wrong on one path. Everything else (who runs when, and how long anybody takes) is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Budget {
    /// Requests that get to work on the key; those that only read it change nothing.
    pub requests: u8,
    /// Workers that vanish, at any step.
    pub crashes: u8,
    /// Answers of the booking system other than the one hoped for: a refusal, "nothing happened", or none at all.
    pub faults: u8,
}

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What the booking system offers.
    pub offer: Offer,
    /// `ON_ABSENT=rebook`.
    pub rebook: bool,
    /// `BOOKING_KEY_RETENTION`, in ticks; `None`: longer than any path.
    pub remembers_for: Option<i8>,
    /// An operator resolves unknown keys, and says what is so.
    pub operator: bool,
    /// Workers at once, of whatever kind and in whatever process.
    pub workers: usize,
    /// References, so lives of the key.
    pub references: usize,
    /// What may go wrong.
    pub budget: Budget,
    /// ASSUMPTION: so many ticks at most lie between the check of the lease and the send.
    pub pause_before_send: i8,
    /// ASSUMPTION: a send takes effect less than so many ticks after that check, or never.
    pub takes_effect_within: i8,
    /// An ASSUMPTION that is broken: where there is no look-up, a proxy sends our request twice, and the second copy is refused.
    pub copies_unseen: bool,
    /// A rule that is broken.
    pub mutation: Option<Mutation>,
}

impl Settings {
    /// The small bounds and the assumptions of the contract.
    pub const fn new(idempotent: bool, lookup: bool) -> Self {
        Self {
            offer: Offer { idempotent, lookup },
            rebook: false,
            remembers_for: None,
            operator: false,
            workers: 2,
            references: 2,
            budget: Budget { requests: 2, crashes: 1, faults: 1 },
            pause_before_send: CONNECT,
            // What the rules wait for.
            takes_effect_within: TIMEOUT + ABSENT_AFTER,
            copies_unseen: false,
            mutation: None,
        }
    }

    /// The times as the rules take them.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            booking_timeout_ms: i64::from(TIMEOUT) * TICK_MS,
            absent_after_ms: i64::from(ABSENT_AFTER) * TICK_MS,
            booking_key_retention_ms: self.remembers_for.map_or(i64::MAX, |ticks| i64::from(ticks) * TICK_MS),
        }
    }

    /// For the figures.
    pub fn name(&self) -> String {
        let mut name = match (self.offer.idempotent, self.offer.lookup) {
            (true, true) => String::from("both"),
            (false, true) => String::from("look-up"),
            (true, false) => String::from("deduplication"),
            (false, false) => String::from("neither"),
        };
        if self.rebook {
            name.push_str(", rebook");
        }
        if let Some(ticks) = self.remembers_for {
            name.push_str(&format!(", forgets after {ticks}"));
        }
        if self.operator {
            name.push_str(", operator");
        }
        name
    }
}
