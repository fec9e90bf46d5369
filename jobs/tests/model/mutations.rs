//! Broken rules: each must be found. [`Rules`] passes the real rules on and breaks the one that is asked for.

use entity::lifecycle::Origin;
use jobs::rules::{Bounds, Purpose, Situation, Step};

/// One rule, broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// The finalize compares the state only, not the lease token.
    FinalizeWithoutToken,
    /// "Nothing happened" frees the key after an unknown send, too.
    FreeAfterUnknownSend,
    /// "There is no such booking" is believed at once where nothing is deduplicated.
    AbsenceBelievedAtOnce,
    /// The release job releases what it takes over without asking.
    ReleaseWithoutLookUp,
    /// The retention is counted from the claim.
    RetentionFromClaim,
    /// A take-over sends at once.
    TakeOverSendsBlindly,
    /// A refusal of a re-send is believed at once.
    RefusalBelievedAtOnce,
    /// The lease is not checked before a send.
    NoLeaseCheck,
    /// A worker that vanished does not count as having sent.
    VanishedWorkerNotCounted,
    /// A release is final at once.
    NoSecondLook,
    /// The second look compares the state only, not the attempt.
    SecondLookWithoutAttempt,
}

/// The rules of one run.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub mutation: Option<Mutation>,
    pub bounds: Bounds,
}

impl Rules {
    pub fn begin(&self, situation: &Situation, origin: Origin, purpose: Purpose) -> Step {
        match (self.mutation, origin, purpose) {
            (Some(Mutation::TakeOverSendsBlindly), Origin::TakeOver, _) => Step::Send,
            (Some(Mutation::ReleaseWithoutLookUp), Origin::TakeOver | Origin::LookAgain, Purpose::Recovery { .. }) => Step::Release,
            _ => situation.begin(origin, purpose),
        }
    }

    pub fn after_not_there(&self, situation: &Situation, purpose: Purpose) -> Step {
        if self.mutation == Some(Mutation::AbsenceBelievedAtOnce) {
            // As if nothing had ever been sent.
            return Situation { unknown_send_age_ms: None, ..*situation }.after_not_there(purpose, &self.bounds);
        }
        situation.after_not_there(purpose, &self.bounds)
    }

    pub fn refusal_is_believed(&self, situation: &Situation) -> bool {
        self.mutation == Some(Mutation::RefusalBelievedAtOnce) || situation.refusal_is_believed(&self.bounds)
    }

    pub fn may_free(&self, situation: &Situation) -> bool {
        self.mutation == Some(Mutation::FreeAfterUnknownSend) || situation.may_free()
    }

    pub fn sends_without_lease(&self) -> bool {
        self.mutation == Some(Mutation::NoLeaseCheck)
    }
}
