//! The promises of the service, checked over every order of events within small bounds.
#![expect(clippy::print_stdout, reason = "the figures and the counter-examples are for reading")]

mod actions;
mod booking;
mod mutations;
mod properties;
mod runs;
mod settings;
mod state;
mod store;
mod trace;
mod worker;

use entity::key_state::Event;
use entity::lifecycle::Origin;
use stateright::{Model, Property};

use actions::{Action, possible};
use settings::Settings;
use state::{At, State};
use store::{Seen, Store};

/// One run of the checker.
#[derive(Debug)]
pub struct Check {
    settings: Settings,
    seen: Seen,
    known: properties::Known,
}

impl Check {
    fn new(settings: Settings) -> Self {
        Self { settings, seen: Seen::default(), known: properties::Known::default() }
    }

    /// Does it; false where nothing changed.
    fn apply(&self, state: &mut State, action: Action) -> bool {
        let settings = &self.settings;
        let store = Store { settings, seen: &self.seen };
        let done = match action {
            Action::Tick => {
                self.tick(state);
                true
            }
            Action::Request => {
                state.left.requests -= 1;
                store.request(state)
            }
            Action::TakeOver => store.sweep(state, Event::TakeOver, Origin::TakeOver),
            Action::LookAgain => store.sweep(state, Event::LookAgain, Origin::LookAgain),
            Action::SecondLook => store.take_second_look(state),
            Action::Resolve => store.resolve(state),
            Action::Crash { worker, arrives } => {
                state.left.crashes -= 1;
                vanish(state, worker, arrives);
                true
            }
            Action::SeeLeaseLost { worker, arrives } => {
                vanish(state, worker, arrives);
                true
            }
            Action::Renew { worker } => store.renew(state, worker),
            Action::Read { worker } => {
                state.workers[worker] = worker::read(state.workers[worker], state);
                true
            }
            Action::LookedUp { worker } => {
                state.workers[worker] = worker::looked_up(settings, state.workers[worker], state);
                true
            }
            Action::LookUpFails { worker, goes_on } => {
                state.left.faults -= 1;
                state.workers[worker] = worker::look_up_fails(settings, state.workers[worker], state, goes_on);
                true
            }
            Action::Check { worker } => {
                state.workers[worker] = worker::check(settings, state.workers[worker], state);
                true
            }
            Action::Send { worker } => {
                state.workers[worker] = worker::send(settings, state.workers[worker]);
                true
            }
            Action::Answered { worker, reply, goes_on } => {
                if reply != actions::Reply::Booked {
                    state.left.faults -= 1;
                }
                state.workers[worker] = worker::answered(settings, state.workers[worker], state, reply, goes_on);
                true
            }
            Action::Arrive { send } => {
                booking::arrive(settings, state, send);
                true
            }
            Action::Store { worker } => {
                let worker = state.workers.remove(worker);
                let At::Store(end) = worker.at else { return false };
                store.end(state, worker, end);
                true
            }
        };
        state.sort();
        done
    }

    fn tick(&self, state: &mut State) {
        if let Some(remembered) = self.settings.remembers_for {
            for reference in &mut state.references {
                reference.age = (reference.age + 1).min(remembered);
            }
        }
        for worker in &mut state.workers {
            worker::tick(worker);
        }
        for send in &mut state.under_way {
            send.left = (send.left - 1).max(0);
        }
        Store { settings: &self.settings, seen: &self.seen }.tick(state);
    }
}

/// A worker is gone; what it has sent and nobody waits for now takes effect, or does not.
fn vanish(state: &mut State, worker: usize, arrives: bool) {
    let gone = state.workers.remove(worker);
    if let (At::Sent { left, .. }, true) = (gone.at, arrives) {
        booking::leave(state, gone.reference, left);
    }
}

impl Model for Check {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.settings.budget)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        possible(&self.settings, state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, action).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
