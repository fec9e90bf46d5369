//! Broken rules: each must be found. [`Rules`] passes the real rules on and breaks the one that is asked for.

use entity::lifecycle::Origin;
use jobs::rules::{Bounds, Offer, Purpose, Situation, Step};

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
    /// A take-over sends at once, and nothing is asked before the send.
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
    /// An operator resolves a key while the release job works on it.
    ResolveUnderLease,
    /// What deduplication allowed is not asked again before the send.
    SendsWhatWasAllowed,
    /// A refusal is stored without a look-up.
    RefusalStoredUnseen,
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
        self.as_believed(situation).after_not_there(purpose, &self.bounds)
    }

    pub fn absence_is_certain(&self, situation: &Situation) -> bool {
        self.as_believed(situation).absence_is_certain(&self.bounds)
    }

    pub fn may_send(&self, situation: &Situation, absent: bool) -> bool {
        let asks = !matches!(self.mutation, Some(Mutation::TakeOverSendsBlindly | Mutation::SendsWhatWasAllowed));
        !asks || self.as_believed(situation).may_send(absent)
    }

    /// Absence that is believed at once: as if nothing had ever been sent.
    fn as_believed(&self, situation: &Situation) -> Situation {
        match self.mutation {
            Some(Mutation::AbsenceBelievedAtOnce) => Situation { unknown_send_age_ms: None, ..*situation },
            _ => *situation,
        }
    }

    pub fn refusal_is_believed(&self, situation: &Situation) -> bool {
        self.mutation == Some(Mutation::RefusalBelievedAtOnce) || situation.refusal_is_believed(&self.bounds)
    }

    pub fn looks_after_refusal(&self, offer: Offer) -> bool {
        offer.lookup && self.mutation != Some(Mutation::RefusalStoredUnseen)
    }

    pub fn may_free(&self, situation: &Situation) -> bool {
        self.mutation == Some(Mutation::FreeAfterUnknownSend) || situation.may_free()
    }

    pub fn sends_without_lease(&self) -> bool {
        self.mutation == Some(Mutation::NoLeaseCheck)
    }
}
