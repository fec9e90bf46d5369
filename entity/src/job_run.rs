//! When each scheduled job last succeeded, in any process; and whether such a note can be made at all.

use crate::database::Database;
use crate::store_error::StoreError;

/// A job's last success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRun {
    /// Name of the job.
    pub job: String,
    /// How long ago, by the database's clock.
    pub age_ms: i64,
    /// The process that ran it.
    pub worker: String,
}

/// Notes that `job` has just succeeded.
///
/// # Errors
/// [`StoreError`].
pub async fn succeeded(db: &Database, job: &str, worker: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO job_run (job, last_success_ms, worker) VALUES ($1, {now}, $2) \
         ON CONFLICT (job) DO UPDATE SET last_success_ms = excluded.last_success_ms, worker = excluded.worker";
    db.execute("note job run", sql, vec![job.into(), worker.into()]).await?;
    Ok(())
}

/// The row of [`check_writable`]: no job, and never listed as one.
const WRITE_CHECK: &str = "write-check";

/// Whether a commit reaches the disk: a row is really written, since a full disk lets every statement pass that changes nothing.
///
/// # Errors
/// [`StoreError`] where it does not.
pub async fn check_writable(db: &Database) -> Result<(), StoreError> {
    let sql = "INSERT INTO job_run (job, last_success_ms, worker) VALUES ($1, {now}, '') \
         ON CONFLICT (job) DO UPDATE SET last_success_ms = excluded.last_success_ms";
    db.execute_beside("check that it can be written", sql, vec![WRITE_CHECK.into()]).await
}

/// The last success of every job that ever had one.
///
/// # Errors
/// [`StoreError`].
pub async fn all(db: &Database) -> Result<Vec<JobRun>, StoreError> {
    let sql = "SELECT job, {now} - last_success_ms AS age_ms, worker FROM job_run WHERE job <> $1 ORDER BY job{c}";
    let rows = db.read_all("list job runs", sql, vec![WRITE_CHECK.into()]).await?;
    rows.iter()
        .map(|row| Ok(JobRun { job: row.try_get("", "job")?, age_ms: row.try_get("", "age_ms")?, worker: row.try_get("", "worker")? }))
        .collect()
}
