//! The job "release stale leases": lapsed keys are taken over, unknown ones looked at again, released ones looked at once more.
//!
//! Any number of processes may run it at once: every batch is leased or put off in the statement that reads it. A run that dies leaves
//! its keys to the lapse of their leases; no lock of its own can go stale.

use std::time::Duration;

use entity::idempotency_key::Record;
use entity::lifecycle::{self, Finalized};
use entity::store_error::StoreError;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::answer;
use crate::booking::Looked;
use crate::boot_clock::{BootInstant, millis};
use crate::jitter::spread_ms;
use crate::rules::{Purpose, growing_pause_ms};
use crate::settle::{Assignment, Outcome, Settler};

/// While calls are under way, what has become due meanwhile is taken this often.
const TAKE_AGAIN: Duration = Duration::from_secs(1);
/// While there is more to take, places that become free are gathered for so long: a batch costs the database no more than a single key.
const GATHER: Duration = Duration::from_millis(50);

/// The job.
#[derive(Debug, Clone)]
pub struct ReleaseStaleLeases {
    /// Settles what is found.
    pub settler: Settler,
    /// `RECOVERY_CALLS`: calls to the booking system at once.
    pub calls: usize,
    /// A run takes nothing new after this long; what it has is settled.
    pub time_limit: Duration,
}

/// What a run did, in keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReleaseReport {
    /// Lapsed leases taken over.
    pub taken_over: u64,
    /// Unknown keys asked for again.
    pub looked_again: u64,
    /// Second looks at released keys.
    pub second_looks: u64,
    /// Completed, late bookings included.
    pub completed: u64,
    /// Released.
    pub released: u64,
    /// Freed.
    pub freed: u64,
    /// Still, or now, unknown.
    pub unknown: u64,
}

enum Done {
    Settled(Option<Outcome>),
    LookedTwice(Option<Finalized>),
}

impl ReleaseStaleLeases {
    /// One run: until nothing is due, the time is up, or `stop`.
    ///
    /// # Errors
    /// [`StoreError`]: the rest comes up again in the next run.
    pub async fn run_once(&self, stop: &CancellationToken) -> Result<ReleaseReport, StoreError> {
        let began = BootInstant::now();
        let mut report = ReleaseReport::default();
        let mut running = JoinSet::new();
        let mut failed = None;
        // When the last batch was taken, and how long the next one waits for places.
        let (mut taken_at, mut pause) = (BootInstant::now(), Duration::ZERO);
        loop {
            let may_take = failed.is_none() && !stop.is_cancelled() && began.elapsed_ms() < millis(self.time_limit);
            let free = self.calls.saturating_sub(running.len());
            if may_take && free > 0 && (free >= self.calls.div_ceil(2) || taken_at.elapsed_ms() >= millis(pause)) {
                let under_way = running.len();
                failed = self.take(free, &mut running, &mut report).await.err();
                taken_at = BootInstant::now();
                pause = if running.len() - under_way == free { GATHER } else { TAKE_AGAIN };
            }
            tokio::select! {
                done = running.join_next() => match done {
                    None => break,
                    Some(Ok(Done::Settled(outcome))) => report.count(outcome.as_ref()),
                    Some(Ok(Done::LookedTwice(found))) => report.completed += u64::from(found == Some(Finalized::Done)),
                    Some(Err(error)) => tracing::error!(%error, "a key could not be settled"),
                },
                // One slow answer must not keep what lapses meanwhile waiting.
                () = tokio::time::sleep(pause), if may_take => {}
            }
        }
        failed.map_or(Ok(report), Err)
    }

    /// How long a run takes whose database answers: what is taken last is looked up, perhaps sent, and stored while its lease lasts.
    pub(crate) fn takes_at_most(&self) -> Duration {
        let settings = self.settler.settings();
        let call = Duration::from_millis(settings.bounds.booking_timeout_ms.unsigned_abs());
        self.time_limit + call * 3 + settings.lease * 2
    }

    /// Takes what is due, at most `free` keys in all, and starts on it.
    async fn take(&self, free: usize, running: &mut JoinSet<Done>, report: &mut ReleaseReport) -> Result<(), StoreError> {
        let settings = self.settler.settings();
        let lease_ms = millis(settings.lease);
        let purpose = Purpose::Recovery { rebook: settings.rebook };
        let mut left = free as u64;
        let mut settle = |works: Vec<lifecycle::Work>, counted_from| {
            for work in works {
                let told = self.settler.settle(Assignment { work, counted_from }, purpose);
                running.spawn(async move { Done::Settled(told.await.ok()) });
            }
        };

        let counted_from = BootInstant::now();
        let works = lifecycle::take_over_stale(self.settler.db(), &token(), lease_ms, left).await?;
        let taken = works.len() as u64;
        report.taken_over += taken;
        left -= taken.min(left);
        settle(works, counted_from);

        if left > 0 {
            let counted_from = BootInstant::now();
            let works = lifecycle::take_for_look_again(self.settler.db(), &token(), lease_ms, left).await?;
            let taken = works.len() as u64;
            report.looked_again += taken;
            left -= taken.min(left);
            settle(works, counted_from);
        }
        if left > 0 {
            for record in lifecycle::take_second_looks(self.settler.db(), lease_ms, left).await? {
                report.second_looks += 1;
                let job = self.clone();
                running.spawn(async move { Done::LookedTwice(job.look_twice(&record).await) });
            }
        }
        Ok(())
    }

    /// The second look at a released key: a late booking becomes a confirmed reservation.
    async fn look_twice(&self, record: &Record) -> Option<Finalized> {
        let (settler, db) = (&self.settler, self.settler.db());
        let retention_ms = millis(settler.settings().retention);
        // Where look-up is not offered (any more), there is no second look to wait for.
        let looked = match settler.settings().offer.lookup {
            true => settler.booking().look_up(&record.reference).await,
            false => Looked::NotThere,
        };
        let stored = match looked {
            Looked::Found(booking) => match answer::stored_details(record) {
                Ok(details) => {
                    let (answer, effect) = crate::settle::booked(&settler.settings().public_base, record, details, booking);
                    lifecycle::find_late(db, record, &answer, &effect, retention_ms).await.map(Some)
                }
                Err(error) => {
                    tracing::error!(%error, reference = %record.reference, "a late booking cannot be recorded");
                    Ok(None)
                }
            },
            Looked::NotThere => lifecycle::confirm_absence(db, record, retention_ms).await.map(|_| None),
            Looked::Unknown(why) => {
                tracing::warn!(reference = %record.reference, %why, "the second look settles nothing");
                lifecycle::postpone_second_look(db, record, spread_ms(growing_pause_ms(record.looks))).await.map(|()| None)
            }
        };
        stored.unwrap_or_else(|error| {
            tracing::warn!(%error, "the second look could not be recorded; it comes up again");
            None
        })
    }
}

impl ReleaseReport {
    /// For the log; nothing if there was nothing to do.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let Self { taken_over, looked_again, second_looks, completed, released, freed, unknown } = self;
        (*self != Self::default()).then(|| {
            format!(
                "{taken_over} taken over, {looked_again} looked at again, {second_looks} second looks: \
                 {completed} completed, {released} released, {freed} freed, {unknown} unknown"
            )
        })
    }

    fn count(&mut self, outcome: Option<&Outcome>) {
        match outcome {
            Some(Outcome::Answered(_) | Outcome::Refused(_)) => self.completed += 1,
            Some(Outcome::Released) => self.released += 1,
            Some(Outcome::Freed(_)) => self.freed += 1,
            Some(Outcome::Pending) => self.unknown += 1,
            Some(Outcome::LeaseLost) | None => {}
        }
    }
}

fn token() -> String {
    uuid::Uuid::new_v4().to_string()
}
