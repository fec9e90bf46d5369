//! A path in words: what happened, and what the key was then.

use crate::actions::{Action, Reply};
use crate::state::{At, Key, Kind, Outcome, State, Worker};

/// One line a step.
pub fn of_path(path: Vec<(State, Option<Action>)>) -> String {
    let mut text = String::new();
    let states: Vec<_> = path.iter().map(|(state, _)| state.clone()).collect();
    for (n, (before, action)) in path.into_iter().enumerate() {
        let Some(action) = action else { continue };
        let after = states.get(n + 1).map_or_else(String::new, key);
        text.push_str(&format!("  {:>2}. {:<66} {after}\n", n + 1, step(&before, action)));
    }
    text
}

fn key(state: &State) -> String {
    let bookings: Vec<_> = state.references.iter().map(|r| r.bookings.to_string()).collect();
    let name = match state.key {
        None => String::from("(none)"),
        Some(Key { state, answer: Some(answer), .. }) => format!("{state}: {}", if answer.booked { "booked" } else { "rejected" }),
        Some(Key { state, .. }) => state.to_string(),
    };
    format!("{name}; bookings {}", if bookings.is_empty() { String::from("0") } else { bookings.join(" + ") })
}

fn who(worker: &Worker) -> &'static str {
    match (worker.kind, worker.has_token) {
        (Kind::Request, true) => "request",
        (Kind::Request, false) => "request (lost its lease)",
        (Kind::Job, true) => "job",
        (Kind::Job, false) => "job (lost its lease)",
        (Kind::SecondLook, true) => "second look",
        (Kind::SecondLook, false) => "second look (outdated)",
    }
}

fn step(state: &State, action: Action) -> String {
    let by = |worker: usize, text: &str| format!("{}: {text}", who(&state.workers[worker]));
    match action {
        Action::Tick => String::from("a tick passes"),
        Action::Request => String::from("a request takes the key"),
        Action::TakeOver => String::from("the release job takes the key over"),
        Action::LookAgain => String::from("the release job asks again"),
        Action::SecondLook => String::from("the release job begins a second look"),
        Action::Resolve => String::from("an operator resolves the key"),
        Action::Crash { worker, arrives: true } => by(worker, "vanishes, its send is under way"),
        Action::Crash { worker, arrives: false } => by(worker, "vanishes"),
        Action::Renew { worker } => by(worker, "renews its lease"),
        Action::SeeLeaseLost { worker, .. } => by(worker, "sees that the lease is lost, and stops"),
        Action::Read { worker } => by(worker, "looks up, the booking system reads"),
        Action::LookedUp { worker } => {
            let found = matches!(state.workers[worker].at, At::Looked { found: true, .. });
            by(worker, if found { "is told: found" } else { "is told: not there" })
        }
        Action::LookUpFails { worker, .. } => by(worker, "gets no answer to its look-up"),
        Action::Check { worker } => by(worker, "checks its lease"),
        Action::Send { worker } => by(worker, "sends"),
        Action::Answered { worker, reply, .. } => by(
            worker,
            match reply {
                Reply::Booked => "is answered: booked",
                Reply::Refused { copy_books: false } => "is answered: refused",
                Reply::Refused { copy_books: true } => "is answered: refused, and a copy of its send books",
                Reply::Nothing => "is answered: nothing happened",
                Reply::Unknown { arrives: true } => "gets no answer, its send is under way",
                Reply::Unknown { arrives: false } => "gets no answer, its send is lost",
            },
        ),
        Action::Arrive { .. } => String::from("a send that nobody waits for takes effect"),
        Action::Store { worker } => {
            let At::Store(end) = state.workers[worker].at else { return String::new() };
            by(
                worker,
                match end {
                    Outcome::Booked => "finalizes: booked",
                    Outcome::Rejected => "finalizes: rejected",
                    Outcome::Free => "frees the key",
                    Outcome::Release => "releases the key",
                    Outcome::GiveUp { .. } => "gives the key up",
                    Outcome::EndLease => "ends its lease",
                    Outcome::FindLate => "stores the late booking",
                    Outcome::ConfirmAbsence => "confirms the absence",
                    Outcome::Postpone => "puts the second look off",
                },
            )
        }
    }
}
