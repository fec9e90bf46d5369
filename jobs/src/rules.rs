//! PURE: what a worker may do next and what it may believe (contract, section 5). No clock, no network, no database.

use entity::lifecycle::Origin;

/// What the booking system offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Offer {
    /// It deduplicates by our key.
    pub idempotent: bool,
    /// It answers look-ups by reference.
    pub lookup: bool,
}

/// The times the rules compare with, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// `BOOKING_TIMEOUT`.
    pub booking_timeout_ms: i64,
    /// `ABSENT_AFTER`.
    pub absent_after_ms: i64,
    /// `BOOKING_KEY_RETENTION`.
    pub booking_key_retention_ms: i64,
}

impl Bounds {
    /// How long after its begin a send is believed to be over: carried out, or never to be.
    #[must_use]
    pub const fn settles_after_ms(&self) -> i64 {
        self.booking_timeout_ms.saturating_add(self.absent_after_ms)
    }
}

/// For whom the worker works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A request: it wants the booking, and tries until `ANSWER_WITHIN`.
    Request,
    /// The release job: it wants the truth, and comes again later. With `rebook` it also sends again what is believed absent.
    Recovery {
        /// `ON_ABSENT=rebook`.
        rebook: bool,
    },
}

/// The next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Ask by reference.
    LookUp,
    /// Send, for the first time or again, under the same reference.
    Send,
    /// Believed absent: release the key.
    Release,
    /// Nothing more can be done now.
    Stop,
}

/// How a worker that cannot tell leaves a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leave {
    /// `in_progress`, with its lease ended: the release job goes on.
    EndLease,
    /// `outcome_unknown`, until the next look.
    GiveUp,
}

/// What is known of a key at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Situation {
    /// What the booking system offers for this key at this moment.
    pub offer: Offer,
    /// How long ago a send that may have had an effect could last have begun; `None` if there was none.
    pub unknown_send_age_ms: Option<i64>,
}

impl Situation {
    /// A booking system that has forgotten our key no longer deduplicates, so its offer ends with the age of the reference.
    #[must_use]
    pub fn new(offer: Offer, bounds: &Bounds, reference_age_ms: i64, unknown_send_age_ms: Option<i64>) -> Self {
        let remembered = reference_age_ms < bounds.booking_key_retention_ms - bounds.settles_after_ms();
        Self { offer: Offer { idempotent: offer.idempotent && remembered, ..offer }, unknown_send_age_ms }
    }

    /// Whether a first send may still be under way there: until then neither a refusal nor, where it does not deduplicate, "not there"
    /// proves anything.
    fn may_still_arrive(&self, bounds: &Bounds) -> bool {
        self.unknown_send_age_ms.is_some_and(|age| age < bounds.settles_after_ms())
    }

    /// Whether a final refusal is the outcome.
    #[must_use]
    pub fn refusal_is_believed(&self, bounds: &Bounds) -> bool {
        !self.may_still_arrive(bounds)
    }

    /// Whether "no connection", 401, 403, 404, 405 or 429 proves that nothing happened: only if nothing was sent before.
    #[must_use]
    pub const fn may_free(&self) -> bool {
        self.unknown_send_age_ms.is_none()
    }

    /// Whether "there is no such booking" is believed.
    #[must_use]
    pub fn absence_is_believed(&self, bounds: &Bounds) -> bool {
        self.offer.idempotent || !self.may_still_arrive(bounds)
    }

    /// Whether "there is no such booking" holds for good: no earlier send can arrive any more. (Where the booking system deduplicates,
    /// absence is believed sooner, but only as long as it deduplicates.)
    #[must_use]
    pub fn absence_is_certain(&self, bounds: &Bounds) -> bool {
        !self.may_still_arrive(bounds)
    }

    /// Whether a send at this moment can make no second booking; asked immediately before it, since the booking system may have forgotten
    /// our key meanwhile. `absent`: a look-up since the last send has said so, and it was certain.
    #[must_use]
    pub const fn may_send(&self, absent: bool) -> bool {
        self.unknown_send_age_ms.is_none() || self.offer.idempotent || absent
    }

    /// The first call of a worker.
    #[must_use]
    pub const fn begin(&self, origin: Origin, purpose: Purpose) -> Step {
        match origin {
            Origin::First => Step::Send,
            Origin::AfterRelease if self.offer.lookup => Step::LookUp,
            // Only an operator releases a key without look-up, and "not booked" is believed of an operator.
            Origin::AfterRelease => Step::Send,
            Origin::TakeOver | Origin::LookAgain if self.offer.lookup => Step::LookUp,
            Origin::TakeOver | Origin::LookAgain => match (self.unknown_send_age_ms, purpose) {
                (None, Purpose::Recovery { rebook: false }) => Step::Release,
                (None, Purpose::Request | Purpose::Recovery { rebook: true }) => Step::Send,
                (Some(_), _) if self.offer.idempotent => Step::Send,
                (Some(_), Purpose::Request | Purpose::Recovery { .. }) => Step::Stop,
            },
        }
    }

    /// After "there is no such booking". To be asked of the situation in which the look-up began: what it read is as old as that.
    #[must_use]
    pub fn after_not_there(&self, purpose: Purpose, bounds: &Bounds) -> Step {
        if !self.absence_is_believed(bounds) {
            return Step::Stop;
        }
        match purpose {
            Purpose::Request | Purpose::Recovery { rebook: true } => Step::Send,
            Purpose::Recovery { rebook: false } => Step::Release,
        }
    }

    /// After a look-up or a send that settled nothing, the pause included.
    #[must_use]
    pub const fn after_unsettled(&self, purpose: Purpose) -> Step {
        match purpose {
            Purpose::Recovery { .. } => Step::Stop,
            Purpose::Request if self.offer.lookup => Step::LookUp,
            Purpose::Request if self.offer.idempotent => Step::Send,
            Purpose::Request => Step::Stop,
        }
    }

    /// How to leave a key of which nobody can tell now. `sent`: this attempt itself sent, and knows not what became of it.
    /// `repeatable`: sending again is always allowed (a change).
    #[must_use]
    pub const fn leave(&self, purpose: Purpose, sent: bool, repeatable: bool) -> Leave {
        let only_an_operator_can_tell = !repeatable && !self.offer.lookup && !self.offer.idempotent;
        match (self.unknown_send_age_ms, purpose) {
            // Nothing was ever sent: there is nothing to ask an operator for.
            (None, _) if only_an_operator_can_tell => Leave::EndLease,
            (_, Purpose::Recovery { .. }) => Leave::GiveUp,
            (_, Purpose::Request) if only_an_operator_can_tell && !sent => Leave::GiveUp,
            (_, Purpose::Request) => Leave::EndLease,
        }
    }

    /// When the release job asks again for a key that nobody can tell of: as soon as time alone will tell, else after a pause
    /// that grows with every look; never where neither look-up nor deduplication is offered.
    #[must_use]
    pub fn next_look_in_ms(&self, bounds: &Bounds, looks: i64) -> Option<i64> {
        if !self.offer.lookup && !self.offer.idempotent {
            return None;
        }
        let pause = growing_pause_ms(looks);
        Some(match self.unknown_send_age_ms {
            Some(age) if self.may_still_arrive(bounds) => (bounds.settles_after_ms() - age).max(1).max(if looks == 0 { 0 } else { pause }),
            Some(_) | None => pause,
        })
    }
}

/// 1 s, 2 s, 4 s, ... 5 min.
#[must_use]
pub fn growing_pause_ms(looks: i64) -> i64 {
    let doublings = u32::try_from(looks.clamp(0, 9)).unwrap_or(9);
    (1000_i64 << doublings).min(300_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { booking_timeout_ms: 10, absent_after_ms: 60, booking_key_retention_ms: 1000 };
    const BOTH: Offer = Offer { idempotent: true, lookup: true };
    const LOOKUP: Offer = Offer { idempotent: false, lookup: true };
    const DEDUP: Offer = Offer { idempotent: true, lookup: false };
    const NEITHER: Offer = Offer { idempotent: false, lookup: false };
    const JOB: Purpose = Purpose::Recovery { rebook: false };

    fn seen(offer: Offer, age: Option<i64>) -> Situation {
        Situation::new(offer, &BOUNDS, 0, age)
    }

    #[test]
    fn a_take_over_looks_first_and_never_sends_twice_where_nothing_is_offered() {
        for origin in [Origin::TakeOver, Origin::LookAgain] {
            for purpose in [Purpose::Request, JOB, Purpose::Recovery { rebook: true }] {
                assert_eq!(seen(BOTH, Some(0)).begin(origin, purpose), Step::LookUp);
                assert_eq!(seen(LOOKUP, Some(999)).begin(origin, purpose), Step::LookUp);
                assert_eq!(seen(DEDUP, Some(0)).begin(origin, purpose), Step::Send);
                assert_eq!(seen(NEITHER, Some(i64::MAX)).begin(origin, purpose), Step::Stop);
            }
        }
        assert_eq!(seen(NEITHER, None).begin(Origin::TakeOver, JOB), Step::Release);
        assert_eq!(seen(LOOKUP, Some(999)).begin(Origin::AfterRelease, Purpose::Request), Step::LookUp);
        assert_eq!(seen(NEITHER, Some(999)).begin(Origin::AfterRelease, Purpose::Request), Step::Send);
    }

    #[test]
    fn a_request_goes_on_with_what_is_offered_and_the_job_comes_again() {
        for (offer, next) in [(BOTH, Step::LookUp), (LOOKUP, Step::LookUp), (DEDUP, Step::Send), (NEITHER, Step::Stop)] {
            assert_eq!(seen(offer, Some(0)).after_unsettled(Purpose::Request), next);
            assert_eq!(seen(offer, Some(0)).after_unsettled(JOB), Step::Stop);
        }
    }

    #[test]
    fn without_deduplication_absence_is_believed_only_after_the_time_out_and_absent_after() {
        assert!(!seen(LOOKUP, Some(69)).absence_is_believed(&BOUNDS));
        assert!(seen(LOOKUP, Some(70)).absence_is_believed(&BOUNDS));
        assert!(seen(BOTH, Some(0)).absence_is_believed(&BOUNDS));
        assert!(seen(LOOKUP, None).absence_is_believed(&BOUNDS));
    }

    #[test]
    fn a_refusal_of_a_resend_is_believed_only_when_the_first_send_is_over() {
        for offer in [BOTH, LOOKUP, DEDUP, NEITHER] {
            assert!(seen(offer, None).refusal_is_believed(&BOUNDS));
            assert!(!seen(offer, Some(69)).refusal_is_believed(&BOUNDS));
            assert!(seen(offer, Some(70)).refusal_is_believed(&BOUNDS));
        }
    }

    #[test]
    fn an_operator_is_asked_only_where_something_was_sent_and_nothing_else_can_tell() {
        assert_eq!(seen(NEITHER, None).leave(JOB, false, false), Leave::EndLease);
        assert_eq!(seen(NEITHER, Some(0)).leave(JOB, false, false), Leave::GiveUp);
        assert_eq!(seen(NEITHER, None).leave(Purpose::Request, false, false), Leave::EndLease);
        assert_eq!(seen(NEITHER, Some(0)).leave(Purpose::Request, false, false), Leave::GiveUp);
        assert_eq!(seen(NEITHER, Some(0)).leave(Purpose::Request, true, false), Leave::EndLease);
        for offer in [BOTH, LOOKUP, DEDUP] {
            assert_eq!(seen(offer, None).leave(JOB, false, false), Leave::GiveUp);
            assert_eq!(seen(offer, Some(0)).leave(Purpose::Request, false, false), Leave::EndLease);
        }
        // A change may be sent again, whatever is offered.
        assert_eq!(seen(NEITHER, None).leave(JOB, false, true), Leave::GiveUp);
        assert_eq!(seen(NEITHER, Some(0)).leave(Purpose::Request, false, true), Leave::EndLease);
    }

    #[test]
    fn a_booking_system_that_has_forgotten_the_key_does_not_deduplicate() {
        assert!(Situation::new(BOTH, &BOUNDS, 929, Some(0)).offer.idempotent);
        let forgotten = Situation::new(BOTH, &BOUNDS, 930, Some(0));
        assert!(!forgotten.offer.idempotent && !forgotten.absence_is_believed(&BOUNDS));
        let forgotten = Situation::new(DEDUP, &BOUNDS, 930, Some(0));
        assert_eq!(forgotten.begin(Origin::TakeOver, JOB), Step::Stop);
        assert_eq!(forgotten.next_look_in_ms(&BOUNDS, 0), None);
    }

    #[test]
    fn a_send_is_safe_first_or_recognised_or_after_a_believed_absence() {
        assert!(seen(NEITHER, None).may_send(false));
        assert!(seen(DEDUP, Some(0)).may_send(false));
        assert!(!seen(LOOKUP, Some(999)).may_send(false));
        assert!(!seen(LOOKUP, Some(69)).absence_is_certain(&BOUNDS) && seen(LOOKUP, Some(70)).absence_is_certain(&BOUNDS));
        assert!(seen(LOOKUP, Some(70)).may_send(true));
        // It deduplicated when the look-up was made, which was believed then, and has forgotten our key since.
        assert!(seen(BOTH, Some(5)).absence_is_believed(&BOUNDS) && !seen(BOTH, Some(5)).absence_is_certain(&BOUNDS));
        assert!(!Situation::new(BOTH, &BOUNDS, 930, Some(5)).may_send(false));
    }

    #[test]
    fn pauses_grow_and_end_where_time_tells() {
        assert_eq!((0..12).map(growing_pause_ms).collect::<Vec<_>>()[..4], [1000, 2000, 4000, 8000]);
        assert_eq!(growing_pause_ms(99), 300_000);
        assert_eq!(seen(LOOKUP, Some(20)).next_look_in_ms(&BOUNDS, 0), Some(50));
        assert_eq!(seen(LOOKUP, Some(20)).next_look_in_ms(&BOUNDS, 1), Some(2000));
        assert_eq!(seen(LOOKUP, Some(70)).next_look_in_ms(&BOUNDS, 0), Some(1000));
        assert_eq!(seen(LOOKUP, Some(70)).next_look_in_ms(&BOUNDS, 1), Some(2000));
        assert_eq!(seen(DEDUP, None).next_look_in_ms(&BOUNDS, 2), Some(4000));
        assert_eq!(seen(NEITHER, Some(20)).next_look_in_ms(&BOUNDS, 0), None);
    }
}
