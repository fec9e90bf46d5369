//! The database: every transition as `entity::lifecycle` guards it, the move itself by the real `key_state::next`.

use std::sync::atomic::{AtomicU16, Ordering};

use entity::key_state::{Event, KeyState, next};
use entity::lifecycle::Origin;

use crate::mutations::Mutation;
use crate::settings::{ABSENT_AFTER, LEASE, RETENTION, Settings, TIMEOUT};
use crate::state::{At, Final, Key, Kind, MaybeSent, NotThere, Outcome, Reference, State, Then, Worker, older, one_more};
use crate::worker::{begin, pause_ticks};

/// Which events have happened at all: a check that never finalizes checks nothing.
#[derive(Debug, Default)]
pub struct Seen(AtomicU16);

impl Seen {
    fn note(&self, event: Event) {
        self.0.fetch_or(1 << event as u16, Ordering::Relaxed);
    }

    /// Those that have not happened.
    pub fn missing(&self) -> Vec<Event> {
        let seen = self.0.load(Ordering::Relaxed);
        Event::ALL.into_iter().filter(|e| seen & (1 << *e as u16) == 0).collect()
    }
}

/// The database, as one run uses it.
#[derive(Debug, Clone, Copy)]
pub struct Store<'a> {
    pub settings: &'a Settings,
    pub seen: &'a Seen,
}

impl Store<'_> {
    /// The statement's state guard, and where it leads; false where no row changed.
    fn moves(&self, state: &mut State, event: Event) -> bool {
        let from = state.key.map(|k| k.state);
        let Ok(to) = next(from, event) else { return false };
        self.seen.note(event);
        match to {
            Some(to) => {
                if let Some(key) = &mut state.key {
                    key.state = to;
                }
            }
            None => {
                state.key = None;
                forget_tokens(state);
            }
        }
        true
    }

    /// `claim.rs`: a fresh key, a released one, or one whose lease has lapsed.
    pub fn request(&self, state: &mut State) -> bool {
        let (event, origin) = match state.key.map(|k| k.state) {
            None => {
                if !self.moves_fresh(state) {
                    return false;
                }
                let worker = self.leased(state, Kind::Request);
                state.workers.push(begin(self.settings, worker, Origin::First, state));
                return true;
            }
            Some(KeyState::InProgress) => (Event::TakeOver, Origin::TakeOver),
            Some(KeyState::Released) => (Event::Claim, Origin::AfterRelease),
            Some(KeyState::Completed | KeyState::OutcomeUnknown) => return false,
        };
        if !self.moves(state, event) {
            return false;
        }
        self.new_attempt(state);
        if let Some(key) = &mut state.key {
            key.expires = None;
            key.next_look = None;
        }
        let worker = self.leased(state, Kind::Request);
        state.workers.push(begin(self.settings, worker, origin, state));
        true
    }

    fn moves_fresh(&self, state: &mut State) -> bool {
        let Ok(Some(to)) = next(None, Event::Claim) else { return false };
        self.seen.note(Event::Claim);
        let reference = u8::try_from(state.references.len()).unwrap_or(u8::MAX);
        state.references.push(Reference::default());
        state.key = Some(Key {
            state: to,
            reference,
            lease: Some(LEASE),
            ended_by_worker: false,
            maybe_sent: None,
            looks: 0,
            next_look: None,
            expires: (self.settings.mutation == Some(Mutation::RetentionFromClaim)).then_some(RETENTION),
            answer: None,
        });
        true
    }

    /// `take_over.rs`: a lapsed or an unknown key goes to the release job.
    pub fn sweep(&self, state: &mut State, event: Event, origin: Origin) -> bool {
        if !self.moves(state, event) {
            return false;
        }
        self.new_attempt(state);
        let worker = self.leased(state, Kind::Job);
        state.workers.push(begin(self.settings, worker, origin, state));
        true
    }

    /// `NEW_ATTEMPT`: a worker that vanished counts as having sent until the end of its lease.
    fn new_attempt(&self, state: &mut State) {
        forget_tokens(state);
        let Some(key) = &mut state.key else { return };
        if let Some(left) = key.lease
            && !key.ended_by_worker
            && self.settings.mutation != Some(Mutation::VanishedWorkerNotCounted)
        {
            let lapsed_for = left.saturating_neg().max(0);
            key.maybe_sent = later_of(key.maybe_sent, Some(lapsed_for));
        }
        key.ended_by_worker = false;
        key.lease = Some(LEASE);
    }

    /// The worker that has just got the lease.
    fn leased(&self, state: &State, kind: Kind) -> Worker {
        let key = state.key.unwrap_or_else(|| unreachable!("just taken"));
        Worker {
            kind,
            has_token: true,
            lease_left: LEASE,
            reference: key.reference,
            // Only the release job counts them.
            looks: if kind == Kind::Job { key.looks } else { 0 },
            maybe_sent: key.maybe_sent.map(|age| MaybeSent { age, own: false }),
            absent: false,
            at: At::Send,
        }
    }

    /// `take_second_looks`: put off, so that no other process looks meanwhile.
    pub fn take_second_look(&self, state: &mut State) -> bool {
        let Some(key) = &mut state.key else { return false };
        key.next_look = Some(i16::from(LEASE));
        state.workers.push(Worker {
            kind: Kind::SecondLook,
            has_token: true,
            lease_left: 0,
            reference: key.reference,
            looks: key.looks,
            maybe_sent: None,
            absent: false,
            // A second look decides by what was found alone.
            at: At::LookUp { not_there: NotThere { certain: true, then: Then::Stop } },
        });
        true
    }

    /// `renew.rs`.
    pub fn renew(&self, state: &mut State, worker: usize) -> bool {
        let w = state.workers[worker];
        if !w.has_token || state.key.is_none_or(|k| k.ended_by_worker) || !self.moves(state, Event::Renew) {
            return false;
        }
        if let Some(key) = &mut state.key {
            key.lease = Some(LEASE);
        }
        state.workers[worker].lease_left = LEASE;
        true
    }

    /// The end of an attempt. No row changed: the lease was lost, and the worker simply goes.
    pub fn end(&self, state: &mut State, worker: Worker, end: Outcome) {
        let ours = worker.has_token;
        let own_sent = worker.maybe_sent.filter(|m| m.own).map(|m| m.age);
        let unguarded = self.settings.mutation == Some(Mutation::FinalizeWithoutToken);
        match end {
            Outcome::Booked | Outcome::Rejected => {
                if ours || unguarded {
                    self.complete(state, Event::Finalize, Final { reference: worker.reference, booked: end == Outcome::Booked });
                }
            }
            Outcome::Free => {
                if ours {
                    self.moves(state, Event::Free);
                }
            }
            Outcome::Release => {
                if ours && self.moves(state, Event::Release) {
                    self.released(state, own_sent);
                }
            }
            Outcome::GiveUp { next_look } => {
                if ours
                    && self.moves(state, Event::GiveUp)
                    && let Some(key) = &mut state.key
                {
                    key.lease = None;
                    key.ended_by_worker = false;
                    key.looks = one_more(key.looks);
                    key.next_look = next_look;
                    key.maybe_sent = later_of(key.maybe_sent, own_sent);
                }
            }
            Outcome::EndLease => {
                if ours
                    && self.moves(state, Event::EndLease)
                    && let Some(key) = &mut state.key
                {
                    key.lease = Some(0);
                    key.ended_by_worker = true;
                    key.maybe_sent = later_of(key.maybe_sent, own_sent);
                }
            }
            Outcome::FindLate | Outcome::ConfirmAbsence | Outcome::Postpone => self.end_second_look(state, worker, end),
        }
    }

    fn released(&self, state: &mut State, own_sent: Option<i8>) {
        let second_look = self.settings.offer.lookup && self.settings.mutation != Some(Mutation::NoSecondLook);
        if let Some(key) = &mut state.key {
            key.lease = None;
            key.ended_by_worker = false;
            key.looks = 0;
            key.next_look = second_look.then_some(i16::from(TIMEOUT + ABSENT_AFTER));
            key.expires = (!second_look).then_some(RETENTION);
            key.maybe_sent = later_of(key.maybe_sent, own_sent);
        }
    }

    /// `second_look.rs` and `find_late`: state and attempt are compared.
    fn end_second_look(&self, state: &mut State, worker: Worker, end: Outcome) {
        let Some(key) = state.key else { return };
        if !worker.has_token && self.settings.mutation != Some(Mutation::SecondLookWithoutAttempt) {
            return;
        }
        if end == Outcome::FindLate {
            self.complete(state, Event::FindLate, Final { reference: worker.reference, booked: true });
            return;
        }
        if key.expires.is_some() || !self.moves(state, Event::ConfirmAbsence) {
            return;
        }
        if let Some(key) = &mut state.key {
            if end == Outcome::ConfirmAbsence {
                key.next_look = None;
                key.expires = Some(RETENTION);
            } else {
                key.next_look = Some(pause_ticks(worker.looks));
                key.looks = one_more(key.looks);
            }
        }
    }

    /// `finalize.rs`: the answer and what it says about the reservation, in one. Whoever asks from now on gets it.
    fn complete(&self, state: &mut State, event: Event, answer: Final) {
        if !self.moves(state, event) {
            return;
        }
        if let Some(key) = &mut state.key {
            key.lease = None;
            key.ended_by_worker = false;
            key.next_look = None;
            key.maybe_sent = None;
            key.looks = 0;
            key.answer = Some(answer);
            // The mutation has counted it from the claim.
            if self.settings.mutation != Some(Mutation::RetentionFromClaim) {
                key.expires = Some(RETENTION);
            }
        }
        if answer.booked {
            state.references[usize::from(answer.reference)].confirmed = true;
        }
        state.contradicted |= state.told.is_some_and(|told| told != answer);
        state.told = Some(answer);
    }

    /// `resolve.rs`, by an operator who says what is so: he waits until nothing is under way there any more.
    pub fn resolve(&self, state: &mut State) -> bool {
        let Some(key) = state.key else { return false };
        if key.lease.is_some_and(|left| left > 0) && self.settings.mutation != Some(Mutation::ResolveUnderLease) {
            return false;
        }
        if state.references[usize::from(key.reference)].bookings > 0 {
            self.complete(state, Event::Finalize, Final { reference: key.reference, booked: true });
            return true;
        }
        let under_way = state.under_way.iter().any(|s| s.reference == key.reference);
        let waited_for = state.workers.iter().any(|w| w.reference == key.reference && matches!(w.at, At::Sent { .. }));
        if under_way || waited_for || !self.moves(state, Event::Release) {
            return false;
        }
        self.released(state, None);
        if let Some(key) = &mut state.key {
            key.maybe_sent = None;
        }
        true
    }

    /// A tick passes for the key; an expired one goes.
    pub fn tick(&self, state: &mut State) {
        let Some(key) = &mut state.key else { return };
        key.lease = key.lease.map(|left| (left - 1).max(-crate::settings::OLD));
        key.maybe_sent = key.maybe_sent.map(older);
        key.next_look = key.next_look.map(|left| (left - 1).max(0));
        key.expires = key.expires.map(|left| left - 1);
        if key.expires.is_none_or(|left| left > 0) {
            return;
        }
        if self.settings.mutation == Some(Mutation::RetentionFromClaim) && key.state != KeyState::Completed {
            state.key = None;
            forget_tokens(state);
        } else if self.moves(state, Event::Expire) {
            // The promise ends with the retention; the next request begins a new life.
            state.life = u8::try_from(state.references.len()).unwrap_or(u8::MAX);
            state.told = None;
        }
    }
}

/// The later of two moments, by their ages.
fn later_of(a: Option<i8>, b: Option<i8>) -> Option<i8> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}

fn forget_tokens(state: &mut State) {
    for worker in &mut state.workers {
        worker.has_token = false;
    }
}
