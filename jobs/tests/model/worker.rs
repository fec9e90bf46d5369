//! A worker: `jobs::settle` for a creation, and the second look of the release job, step by step. What is decided is decided by the real
//! rules (`crate::mutations` passes them on), what is done follows `settle/make.rs` and `settle.rs`.

use entity::lifecycle::Origin;
use jobs::rules::{Leave, Purpose, Situation, Step, growing_pause_ms};

use crate::actions::Reply;
use crate::booking;
use crate::mutations::Rules;
use crate::settings::{CONNECT, Settings, TICK_MS};
use crate::state::{At, Kind, MaybeSent, NotThere, Outcome, State, Then, Worker, older};

/// A pause of the rules, in ticks.
pub fn pause_ticks(looks: u8) -> i16 {
    ticks(growing_pause_ms(i64::from(looks)))
}

fn ticks(ms: i64) -> i16 {
    i16::try_from(ms.div_euclid(TICK_MS) + i64::from(ms.rem_euclid(TICK_MS) > 0)).unwrap_or(i16::MAX)
}

fn purpose(settings: &Settings, worker: &Worker) -> Purpose {
    match worker.kind {
        Kind::Request => Purpose::Request,
        Kind::Job | Kind::SecondLook => Purpose::Recovery { rebook: settings.rebook },
    }
}

/// `Attempt::situation`.
fn situation(settings: &Settings, worker: &Worker, state: &State) -> Situation {
    let reference_age_ms = i64::from(state.references[usize::from(worker.reference)].age) * TICK_MS;
    let unknown_send_age_ms = worker.maybe_sent.map(|m| i64::from(m.age) * TICK_MS);
    Situation::new(settings.offer, &settings.bounds(), reference_age_ms, unknown_send_age_ms)
}

fn rules(settings: &Settings) -> Rules {
    Rules { mutation: settings.mutation, bounds: settings.bounds() }
}

/// A new attempt, at its first step.
pub fn begin(settings: &Settings, worker: Worker, origin: Origin, state: &State) -> Worker {
    let step = rules(settings).begin(&situation(settings, &worker, state), origin, purpose(settings, &worker));
    goes(settings, worker, step, state)
}

/// Where a step leads.
fn goes(settings: &Settings, worker: Worker, step: Step, state: &State) -> Worker {
    let at = match step {
        Step::LookUp => At::LookUp { not_there: not_there(settings, &worker, state) },
        Step::Send => At::Send,
        Step::Release => At::Store(Outcome::Release),
        Step::Stop => At::Store(cannot_tell(settings, &worker, state)),
    };
    Worker { at, ..worker }
}

/// Decided when the look-up begins: what it reads is as old as that.
fn not_there(settings: &Settings, worker: &Worker, state: &State) -> NotThere {
    let (rules, began) = (rules(settings), situation(settings, worker, state));
    let then = match rules.after_not_there(&began, purpose(settings, worker)) {
        Step::Send => Then::Send,
        Step::Release => Then::Release,
        Step::Stop | Step::LookUp => Then::Stop,
    };
    NotThere { certain: rules.absence_is_certain(&began), then }
}

/// `Attempt::cannot_tell`.
fn cannot_tell(settings: &Settings, worker: &Worker, state: &State) -> Outcome {
    let situation = situation(settings, worker, state);
    match situation.leave(purpose(settings, worker), worker.maybe_sent.is_some_and(|m| m.own), false) {
        Leave::GiveUp => {
            let next_look = situation.next_look_in_ms(&settings.bounds(), i64::from(worker.looks)).map(ticks);
            Outcome::GiveUp { next_look }
        }
        Leave::EndLease => Outcome::EndLease,
    }
}

/// `Attempt::again`.
fn again(settings: &Settings, worker: Worker, state: &State, goes_on: bool) -> Worker {
    let next = situation(settings, &worker, state).after_unsettled(purpose(settings, &worker));
    let next = if worker.kind == Kind::Request && !goes_on { Step::Stop } else { next };
    goes(settings, worker, next, state)
}

/// The booking system reads.
pub fn read(worker: Worker, state: &State) -> Worker {
    let At::LookUp { not_there } = worker.at else { return worker };
    let found = state.references[usize::from(worker.reference)].bookings > 0;
    Worker { at: At::Looked { found, not_there }, ..worker }
}

/// The look-up's answer is back.
pub fn looked_up(settings: &Settings, worker: Worker, state: &State) -> Worker {
    let At::Looked { found, not_there } = worker.at else { return worker };
    let at = match (worker.kind, found) {
        (Kind::SecondLook, true) => At::Store(Outcome::FindLate),
        (Kind::SecondLook, false) => At::Store(Outcome::ConfirmAbsence),
        (Kind::Request | Kind::Job, true) => At::Store(Outcome::Booked),
        (Kind::Request | Kind::Job, false) => {
            let step = match not_there.then {
                Then::Send => Step::Send,
                Then::Release => Step::Release,
                Then::Stop => Step::Stop,
                Then::Reject => return Worker { at: At::Store(Outcome::Rejected), ..worker },
            };
            return goes(settings, Worker { absent: not_there.certain, ..worker }, step, state);
        }
    };
    Worker { at, ..worker }
}

/// The look-up is not answered.
pub fn look_up_fails(settings: &Settings, worker: Worker, state: &State, goes_on: bool) -> Worker {
    let after_refusal = matches!(worker.at, At::Looked { not_there: NotThere { then: Then::Reject, .. }, .. });
    match worker.kind {
        Kind::SecondLook => Worker { at: At::Store(Outcome::Postpone), ..worker },
        Kind::Request if after_refusal && goes_on => look_after_refusal(worker),
        Kind::Request | Kind::Job if after_refusal => goes(settings, worker, Step::Stop, state),
        Kind::Request | Kind::Job => again(settings, worker, state, goes_on),
    }
}

/// The check before a send, and what the worker believes at that moment.
pub fn check(settings: &Settings, worker: Worker, state: &State) -> Worker {
    let (rules, before) = (rules(settings), situation(settings, &worker, state));
    let has_lease = worker.lease_left > CONNECT || rules.sends_without_lease();
    if !has_lease || !rules.may_send(&before, worker.absent) {
        return goes(settings, worker, Step::Stop, state);
    }
    let (believes_refusal, may_free) = (rules.refusal_is_believed(&before), rules.may_free(&before));
    Worker { absent: false, at: At::Checked { since: 0, believes_refusal, may_free }, ..worker }
}

/// The send begins.
pub fn send(settings: &Settings, worker: Worker) -> Worker {
    let At::Checked { since, believes_refusal, may_free } = worker.at else { return worker };
    // A pause that is longer than assumed leaves a tick.
    let left = (settings.takes_effect_within - since).max(1);
    Worker { at: At::Sent { left, believes_refusal, may_free }, ..worker }
}

/// `Attempt::look_after_refusal`.
fn look_after_refusal(worker: Worker) -> Worker {
    Worker { at: At::LookUp { not_there: NotThere { certain: false, then: Then::Reject } }, ..worker }
}

/// The send is answered; what it does there happens at this moment, or later.
pub fn answered(settings: &Settings, worker: Worker, state: &mut State, reply: Reply, goes_on: bool) -> Worker {
    let At::Sent { left, believes_refusal, may_free } = worker.at else { return worker };
    let end = |end| Worker { at: At::Store(end), ..worker };
    let age = (settings.takes_effect_within - left).min(crate::settings::OLD);
    let maybe_sent = Some(MaybeSent { age, own: true });
    if reply == (Reply::Refused { copy_books: true }) {
        booking::book(settings, state, worker.reference);
    }
    match reply {
        Reply::Booked => {
            booking::book(settings, state, worker.reference);
            end(Outcome::Booked)
        }
        // Written down only if the look-up is not answered; else nobody reads it.
        Reply::Refused { .. } if believes_refusal && rules(settings).looks_after_refusal(settings.offer) => {
            look_after_refusal(Worker { maybe_sent, ..worker })
        }
        Reply::Refused { .. } if believes_refusal => end(Outcome::Rejected),
        Reply::Nothing if may_free => end(Outcome::Free),
        Reply::Refused { .. } | Reply::Nothing => again(settings, worker, state, goes_on),
        Reply::Unknown { arrives } => {
            if arrives {
                booking::leave(state, worker.reference, left);
            }
            again(settings, Worker { maybe_sent, ..worker }, state, goes_on)
        }
    }
}

/// A tick passes for a worker.
pub fn tick(worker: &mut Worker) {
    worker.lease_left = (worker.lease_left - 1).max(0);
    match &mut worker.at {
        // How long ago it has sent is computed once, before the outcome is stored.
        At::Store(_) => return,
        At::Sent { left, .. } => *left -= 1,
        At::Checked { since, .. } => *since = older(*since),
        At::LookUp { .. } | At::Looked { .. } | At::Send => {}
    }
    if let Some(maybe_sent) = &mut worker.maybe_sent {
        maybe_sent.age = older(maybe_sent.age);
    }
}
