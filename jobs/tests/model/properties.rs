//! The promises of the contract, section 1, as properties of states.
//!
//! Promises 3 and 4 speak of what comes later. Each state is therefore carried on without workers and without further faults, in every
//! way of [`Calm::WAYS`]: what is under way takes effect at the last moment or never, the booking system accepts or refuses what is sent
//! from now on, the client keeps retrying or is gone. The release job runs once a tick.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use entity::key_state::KeyState;
use stateright::Property;

use crate::Check;
use crate::actions::{Action, Reply, possible};
use crate::settings::{Budget, LEASE};
use crate::state::{At, State};

/// Promise 1.
pub const ONE_BOOKING: &str = "at most one booking";
/// Promise 2.
pub const ONE_ANSWER: &str = "one final answer";
/// Promise 3.
pub const NOT_STUCK: &str = "no key stays stuck";
/// Promise 4.
pub const NO_ORPHAN: &str = "no booking is orphaned";

/// A run of the release job starts every tick, so two of them are two ticks.
const TWO_RUNS: u32 = 2;
/// By then everything that time alone settles is settled: settled age, second look, retention, and the pauses of a few looks.
const LONG_ENOUGH: u32 = 100;

pub fn all() -> Vec<Property<Check>> {
    vec![
        Property::always(ONE_BOOKING, |_, state: &State| {
            let each = state.references.iter().all(|r| r.bookings <= 1);
            each && state.references[usize::from(state.life).min(state.references.len())..].iter().map(|r| r.bookings).sum::<u8>() <= 1
        }),
        Property::always(ONE_ANSWER, |_, state: &State| !state.contradicted),
        Property::always(NOT_STUCK, |check: &Check, state: &State| check.later(state).not_stuck),
        Property::always(NO_ORPHAN, |check: &Check, state: &State| check.later(state).no_orphan),
    ]
}

/// What becomes of a state once its workers are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Later {
    pub not_stuck: bool,
    pub no_orphan: bool,
}

/// Most states become the same once their workers are gone.
pub type Known = Mutex<HashMap<State, Later>>;

/// What happened, where somebody reads it.
type Steps<'a> = Option<&'a mut Vec<(State, Option<Action>)>>;

/// One way to go on.
#[derive(Debug, Clone, Copy)]
struct Calm {
    arrives: bool,
    accepts: bool,
    retries: bool,
}

impl Calm {
    const WAYS: [Self; 8] = {
        let mut ways = [Self { arrives: false, accepts: false, retries: false }; 8];
        let mut i = 0;
        while i < 8 {
            ways[i] = Self { arrives: i & 1 > 0, accepts: i & 2 > 0, retries: i & 4 > 0 };
            i += 1;
        }
        ways
    };

    /// The one thing that a worker does next.
    fn choose(self, actions: &[Action]) -> Option<Action> {
        let of_worker = |action: &&Action| match action {
            Action::Answered { reply, goes_on, .. } => {
                !goes_on && *reply == if self.accepts { Reply::Booked } else { Reply::Refused { copy_books: false } }
            }
            Action::Read { .. } | Action::LookedUp { .. } | Action::Check { .. } | Action::Send { .. } | Action::Store { .. } => true,
            _ => false,
        };
        let booked = |action: &&Action| matches!(action, Action::Answered { reply: Reply::Booked, .. });
        // Where it cannot be refused, it is booked already.
        actions.iter().find(of_worker).or_else(|| actions.iter().find(booked)).copied()
    }
}

impl Check {
    /// How a state that breaks promise 3 or 4 goes on until that is seen, for reading.
    pub fn what_follows(&self, state: &State) -> Vec<(State, Option<Action>)> {
        let calm = Self::without_workers(state);
        for way in Calm::WAYS {
            let mut steps = Vec::new();
            let later = self.carry_on(calm.clone(), way, Some(&mut steps));
            if !later.not_stuck || !later.no_orphan {
                return steps;
            }
        }
        Vec::new()
    }

    /// A state whose workers are gone, with no fault to come and any number of retries.
    fn without_workers(state: &State) -> State {
        let mut calm = state.clone();
        for worker in std::mem::take(&mut calm.workers) {
            if let At::Sent { left, .. } = worker.at {
                crate::booking::leave(&mut calm, worker.reference, left);
            }
        }
        // Faults are there for refusals only, and retries are as many as it takes.
        calm.left = Budget { requests: u8::MAX, crashes: 0, faults: u8::MAX };
        calm.told = None;
        calm.sort();
        calm
    }

    fn later(&self, state: &State) -> Later {
        let calm = Self::without_workers(state);
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&calm) {
            return *known;
        }
        let mut later = Later { not_stuck: true, no_orphan: true };
        for way in Calm::WAYS {
            let one = self.carry_on(calm.clone(), way, None);
            later = Later { not_stuck: later.not_stuck && one.not_stuck, no_orphan: later.no_orphan && one.no_orphan };
        }
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(calm, later);
        later
    }

    fn carry_on(&self, mut state: State, way: Calm, mut steps: Steps<'_>) -> Later {
        let mut later = Later { not_stuck: true, no_orphan: true };
        if !way.arrives {
            state.under_way.clear();
        }
        let soon = u32::from(LEASE.unsigned_abs()) + TWO_RUNS;
        for tick in 0..LONG_ENOUGH {
            while let Some(send) = state.under_way.iter().position(|s| s.left <= 1) {
                self.one_step(&mut state, Action::Arrive { send }, &mut steps);
            }
            self.run_job(&mut state, way, &mut steps);
            let in_progress = state.key.is_some_and(|k| k.state == KeyState::InProgress);
            if in_progress && tick >= soon && !way.retries {
                later.not_stuck = false;
            }
            if state.under_way.is_empty() && (is_settled(&state) || self.only_an_operator_can_tell(&state)) {
                break;
            }
            self.one_step(&mut state, Action::Tick, &mut steps);
        }
        later.not_stuck &= is_settled(&state) || self.only_an_operator_can_tell(&state);
        later.no_orphan = state.references.iter().enumerate().all(|(i, reference)| {
            let waits = state.key.is_some_and(|k| usize::from(k.reference) == i) && self.only_an_operator_can_tell(&state);
            (reference.bookings > 0) == reference.confirmed || (waits && !reference.confirmed)
        });
        if let Some(steps) = steps {
            steps.push((state, None));
        }
        later
    }

    fn one_step(&self, state: &mut State, action: Action, steps: &mut Steps<'_>) -> bool {
        if let Some(steps) = steps {
            steps.push((state.clone(), Some(action)));
        }
        self.apply(state, action)
    }

    /// One run, one retry of the client, and all that follows from them before the next tick.
    fn run_job(&self, state: &mut State, way: Calm, steps: &mut Steps<'_>) {
        let mut actions = Vec::new();
        let mut retry = way.retries;
        loop {
            actions.clear();
            possible(&self.settings, state, &mut actions);
            let begins = |action: &&Action| match action {
                Action::Request => retry && state.key.is_some(),
                Action::TakeOver | Action::LookAgain | Action::SecondLook => true,
                _ => false,
            };
            let Some(action) = way.choose(&actions).or_else(|| actions.iter().find(begins).copied()) else { return };
            retry &= action != Action::Request;
            if !self.one_step(state, action, steps) {
                return;
            }
        }
    }

    /// Neither look-up nor deduplication is offered (any more), and something may have been sent.
    fn only_an_operator_can_tell(&self, state: &State) -> bool {
        let Some(key) = &state.key else { return false };
        let there = &state.references[usize::from(key.reference)];
        let offer = self.settings.offer;
        let tells = offer.lookup || (offer.idempotent && crate::booking::deduplicates(&self.settings, there));
        key.state == KeyState::OutcomeUnknown && key.next_look.is_none() && !tells
    }
}

/// Nothing happens any more but the end of the retention.
fn is_settled(state: &State) -> bool {
    state.key.is_none_or(|k| match k.state {
        KeyState::Completed => true,
        KeyState::Released => k.expires.is_some(),
        KeyState::InProgress | KeyState::OutcomeUnknown => false,
    })
}
