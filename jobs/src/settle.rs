//! THE FLOW under a lease: the one code path for a first attempt, a retry that takes over, and the release job.
//!
//! It runs in a task of its own, so that a caller who hangs up changes nothing. No transaction and no pooled connection is held while
//! the booking system is asked. A crash anywhere leaves the key `in_progress` under a lease that lapses; whoever takes it over begins
//! with a look-up (where there is one), or sends a change again. What is decided lies in [`crate::rules`]; here it is done.

mod call;
mod change;
mod heartbeat;
mod make;
mod store;

use std::sync::Arc;
use std::time::Duration;

use entity::database::Database;
use entity::idempotency_key::{Answer, Record};
use entity::key_scope::Operation;
use entity::lifecycle::Work;
use rand::RngExt;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::answer;
use crate::booking::http::HttpBookingSystem;
use crate::booking::{Nothing, Unknown};
use crate::boot_clock::{BootInstant, millis};
use crate::journal::Journal;
use crate::outcomes::Outcomes;
use crate::rules::{Bounds, Leave, Offer, Purpose, Situation};
use heartbeat::LeaseClock;

pub(crate) use make::booked;

/// What a worker needs to know of the configuration.
#[derive(Debug, Clone)]
pub struct SettleSettings {
    /// `BOOKING_IDEMPOTENT`, `BOOKING_LOOKUP`.
    pub offer: Offer,
    /// Times of the rules.
    pub bounds: Bounds,
    /// `BOOKING_CONNECT_TIMEOUT`: no send begins with less lease left.
    pub connect_timeout: Duration,
    /// `LEASE`.
    pub lease: Duration,
    /// `KEY_RETENTION`.
    pub retention: Duration,
    /// `ANSWER_WITHIN`: a request's worker stops sending again by then.
    pub answer_within: Duration,
    /// `PUBLIC_URL` without its trailing slash; part of the stored answers.
    pub public_base: String,
    /// `ON_ABSENT=rebook`.
    pub rebook: bool,
}

/// What an attempt came to, for its own caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// This attempt finalized the key with this answer.
    Answered(Answer),
    /// Refused there, and not stored (a cancellation): the answer is for this caller alone.
    Refused(Answer),
    /// Nothing happened there; the key is bound to no request again.
    Freed(Nothing),
    /// Believed absent; the same request may run again.
    Released,
    /// Nobody can tell yet; the release job goes on.
    Pending,
    /// Somebody else has the key: what its record says is the answer.
    LeaseLost,
}

/// Settles keys. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Settler {
    db: Database,
    booking: HttpBookingSystem,
    settings: Arc<SettleSettings>,
    journal: Journal,
    outcomes: Arc<Outcomes>,
    tasks: TaskTracker,
}

/// The right to work on a key, with the moment from which its lease is counted: before the claim was sent.
#[derive(Debug)]
pub struct Assignment {
    /// The key.
    pub work: Work,
    /// Taken before the claim, take-over or renewal was sent.
    pub counted_from: BootInstant,
}

impl Settler {
    /// A settler whose tasks are counted in `tasks`, so that a graceful stop can wait for them.
    #[must_use]
    pub fn new(db: Database, booking: HttpBookingSystem, settings: SettleSettings, journal: Journal, tasks: TaskTracker) -> Self {
        Self { db, booking, settings: Arc::new(settings), journal, outcomes: Arc::default(), tasks }
    }

    /// Works on the key in a task of its own, whoever listens. An end without an outcome (a panic, the process's stop) leaves the key
    /// to the lapse of its lease, and the receiver closed.
    pub fn settle(&self, assignment: Assignment, purpose: Purpose) -> oneshot::Receiver<Outcome> {
        let (tell, told) = oneshot::channel();
        let settler = self.clone();
        self.tasks.spawn(async move {
            let outcome = settler.run(assignment, purpose).await;
            // Nobody listens any more: the caller has hung up or was answered already.
            let _ = tell.send(outcome);
        });
        told
    }

    /// What the worker needs of the configuration.
    #[must_use]
    pub fn settings(&self) -> &SettleSettings {
        &self.settings
    }

    /// How the attempts of this process ended.
    #[must_use]
    pub fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    pub(crate) const fn db(&self) -> &Database {
        &self.db
    }

    pub(crate) const fn booking(&self) -> &HttpBookingSystem {
        &self.booking
    }

    async fn run(&self, assignment: Assignment, purpose: Purpose) -> Outcome {
        let operation = assignment.work.record.operation;
        let reference = assignment.work.record.reference.clone();
        let clock = LeaseClock::start(&self.db, &assignment, self.settings.lease);
        // Also if the attempt panics: nobody may renew the lease of a worker that is gone.
        let _closes = clock.close_on_drop();
        let mut attempt = Attempt::new(self, assignment, purpose, clock.clone());
        let outcome = tokio::select! {
            biased;
            () = clock.lost() => Outcome::LeaseLost,
            outcome = attempt.run() => outcome,
        };
        self.outcomes.count(operation, &outcome);
        let (number, began) = (attempt.record.attempt, attempt.started);
        attempt.note("attempt", (outcome.name().into(), None), began);
        tracing::info!(operation = operation.as_str(), %reference, attempt = number, outcome = outcome.name(), "attempt ended");
        outcome
    }
}

impl Outcome {
    /// For logs and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::Refused(_) => "refused",
            Self::Freed(_) => "freed",
            Self::Released => "released",
            Self::Pending => "pending",
            Self::LeaseLost => "lease_lost",
        }
    }
}

/// One attempt: a key, its lease, and what has been sent.
struct Attempt<'a> {
    settler: &'a Settler,
    record: Record,
    origin: entity::lifecycle::Origin,
    lease: entity::lifecycle::Lease,
    purpose: Purpose,
    clock: LeaseClock,
    started: BootInstant,
    /// Begin of this attempt's last send that may have had an effect.
    last_sent: Option<BootInstant>,
    /// "There is no such booking" was said since the last send, and is certain.
    absent: bool,
    pauses: u32,
}

impl<'a> Attempt<'a> {
    fn new(settler: &'a Settler, assignment: Assignment, purpose: Purpose, clock: LeaseClock) -> Self {
        let Assignment { work, .. } = assignment;
        Self {
            settler,
            record: work.record,
            origin: work.origin,
            lease: work.lease,
            purpose,
            clock,
            // Taken after the claim came back: ages are rather too small than too large.
            started: BootInstant::now(),
            last_sent: None,
            absent: false,
            pauses: 0,
        }
    }

    async fn run(&mut self) -> Outcome {
        match self.record.operation {
            Operation::Create => self.make().await,
            Operation::Change | Operation::Cancel => self.change().await,
        }
    }

    fn bounds(&self) -> &Bounds {
        &self.settler.settings.bounds
    }

    /// What is known now. Ages are counted by the database's clock until the claim and by our own since.
    fn situation(&self) -> Situation {
        let since_claim = self.started.elapsed_ms();
        let before = self.record.maybe_sent_until_ms.map(|at| self.record.now_ms - at + since_claim);
        let age = self.last_sent.map(BootInstant::elapsed_ms).or(before);
        let reference_age = self.record.now_ms - self.record.created_at_ms + since_claim;
        Situation::new(self.settler.settings.offer, self.bounds(), reference_age, age)
    }

    /// Whether the lease has more left than it takes to get a connection: checked immediately before every send.
    async fn has_lease_to_send(&self) -> bool {
        self.clock.has_left(self.settler.settings.connect_timeout).await
    }

    /// Waits before the next call, longer each time, with jitter; false where `ANSWER_WITHIN` would be over.
    async fn pause(&mut self) -> bool {
        if self.purpose != Purpose::Request {
            return true;
        }
        let full_ms = 100_u64 << self.pauses.min(5);
        self.pauses += 1;
        let pause_ms = rand::rng().random_range(full_ms / 2..=full_ms);
        let left_ms = millis(self.settler.settings.answer_within) - self.started.elapsed_ms();
        if left_ms <= i64::try_from(pause_ms).unwrap_or(i64::MAX) {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        true
    }

    fn log_unknown(&self, call: &str, why: &Unknown) {
        tracing::warn!(reference = %self.record.reference, call, %why, "the booking system's answer settles nothing");
    }

    /// Ends without an outcome, as the rules say.
    async fn cannot_tell(&mut self) -> Outcome {
        let situation = self.situation();
        let repeatable = self.record.operation != Operation::Create;
        match situation.leave(self.purpose, self.last_sent.is_some(), repeatable) {
            Leave::GiveUp => self.give_up(&situation).await,
            Leave::EndLease => self.end_lease().await,
        }
    }

    /// Ends without an outcome where no worker of this release can ever tell: an operator has to look.
    async fn cannot_be_read(&mut self, error: &answer::UnreadableRequest) -> Outcome {
        tracing::error!(%error, reference = %self.record.reference, "a key cannot be settled");
        let situation = self.situation();
        self.give_up(&situation).await
    }
}
