//! The job "delete expired keys": bounded batches with a pause between them, until none is left or the time is up.

use std::time::Duration;

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
    /// Between two batches, so that others get at the database.
    pub pause: Duration,
    /// A run ends after this long; the next one goes on.
    pub time_limit: Duration,
}

impl DeleteExpiredKeys {
    /// The job with its usual bounds.
    #[must_use]
    pub const fn new(db: Database) -> Self {
        Self { db, batch: 1000, pause: Duration::from_millis(20), time_limit: Duration::from_secs(240) }
    }

    /// One run; how many keys it deleted. Running and unknown keys are never touched.
    ///
    /// # Errors
    /// [`StoreError`]: the rest stays for the next run.
    pub async fn run_once(&self, stop: &CancellationToken) -> Result<u64, StoreError> {
        let began = BootInstant::now();
        let mut deleted = 0;
        loop {
            let batch = lifecycle::expire(&self.db, self.batch).await?;
            deleted += batch;
            if batch < self.batch || stop.is_cancelled() || began.elapsed_ms() >= millis(self.time_limit) {
                return Ok(deleted);
            }
            tokio::time::sleep(self.pause).await;
        }
    }
}
