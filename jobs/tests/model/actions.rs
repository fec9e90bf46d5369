//! What can happen, and what can happen next in a state.

use entity::key_state::KeyState;

use crate::settings::Settings;
use crate::state::{At, Kind, State};

/// What the booking system answers to a send, as its worker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Booked,
    /// `copy_books`: what was refused is a copy of our request that a proxy made, and the first copy books.
    Refused {
        copy_books: bool,
    },
    /// No connection, 401, 403, 404, 405 or 429.
    Nothing,
    /// Time-out, broken connection, 5xx; the send takes effect later, or never.
    Unknown {
        arrives: bool,
    },
}

/// One step. Workers and sends are named by their place in the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A tick passes for everybody.
    Tick,
    /// A client sends its request (again), and it gets to work on the key.
    Request,
    /// The release job takes a lapsed key over.
    TakeOver,
    /// The release job asks again for an unknown key.
    LookAgain,
    /// The release job looks once more at a released key.
    SecondLook,
    /// An operator says of an unknown key what is so.
    Resolve,
    /// A worker vanishes; what it has sent takes effect later, or never.
    Crash { worker: usize, arrives: bool },
    /// The heartbeat extends the lease.
    Renew { worker: usize },
    /// The heartbeat has seen that the lease is somebody else's: the worker stops, wherever it is.
    SeeLeaseLost { worker: usize, arrives: bool },
    /// The booking system reads for a look-up.
    Read { worker: usize },
    /// The look-up's answer comes back.
    LookedUp { worker: usize },
    /// The look-up is not answered. `goes_on`: `ANSWER_WITHIN` is not over.
    LookUpFails { worker: usize, goes_on: bool },
    /// The lease is compared.
    Check { worker: usize },
    /// The request leaves the house.
    Send { worker: usize },
    /// A send is answered.
    Answered { worker: usize, reply: Reply, goes_on: bool },
    /// A send that nobody waits for takes effect.
    Arrive { send: usize },
    /// The outcome is stored, if the key is still the worker's.
    Store { worker: usize },
}

/// All that can happen.
pub fn possible(settings: &Settings, state: &State, actions: &mut Vec<Action>) {
    if tick_may_pass(settings, state) {
        actions.push(Action::Tick);
    }
    if state.workers.len() < settings.workers {
        new_workers(settings, state, actions);
    }
    if settings.operator && state.key.is_some_and(|k| k.state == KeyState::OutcomeUnknown) {
        actions.push(Action::Resolve);
    }
    for worker in 0..state.workers.len() {
        of_worker(settings, state, worker, actions);
    }
    for send in 0..state.under_way.len() {
        if send == 0 || state.under_way[send] != state.under_way[send - 1] {
            actions.push(Action::Arrive { send });
        }
    }
}

/// Time stands still only where an assumption would be broken.
fn tick_may_pass(settings: &Settings, state: &State) -> bool {
    state.under_way.iter().all(|s| s.left > 1)
        && state.workers.iter().all(|w| match w.at {
            At::Checked { since, .. } => since < settings.pause_before_send,
            At::Sent { left, .. } => left > 1,
            At::LookUp { .. } | At::Looked { .. } | At::Send | At::Store(_) => true,
        })
}

fn new_workers(settings: &Settings, state: &State, actions: &mut Vec<Action>) {
    let may_request = match &state.key {
        None => state.references.len() < settings.references,
        Some(key) => match key.state {
            KeyState::InProgress => key.lease.is_some_and(|left| left <= 0),
            KeyState::Released => true,
            KeyState::Completed | KeyState::OutcomeUnknown => false,
        },
    };
    if may_request && state.left.requests > 0 {
        actions.push(Action::Request);
    }
    let Some(key) = &state.key else { return };
    let lapsed = key.lease.is_none_or(|left| left <= 0);
    let due = key.next_look == Some(0);
    match key.state {
        KeyState::InProgress if lapsed => actions.push(Action::TakeOver),
        KeyState::OutcomeUnknown if lapsed && due => actions.push(Action::LookAgain),
        KeyState::Released if due && settings.offer.lookup => actions.push(Action::SecondLook),
        KeyState::InProgress | KeyState::OutcomeUnknown | KeyState::Released | KeyState::Completed => {}
    }
}

fn of_worker(settings: &Settings, state: &State, worker: usize, actions: &mut Vec<Action>) {
    let w = state.workers[worker];
    // Two workers that are alike do alike.
    if worker > 0 && state.workers[worker - 1] == w {
        return;
    }
    let faults = state.left.faults > 0;
    // Only a request's worker tries again by itself, until `ANSWER_WITHIN`.
    let tries_again: &[bool] = if w.kind == Kind::Request { &[true, false] } else { &[false] };
    let has_sent = matches!(w.at, At::Sent { .. });
    match w.at {
        At::LookUp { .. } => actions.push(Action::Read { worker }),
        At::Looked { .. } => {
            actions.push(Action::LookedUp { worker });
            if faults {
                actions.extend(tries_again.iter().map(|&goes_on| Action::LookUpFails { worker, goes_on }));
            }
        }
        At::Send => actions.push(Action::Check { worker }),
        At::Checked { .. } => actions.push(Action::Send { worker }),
        At::Sent { .. } => {
            actions.push(Action::Answered { worker, reply: Reply::Booked, goes_on: false });
            if faults {
                let there = &state.references[usize::from(w.reference)];
                let replies = [
                    Reply::Refused { copy_books: false },
                    Reply::Refused { copy_books: true },
                    Reply::Nothing,
                    Reply::Unknown { arrives: true },
                    Reply::Unknown { arrives: false },
                ];
                for reply in replies {
                    // Deduplication answers a re-send of what is booked with the booking.
                    let is_refused = matches!(reply, Reply::Refused { .. });
                    if is_refused && there.bookings > 0 && crate::booking::deduplicates(settings, there) {
                        continue;
                    }
                    // ASSUMPTION: no copy is made, or a look-up shows what became of it.
                    if reply == (Reply::Refused { copy_books: true }) && !settings.offer.lookup && !settings.copies_unseen {
                        continue;
                    }
                    actions.extend(tries_again.iter().map(|&goes_on| Action::Answered { worker, reply, goes_on }));
                }
            }
        }
        At::Store(_) => actions.push(Action::Store { worker }),
    }
    let storing = matches!(w.at, At::Store(_));
    let fates: &[bool] = if has_sent { &[true, false] } else { &[false] };
    if state.left.crashes > 0 {
        actions.extend(fates.iter().map(|&arrives| Action::Crash { worker, arrives }));
    }
    if w.kind != Kind::SecondLook && !storing {
        let renewable = state.key.is_some_and(|k| !k.ended_by_worker && k.lease.is_some());
        if !w.has_token || !renewable {
            actions.extend(fates.iter().map(|&arrives| Action::SeeLeaseLost { worker, arrives }));
        } else if w.lease_left < crate::settings::LEASE {
            actions.push(Action::Renew { worker });
        }
    }
}
