//! The job "delete expired keys": bounded batches with a pause between them, until none is left or the time is up.

use std::time::Duration;

use entity::attempt_journal;
use entity::database::Database;
use entity::lifecycle;
use entity::store_error::StoreError;
use tokio_util::sync::CancellationToken;

use crate::boot_clock::{BootInstant, millis};

/// The job.
#[derive(Debug, Clone)]
pub struct DeleteExpiredKeys {
    /// Where the keys are.
    pub db: Database,
    /// Keys in one statement: what a reader or writer may have to wait for.
    pub batch: u64,
    /// Between two batches at least, so that others get at the database.
    pub pause: Duration,
    /// A run ends after this long; the next one goes on.
    pub time_limit: Duration,
    /// `KEY_RETENTION`: how long the journal of a key that is gone is kept.
    pub retention: Duration,
}

impl DeleteExpiredKeys {
    /// The job with its usual bounds.
    #[must_use]
    pub const fn new(db: Database, retention: Duration) -> Self {
        Self { db, batch: 1000, pause: Duration::from_millis(20), time_limit: Duration::from_secs(240), retention }
    }

    /// One run: keys first, then what the journal has of keys that are gone. How many keys it deleted; running and unknown ones are never
    /// touched.
    ///
    /// # Errors
    /// [`StoreError`]: the rest stays for the next run.
    pub async fn run_once(&self, stop: &CancellationToken) -> Result<u64, StoreError> {
        let began = BootInstant::now();
        let mut deleted = 0;
        while let Some(batch) = self.batch(lifecycle::expire(&self.db, self.batch), began, stop).await? {
            deleted += batch;
        }
        let retention_ms = millis(self.retention);
        while self.batch(attempt_journal::delete_orphaned(&self.db, retention_ms, self.batch), began, stop).await?.is_some() {}
        Ok(deleted)
    }

    /// One batch and the pause after it; `None` once there is nothing more to delete, or no time.
    async fn batch(
        &self,
        delete: impl Future<Output = Result<u64, StoreError>>,
        began: BootInstant,
        stop: &CancellationToken,
    ) -> Result<Option<u64>, StoreError> {
        if stop.is_cancelled() || began.elapsed_ms() >= millis(self.time_limit) {
            return Ok(None);
        }
        let batch_began = BootInstant::now();
        let deleted = delete.await?;
        if deleted > 0 {
            // Two thirds of the time are the others': SQLite has one writer, and who waits for it only looks now and then.
            let pause = self.pause.max(batch_began.elapsed() * 2);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        Ok((deleted > 0).then_some(deleted))
    }
}
