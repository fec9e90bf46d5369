//! The heartbeat: renews the lease while the worker lives, apart from its work, and knows how much is left.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use entity::database::Database;
use entity::lifecycle::{Lease, Renewed, renew};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Assignment;
use crate::boot_clock::{BootInstant, millis};

/// The deadline of a lease as its worker may count on it: by its own clock, from before the claim or renewal was sent.
#[derive(Debug, Clone)]
pub(super) struct LeaseClock {
    inner: Arc<Mutex<Inner>>,
    renewed: Arc<Notify>,
    lost: CancellationToken,
    closed: CancellationToken,
}

#[derive(Debug)]
struct Inner {
    deadline: BootInstant,
    /// The worker has begun to store its outcome: from here on it is the store that says whose the key is.
    closed: bool,
}

impl LeaseClock {
    /// Starts the heartbeat: every third of a lease, the first counted from before the claim was sent.
    pub(super) fn start(db: &Database, assignment: &Assignment, lease: Duration) -> Self {
        // An unknown key that is looked at again carries a lease without being in progress.
        let left_ms = assignment.work.record.lease_left_ms().unwrap_or_else(|| millis(lease));
        let clock = Self {
            inner: Arc::new(Mutex::new(Inner { deadline: assignment.counted_from.plus_ms(left_ms), closed: false })),
            renewed: Arc::default(),
            lost: CancellationToken::new(),
            closed: CancellationToken::new(),
        };
        tokio::spawn(clock.clone().beat(db.clone(), assignment.work.lease.clone(), lease));
        clock
    }

    /// What is left by our own clock.
    pub(super) fn left(&self) -> Duration {
        self.inner().deadline.left()
    }

    /// Whether more than `least` is left. After a claim that took long too little may be: then the heartbeat is about to mend that, and
    /// is waited for until the lease is over.
    pub(super) async fn has_left(&self, least: Duration) -> bool {
        loop {
            // Listens before it looks, so that no renewal is missed.
            let renewed = self.renewed.notified();
            let left = self.left();
            if left > least {
                return true;
            }
            if tokio::time::timeout(left, renewed).await.is_err() {
                return false;
            }
        }
    }

    /// Returns once the lease is known to be somebody else's; never after [`LeaseClock::close`] said it is ours.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Ends the heartbeat. True if the lease was not known to be lost: then the worker may store its outcome, and is not interrupted.
    pub(super) fn close(&self) -> bool {
        let mut inner = self.inner();
        inner.closed = true;
        self.closed.cancel();
        !self.lost.is_cancelled()
    }

    /// Ends the heartbeat when it is dropped.
    pub(super) fn close_on_drop(&self) -> impl Drop + use<> {
        CloseOnDrop(self.clone())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn beat(self, db: Database, lease: Lease, length: Duration) {
        let mut pause = self.left().saturating_sub(length * 2 / 3);
        loop {
            tokio::select! {
                () = self.closed.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = length / 3;
            // A statement is never abandoned half-way: a dropped one could leave a pooled connection in a transaction.
            let sent = BootInstant::now();
            match renew(&db, &lease, millis(length)).await {
                Ok(Renewed::Extended) => {
                    self.inner().deadline = sent.plus_ms(millis(length));
                    self.renewed.notify_waiters();
                }
                Ok(Renewed::LeaseLost) => {
                    let inner = self.inner();
                    if !inner.closed {
                        self.lost.cancel();
                    }
                    return;
                }
                // The old deadline stands.
                Err(error) => tracing::warn!(%error, "the lease could not be renewed"),
            }
        }
    }
}

struct CloseOnDrop(LeaseClock);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests;
