//! The end of an attempt: its outcome goes to the database, tried again until the lease is over.

use std::future::Future;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use entity::idempotency_key::Answer;
use entity::lifecycle::{self, Effect, Finalized, Moved};
use entity::store_error::StoreError;

use super::{Attempt, Outcome};
use crate::booking::Nothing;
use crate::boot_clock::millis;
use crate::jitter::spread_ms;
use crate::rules::Situation;

impl Attempt<'_> {
    /// Stores the answer with what it says about the reservation. The answer leaves the house only after this.
    pub(super) async fn finalize(&mut self, answer: Answer, effect: Effect) -> Outcome {
        let retention_ms = millis(self.settler.settings.retention);
        match self.store(|| lifecycle::finalize(&self.settler.db, &self.lease, &answer, &effect, retention_ms)).await {
            Some(Finalized::Done) => Outcome::Answered(answer),
            Some(Finalized::LeaseLost) => Outcome::LeaseLost,
            None => Outcome::Pending,
        }
    }

    /// A refusal that is for this caller alone: the key is completed and expired in one, so that the next request is a new one.
    pub(super) async fn refuse_unstored(&mut self, answer: Answer) -> Outcome {
        match self.store(|| lifecycle::finalize(&self.settler.db, &self.lease, &answer, &Effect::None, 0)).await {
            Some(Finalized::Done) => Outcome::Refused(answer),
            Some(Finalized::LeaseLost) => Outcome::LeaseLost,
            None => Outcome::Pending,
        }
    }

    /// Nothing can have happened: the key goes.
    pub(super) async fn free(&mut self, nothing: Nothing) -> Outcome {
        match self.store(|| lifecycle::free(&self.settler.db, &self.lease)).await {
            Some(Moved::Done) => Outcome::Freed(nothing),
            // A lost acknowledgement looks the same as a lost lease: the key is gone, or somebody else's.
            Some(Moved::LeaseLost) => Outcome::LeaseLost,
            None => Outcome::Pending,
        }
    }

    /// Believed absent. With look-up the release becomes final only after a second one.
    pub(super) async fn release(&mut self) -> Outcome {
        let settings = &self.settler.settings;
        let bounds = &settings.bounds;
        let second_look = settings.offer.lookup.then(|| bounds.settles_after_ms());
        let (sent, retention_ms) = (self.last_sent_ms_ago(), millis(settings.retention));
        match self.store(|| lifecycle::release(&self.settler.db, &self.lease, sent, second_look, retention_ms)).await {
            Some(Moved::Done) => Outcome::Released,
            Some(Moved::LeaseLost) => Outcome::LeaseLost,
            None => Outcome::Pending,
        }
    }

    pub(super) async fn give_up(&mut self, situation: &Situation) -> Outcome {
        let next_look = match self.record.operation {
            entity::key_scope::Operation::Create => situation.next_look_in_ms(self.bounds(), self.record.looks),
            // Sending a change again is always allowed, so the job always goes on.
            entity::key_scope::Operation::Change | entity::key_scope::Operation::Cancel => {
                Some(crate::rules::growing_pause_ms(self.record.looks))
            }
        };
        let next_look = next_look.map(spread_ms);
        let sent = self.last_sent_ms_ago();
        left(self.store(|| lifecycle::give_up(&self.settler.db, &self.lease, sent, next_look)).await)
    }

    pub(super) async fn end_lease(&mut self) -> Outcome {
        let sent = self.last_sent_ms_ago();
        left(self.store(|| lifecycle::end_lease(&self.settler.db, &self.lease, sent)).await)
    }

    fn last_sent_ms_ago(&self) -> Option<i64> {
        self.last_sent.map(crate::boot_clock::BootInstant::elapsed_ms)
    }

    /// Runs a transition until it is answered; `None` where the storage did not answer until the lease was over.
    async fn store<T, F>(&self, transition: impl FnMut() -> F) -> Option<T>
    where
        T: From<LeaseAlreadyLost>,
        F: Future<Output = Result<T, StoreError>>,
    {
        if !self.clock.close() {
            return Some(LeaseAlreadyLost.into());
        }
        let backoff = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(50))
            .with_max_delay(Duration::from_secs(1))
            .with_jitter()
            .without_max_times();
        let stored = transition
            .retry(backoff)
            .when(|error| matches!(error, StoreError::Unavailable(_)))
            // Counts the tries as well as the pauses. A try that has begun is never cut short.
            .adjust(|_, pause| pause.filter(|pause| *pause < self.clock.left()))
            .notify(|error, _| tracing::warn!(%error, "the outcome is not stored yet"))
            .await;
        stored.inspect_err(|error| tracing::error!(%error, "the outcome was not stored before the lease was over")).ok()
    }
}

/// Left to others: what is not stored of it is a lease that lapses by itself.
const fn left(moved: Option<Moved>) -> Outcome {
    match moved {
        Some(Moved::Done) | None => Outcome::Pending,
        Some(Moved::LeaseLost) => Outcome::LeaseLost,
    }
}

/// The heartbeat has seen it already.
struct LeaseAlreadyLost;

impl From<LeaseAlreadyLost> for Moved {
    fn from(_: LeaseAlreadyLost) -> Self {
        Self::LeaseLost
    }
}

impl From<LeaseAlreadyLost> for Finalized {
    fn from(_: LeaseAlreadyLost) -> Self {
        Self::LeaseLost
    }
}
