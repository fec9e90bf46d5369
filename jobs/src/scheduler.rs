//! The scheduler: the only file that names tokio-cron-scheduler.
//!
//! Left to itself that library lets runs overlap, stops every job when one panics in its synchronous part, fires bursts after a pause
//! and does not wait at its end. So each job is wrapped: a tick while it runs is skipped, a panic or an error costs one run, a run that
//! hangs is left behind, and [`Scheduler::stop`] waits for what runs. Schedules are read in UTC: no run is lost or doubled when clocks change.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use croner::parser::{CronParser, Seconds};
use entity::database::Database;
use entity::job_run;
use entity::store_error::StoreError;
use futures_util::FutureExt;
use tokio::sync::Mutex;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use tokio_util::sync::CancellationToken;

use crate::boot_clock::BootInstant;
use crate::delete_expired_keys::DeleteExpiredKeys;
use crate::release_stale_leases::ReleaseStaleLeases;

/// Name of the job that releases stale leases, in logs, metrics and the database.
pub const RELEASE: &str = "release-stale-leases";
/// Name of the job that deletes expired keys, in logs, metrics and the database.
pub const CLEANUP: &str = "delete-expired-keys";

/// Schedules have seconds: two runs closer than this are catching up.
const LEAST_INTERVAL_MS: i64 = 750;
/// Beyond its own bounds a run waits only for the database, which may be slow, or gone without a word.
const DATABASE_MAY_TAKE: Duration = Duration::from_secs(60);

type Run = Arc<dyn Fn(CancellationToken) -> Pin<Box<dyn Future<Output = Result<Option<String>, StoreError>> + Send>> + Send + Sync>;

/// A job that never overlaps itself, survives a panic, an error and a run that hangs, and notes its success.
#[derive(Clone)]
pub struct GuardedJob {
    name: &'static str,
    run: Run,
    db: Database,
    worker: String,
    /// Held while it runs; when the last run by schedule began.
    running: Arc<Mutex<Option<BootInstant>>>,
    /// What a run that gets its answers cannot take.
    hangs_after: Duration,
    stop: CancellationToken,
}

impl GuardedJob {
    /// The job "release stale leases".
    #[must_use]
    pub fn release(job: ReleaseStaleLeases, db: Database, worker: String, stop: CancellationToken) -> Self {
        let hangs_after = job.takes_at_most() + DATABASE_MAY_TAKE;
        let run: Run = Arc::new(move |stop| {
            let job = job.clone();
            Box::pin(async move { job.run_once(&stop).await.map(|report| report.sentence()) })
        });
        Self { name: RELEASE, run, db, worker, running: Arc::default(), hangs_after, stop }
    }

    /// The job "delete expired keys".
    #[must_use]
    pub fn cleanup(job: DeleteExpiredKeys, db: Database, worker: String, stop: CancellationToken) -> Self {
        let hangs_after = job.time_limit + DATABASE_MAY_TAKE;
        let run: Run = Arc::new(move |stop| {
            let job = job.clone();
            Box::pin(async move { job.run_once(&stop).await.map(|deleted| (deleted > 0).then(|| format!("{deleted} deleted"))) })
        });
        Self { name: CLEANUP, run, db, worker, running: Arc::default(), hangs_after, stop }
    }

    /// Runs it by schedule: skipped while it runs, and in the burst with which the library makes good for a pause of the process.
    async fn tick(&self) {
        let Ok(mut last_began) = self.running.try_lock() else {
            tracing::debug!(job = self.name, "still running: this run is skipped");
            return;
        };
        if last_began.is_some_and(|at| at.elapsed_ms() < LEAST_INTERVAL_MS) {
            tracing::debug!(job = self.name, "too soon after the last run: this run is skipped");
            return;
        }
        *last_began = Some(BootInstant::now());
        let job = self.clone();
        // A statement is never abandoned half-way, so a run that waits for ever is not ended but left to itself: what it holds are leases,
        // which lapse. The next one must not wait for it.
        let run = tokio::spawn(async move { job.run().await });
        if tokio::time::timeout(self.hangs_after, run).await.is_err() {
            tracing::error!(job = self.name, "the run hangs and is left behind; the next one starts as usual");
        }
    }

    /// Runs it now; whether it ended well.
    pub async fn run(&self) -> bool {
        tracing::debug!(job = self.name, "run begins");
        // Called within, so that a panic in its synchronous part is caught, too.
        let ended = AssertUnwindSafe(async { (self.run)(self.stop.clone()).await }).catch_unwind().await;
        let succeeded = match ended {
            Ok(Ok(report)) => {
                match report {
                    Some(report) => tracing::info!(job = self.name, report, "run ended"),
                    None => tracing::debug!(job = self.name, "run ended: nothing to do"),
                }
                job_run::succeeded(&self.db, self.name, &self.worker).await
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                tracing::error!(job = self.name, "the run panicked; the next one starts as usual");
                return false;
            }
        };
        succeeded.inspect_err(|error| tracing::error!(job = self.name, %error, "the run failed; the next one starts as usual")).is_ok()
    }

    /// Waits until it does not run.
    async fn idle(&self) {
        drop(self.running.lock().await);
    }
}

/// Runs jobs by their schedules until it is stopped.
pub struct Scheduler {
    inner: JobScheduler,
    jobs: Vec<GuardedJob>,
}

/// Whether this is a cron expression with seconds that fires at all.
///
/// # Errors
/// A sentence for the user.
pub fn check_schedule(text: &str) -> Result<String, String> {
    // The scheduler itself takes more: texts for which its own parser, asked for the same, finds a time.
    let pattern = CronParser::builder().seconds(Seconds::Required).dom_and_dow(true).build().parse(text);
    let (Ok(pattern), Ok(_)) = (pattern, Job::new_async(text, |_, _| Box::pin(async {}))) else {
        return Err("not a cron expression with seconds, such as '*/5 * * * * *'".into());
    };
    #[expect(clippy::disallowed_methods, reason = "a schedule is read by the wall clock")]
    let now = chrono::Utc::now();
    match pattern.find_next_occurrence(&now, false) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("a cron expression that never fires".into()),
    }
}

impl Scheduler {
    /// Starts the jobs, each by its schedule (cron with seconds, UTC).
    ///
    /// # Errors
    /// [`JobSchedulerError`] for a schedule that cannot be read.
    pub async fn start(jobs: Vec<(String, GuardedJob)>) -> Result<Self, JobSchedulerError> {
        let inner = JobScheduler::new().await?;
        for (schedule, job) in &jobs {
            let job = job.clone();
            // The closure itself runs in the scheduler's only loop: it must neither block nor panic.
            let tick = move |_, _| -> Pin<Box<dyn Future<Output = ()> + Send>> {
                let job = job.clone();
                Box::pin(async move {
                    tokio::spawn(async move { job.tick().await });
                })
            };
            inner.add(Job::new_async(schedule.as_str(), tick)?).await?;
        }
        inner.start().await?;
        Ok(Self { inner, jobs: jobs.into_iter().map(|(_, job)| job).collect() })
    }

    /// Starts no further run and waits for those under way.
    pub async fn stop(mut self) {
        if let Err(error) = self.inner.shutdown().await {
            tracing::warn!(%error, "the scheduler did not stop by itself");
        }
        for job in &self.jobs {
            job.stop.cancel();
            job.idle().await;
        }
    }
}

#[cfg(test)]
mod tests;
