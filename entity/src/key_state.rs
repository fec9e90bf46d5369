//! PURE: the states of a key, the events that move it, and [`next`], the only place that says which move is legal.
//!
//! The SQL of every transition takes its guard from here ([`Event::from_states`]), the diagram and the table in
//! `docs/state-machine.md` are compared with it by a test, and the model check runs it.

use std::fmt;

/// State of a stored key; a key that is not stored (never seen, freed or expired) is `None` in [`next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyState {
    /// Claimed and committed before the call; carries a lease.
    InProgress,
    /// The final answer is stored.
    Completed,
    /// The lease lapsed and the booking system says there is no such booking.
    Released,
    /// The lease lapsed and nobody can tell yet.
    OutcomeUnknown,
}

/// What moves a key. Names are those of contract, section 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// A request takes the key: a fresh one, or one that was released. Needs the same request.
    Claim,
    /// A lapsed lease goes to a new worker.
    TakeOver,
    /// The worker lives: its lease is extended.
    Renew,
    /// The worker stops without an outcome and ends its own lease.
    EndLease,
    /// The final answer is stored.
    Finalize,
    /// Nothing can have happened there: the key is bound to no request again.
    Free,
    /// There is no such booking, and that is believed.
    Release,
    /// Nobody can tell yet.
    GiveUp,
    /// The release job asks again for an unknown key, under a lease of its own.
    LookAgain,
    /// The second look at a released key finds a late booking.
    FindLate,
    /// The second look at a released key finds nothing: the release is final.
    ConfirmAbsence,
    /// The retention is over.
    Expire,
}

/// No such move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event} is not possible from {}", .from.map_or("(none)", KeyState::as_str))]
pub struct IllegalTransition {
    /// Where the key was.
    pub from: Option<KeyState>,
    /// What was tried.
    pub event: Event,
}

impl KeyState {
    /// All states, in the order of the contract.
    pub const ALL: [Self; 4] = [Self::InProgress, Self::Completed, Self::Released, Self::OutcomeUnknown];

    /// As stored, and as the API shows it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Released => "released",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }

    /// The state of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == name)
    }
}

impl Event {
    /// All events.
    pub const ALL: [Self; 12] = [
        Self::Claim,
        Self::TakeOver,
        Self::Renew,
        Self::EndLease,
        Self::Finalize,
        Self::Free,
        Self::Release,
        Self::GiveUp,
        Self::LookAgain,
        Self::FindLate,
        Self::ConfirmAbsence,
        Self::Expire,
    ];

    /// The word for it in docs, logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::TakeOver => "take over",
            Self::Renew => "renew",
            Self::EndLease => "end lease",
            Self::Finalize => "finalize",
            Self::Free => "free",
            Self::Release => "release",
            Self::GiveUp => "give up",
            Self::LookAgain => "look again",
            Self::FindLate => "find late",
            Self::ConfirmAbsence => "confirm absence",
            Self::Expire => "expire",
        }
    }

    /// The stored states this event may start from.
    pub fn from_states(self) -> impl Iterator<Item = KeyState> {
        KeyState::ALL.into_iter().filter(move |s| next(Some(*s), self).is_ok())
    }

    /// `state IN (...)`: the guard of this event's statement.
    #[must_use]
    pub fn guard(self) -> String {
        let names: Vec<_> = self.from_states().map(|s| format!("'{}'", s.as_str())).collect();
        format!("state IN ({})", names.join(", "))
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where an event leads.
enum To {
    /// To this; `None` is "not stored".
    State(Option<KeyState>),
    /// The state stays.
    Same,
}

/// The rule of an event: where it may start, and where it leads.
const fn rule(event: Event) -> (&'static [Option<KeyState>], To) {
    use KeyState::{Completed, InProgress, OutcomeUnknown, Released};
    const UNSETTLED: &[Option<KeyState>] = &[Some(InProgress), Some(OutcomeUnknown)];
    match event {
        Event::Claim => (&[None, Some(Released)], To::State(Some(InProgress))),
        Event::TakeOver | Event::EndLease => (&[Some(InProgress)], To::Same),
        Event::Renew => (UNSETTLED, To::Same),
        Event::Finalize => (UNSETTLED, To::State(Some(Completed))),
        Event::Free => (&[Some(InProgress)], To::State(None)),
        Event::Release => (UNSETTLED, To::State(Some(Released))),
        Event::GiveUp => (UNSETTLED, To::State(Some(OutcomeUnknown))),
        Event::LookAgain => (&[Some(OutcomeUnknown)], To::Same),
        Event::FindLate => (&[Some(Released)], To::State(Some(Completed))),
        Event::ConfirmAbsence => (&[Some(Released)], To::Same),
        Event::Expire => (&[Some(Completed), Some(Released)], To::State(None)),
    }
}

/// Where `event` leads from `from`; `None` is "not stored".
///
/// # Errors
/// [`IllegalTransition`] where there is no such move.
pub fn next(from: Option<KeyState>, event: Event) -> Result<Option<KeyState>, IllegalTransition> {
    let (starts, to) = rule(event);
    if !starts.contains(&from) {
        return Err(IllegalTransition { from, event });
    }
    Ok(match to {
        To::State(to) => to,
        To::Same => from,
    })
}
