//! What every request handler needs: storage behind a time limit, the settler, and who waits for which key in this process.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use entity::database::Database;
use entity::job_run;
use entity::key_scope::KeyDigest;
use entity::store_error::StoreError;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use jobs::settle::Settler;
use moka::sync::Cache;
use poem::Request;
use tokio::sync::Mutex;

use crate::config::{HttpArgs, OnDuplicate, RateLimit};
use crate::http::auth::Authenticator;
use crate::http::key_header::KeySyntax;
use crate::http::problem::{Code, Problem};
use crate::metrics::Metrics;
use crate::waiting::KeyWaiters;

/// The state that all requests of one process share.
#[derive(Debug)]
pub struct Service {
    /// Keys, reservations, tokens.
    pub db: Database,
    /// Works on claimed keys.
    pub settler: Settler,
    /// Finds the caller.
    pub authenticator: Authenticator,
    /// Who waits for which key.
    pub waiting: KeyWaiters,
    /// Keys known to be completed: for them the record is read before an insert is tried.
    pub completed: Cache<KeyDigest, ()>,
    /// Counters.
    pub metrics: Metrics,
    /// `DATABASE_ACQUIRE_TIMEOUT`.
    pub storage_timeout: Duration,
    /// `KEY_SYNTAX`.
    pub key_syntax: KeySyntax,
    /// `ON_DUPLICATE`.
    pub on_duplicate: OnDuplicate,
    /// `WAIT_LIMIT`.
    pub wait_limit: Duration,
    rate_limiter: Option<DefaultKeyedRateLimiter<String>>,
    /// Keys that were counted already: who sends one ten times at once makes one.
    admitted: Cache<KeyDigest, ()>,
    written_at: Arc<Mutex<Option<Instant>>>,
}

/// So long a write that succeeded says that the next one would: however often readiness is asked for, it costs no more than a write in
/// this time. A write that failed says nothing about the next one.
const WRITTEN_LATELY: Duration = Duration::from_secs(5);

impl Service {
    /// The state of a process.
    #[must_use]
    pub fn new(db: Database, settler: Settler, open: bool, http: &HttpArgs, storage_timeout: Duration) -> Self {
        Self {
            db,
            settler,
            authenticator: Authenticator::new(open),
            waiting: KeyWaiters::default(),
            completed: Cache::builder().max_capacity(100_000).time_to_live(Duration::from_secs(300)).build(),
            metrics: Metrics::default(),
            storage_timeout,
            key_syntax: http.key_syntax.into(),
            on_duplicate: http.on_duplicate,
            wait_limit: http.wait_limit,
            rate_limiter: rate_limiter(http.rate_limit),
            admitted: Cache::builder().max_capacity(100_000).time_to_live(Duration::from_secs(300)).build(),
            written_at: Arc::default(),
        }
    }

    /// The service that the request came to.
    ///
    /// # Errors
    /// `internal`, if the request came past the composition root.
    pub fn of(request: &Request) -> Result<Arc<Self>, Problem> {
        request.data::<Arc<Self>>().cloned().ok_or_else(|| Problem::new(Code::Internal, "The service is not set up."))
    }

    /// Runs a storage operation to its end in a task of its own, and waits for it no longer than `DATABASE_ACQUIRE_TIMEOUT`: a statement
    /// is never abandoned half-way, a caller never waits longer.
    ///
    /// # Errors
    /// `storage-unavailable`, or `internal` for a row that cannot be read.
    pub async fn storage<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, Problem> {
        match tokio::time::timeout(self.storage_timeout, tokio::spawn(operation)).await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(error))) => Err(storage_problem(&error)),
            Ok(Err(panicked)) => {
                tracing::error!(%panicked, "a storage operation panicked");
                Err(Problem::new(Code::Internal, "The service failed while it handled this request."))
            }
            Err(_elapsed) => Err(storage_unavailable()),
        }
    }

    /// Whether the storage takes what a claim would have to write. One check at a time: where a write waits, those who ask next wait for
    /// it, and not each with a connection of its own.
    ///
    /// # Errors
    /// As [`Service::storage`].
    pub async fn can_write(&self) -> Result<(), Problem> {
        let (db, written_at) = (self.db.clone(), Arc::clone(&self.written_at));
        self.storage(async move {
            let mut written_at = written_at.lock().await;
            if written_at.is_some_and(|at| at.elapsed() < WRITTEN_LATELY) {
                return Ok(());
            }
            let began = Instant::now();
            job_run::check_writable(&db).await?;
            *written_at = Some(began);
            Ok(())
        })
        .await
    }

    /// Whether a new key of this account is within `RATE_LIMIT`; if not, in how many seconds it would be. One key is counted once, until
    /// it is freed.
    ///
    /// # Errors
    /// `too-many-requests`.
    pub fn admit(&self, account: &str, key: KeyDigest) -> Result<(), Problem> {
        let Some(limiter) = &self.rate_limiter else { return Ok(()) };
        let admission = self.admitted.try_get_with(key, || {
            limiter.check_key(&account.to_owned()).map_err(|not_until| {
                use governor::clock::{Clock, DefaultClock};
                let wait = not_until.wait_time_from(DefaultClock::default().now());
                let detail = "This account makes more new keys than it may. Nothing was done; replays are not counted.";
                Problem::new(Code::TooManyRequests, detail).retry_after_s(wait.as_secs() + 1)
            })
        });
        admission.map_err(|problem| Problem::clone(&problem))
    }

    /// The key is bound to no request any more: the next one under it is counted.
    pub fn freed(&self, key: &KeyDigest) {
        self.admitted.invalidate(key);
    }

    /// Whether `RATE_LIMIT` is set.
    #[must_use]
    pub const fn is_rate_limited(&self) -> bool {
        self.rate_limiter.is_some()
    }
}

fn rate_limiter(limit: RateLimit) -> Option<DefaultKeyedRateLimiter<String>> {
    let (count, period) = limit.0?;
    let quota = Quota::with_period(period / count.get())?.allow_burst(count);
    Some(RateLimiter::keyed(quota))
}

/// What the caller is told of a storage that failed. Logged here, once.
pub fn storage_problem(error: &StoreError) -> Problem {
    match error {
        StoreError::Unavailable(_) => {
            tracing::warn!(%error, "the storage failed");
            storage_unavailable()
        }
        StoreError::Unreadable(_) => {
            tracing::error!(%error, "the storage holds something unreadable");
            Problem::new(Code::Internal, "The service failed while it handled this request.")
        }
    }
}

fn storage_unavailable() -> Problem {
    Problem::new(Code::StorageUnavailable, "The service cannot reach its storage. Send the same request again.")
        .retry_after_s(rand::random_range(1..=3))
}
