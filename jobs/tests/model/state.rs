//! The state of the model. All times are relative to now and stop counting where nobody tells them apart, so that the states are
//! finitely many.

use entity::key_state::KeyState;

use crate::settings::{Budget, MANY_LOOKS, OLD};

/// Index of a reference in [`State::references`].
pub type Ref = u8;

/// A final answer: as good as its bytes, which follow from the reference and from this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Final {
    /// Whose reservation it shows.
    pub reference: Ref,
    /// 201; else the booking system's final refusal.
    pub booked: bool,
}

/// The row of the key, with the columns that guards compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub state: KeyState,
    pub reference: Ref,
    /// `lease_until_ms`: ticks left; 0 and below: lapsed so long ago.
    pub lease: Option<i8>,
    /// `lease_ended_at_ms` is set.
    pub ended_by_worker: bool,
    /// Age of `maybe_sent_until_ms`.
    pub maybe_sent: Option<i8>,
    /// Counted up to [`MANY_LOOKS`]: the pauses of the model grow no longer than that.
    pub looks: u8,
    /// `next_look_at_ms`: ticks left; 0 is due.
    pub next_look: Option<i16>,
    /// `expires_at_ms`: ticks left. An expired key goes at once: it behaves like none anyway.
    pub expires: Option<i8>,
    pub answer: Option<Final>,
}

/// What became of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Reference {
    /// Bookings that exist in the booking system.
    pub bookings: u8,
    /// A confirmed reservation is stored.
    pub confirmed: bool,
    /// Ticks since it was made; stands still where the booking system never forgets.
    pub age: i8,
}

/// A send that nobody waits for any more and that takes effect before `left` ticks are over. One that never does is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnderWay {
    pub reference: Ref,
    pub left: i8,
}

/// For whom a worker works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Request,
    Job,
    /// The second look at a released key: without a lease.
    SecondLook,
}

/// When a send that may have had an effect could last have begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MaybeSent {
    pub age: i8,
    /// By this attempt: written down at its end.
    pub own: bool,
}

/// Somebody who works on the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker {
    pub kind: Kind,
    /// Its lease token is the key's (of a second look: the attempt that it saw). Both change with every claim and take-over, and one
    /// that was replaced never comes back.
    pub has_token: bool,
    /// What is left of the lease by the worker's own clock.
    pub lease_left: i8,
    pub reference: Ref,
    pub looks: u8,
    pub maybe_sent: Option<MaybeSent>,
    /// `Attempt::absent`: a look-up has said that there is no booking, and it is certain.
    pub absent: bool,
    pub at: At,
}

/// The next thing that happens to a worker. Between any two it may take any time, or vanish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum At {
    /// Its look-up is on the way. What "not there" would mean was decided when it began.
    LookUp { not_there: NotThere },
    /// The booking system has read; the answer is on the way back.
    Looked { found: bool, not_there: NotThere },
    /// It is about to check its lease and send.
    Send,
    /// It has checked, and not yet sent. What it believes now decides what the answer will prove.
    Checked { since: i8, believes_refusal: bool, may_free: bool },
    /// It has sent, and waits.
    Sent { left: i8, believes_refusal: bool, may_free: bool },
    /// It stores its outcome.
    Store(Outcome),
}

/// What "there is no such booking" means to the worker that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NotThere {
    /// It is certain: nothing can arrive any more.
    pub certain: bool,
    pub then: Then,
}

/// A step after a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Then {
    Send,
    Release,
    Stop,
    /// The send before it was refused, and that is believed.
    Reject,
}

/// The transition that ends an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    Booked,
    Rejected,
    Free,
    Release,
    GiveUp {
        next_look: Option<i16>,
    },
    EndLease,
    /// Of a second look.
    FindLate,
    ConfirmAbsence,
    Postpone,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub key: Option<Key>,
    pub references: Vec<Reference>,
    /// The first reference of this life of the key: those before belong to lives whose retention is over.
    pub life: u8,
    pub workers: Vec<Worker>,
    pub under_way: Vec<UnderWay>,
    /// The final answer that callers have got in this life.
    pub told: Option<Final>,
    /// They have got two different ones.
    pub contradicted: bool,
    pub left: Budget,
}

impl State {
    /// Before the first request.
    pub fn new(budget: Budget) -> Self {
        Self {
            key: None,
            references: Vec::new(),
            life: 0,
            workers: Vec::new(),
            under_way: Vec::new(),
            told: None,
            contradicted: false,
            left: budget,
        }
    }

    /// Who stands where in the lists means nothing.
    pub fn sort(&mut self) {
        self.workers.sort_unstable();
        self.under_way.sort_unstable();
    }
}

/// One more look that settled nothing.
pub fn one_more(looks: u8) -> u8 {
    (looks + 1).min(MANY_LOOKS)
}

/// A tick older, up to where it matters.
pub fn older(age: i8) -> i8 {
    age.saturating_add(1).min(OLD)
}
