//! The attempt journal: one row a call to the booking system and one an attempt, for operators. Holds no personal data.
//!
//! It is evidence, not state: nothing is decided by it. It is written in batches beside the work, so the last moments before a crash may
//! be missing.

use sea_orm::Value;

use crate::database::Database;
use crate::store_error::StoreError;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key's reference.
    pub reference: String,
    /// Number of the attempt.
    pub attempt: i64,
    /// `book`, `look up`, `change`, `cancel`: a call; `attempt`: its end.
    pub what: &'static str,
    /// What it came to: the class of the call, or how the attempt ended.
    pub result: String,
    /// Status there, where it says more than the class.
    pub status: Option<u16>,
    /// How long it took.
    pub duration_ms: i64,
    /// How long ago it ended, when it is written.
    pub ended_ms_ago: i64,
}

/// An entry as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastEntry {
    /// When it ended; milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Number of the attempt.
    pub attempt: i64,
    /// What it was.
    pub what: String,
    /// What it came to.
    pub result: String,
    /// Status there.
    pub status: Option<i64>,
    /// How long it took.
    pub duration_ms: i64,
    /// The process.
    pub worker: String,
}

/// Entries in one statement at most: SQLite takes 32766 parameters.
pub const BATCH: usize = 500;

/// Writes at most [`BATCH`] entries in one statement.
///
/// # Errors
/// [`StoreError`].
pub async fn write(db: &Database, worker: &str, entries: &[Entry]) -> Result<(), StoreError> {
    const COLUMNS: usize = 7;
    let mut values: Vec<Value> = vec![worker.into()];
    let rows: Vec<String> = entries
        .iter()
        .take(BATCH)
        .enumerate()
        .map(|(i, entry)| {
            values.extend([
                entry.reference.clone().into(),
                entry.attempt.into(),
                entry.what.into(),
                entry.result.clone().into(),
                entry.status.map(i64::from).into(),
                entry.duration_ms.into(),
                entry.ended_ms_ago.into(),
            ]);
            let p = |n: usize| format!("${}", i * COLUMNS + n + 1);
            format!("({}, {}, {}, {}, {}, {}, {{now}} - {}, $1)", p(1), p(2), p(3), p(4), p(5), p(6), p(7))
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "INSERT INTO attempt_journal (reference, attempt, what, result, status, duration_ms, at_ms, worker) VALUES {}",
        rows.join(", ")
    );
    db.execute_beside("write journal", &sql, values).await
}

/// What happened to the key of this reference, oldest first; at most `limit` entries, the newest.
///
/// # Errors
/// [`StoreError`].
pub async fn of_reference(db: &Database, reference: &str, limit: i64) -> Result<Vec<PastEntry>, StoreError> {
    let sql = "SELECT * FROM (SELECT id, at_ms, attempt, what, result, status, duration_ms, worker FROM attempt_journal \
         WHERE reference = $1 ORDER BY id DESC LIMIT $2) AS newest ORDER BY at_ms, id";
    let rows = db.read_all("list journal", sql, vec![reference.into(), limit.into()]).await?;
    rows.iter()
        .map(|row| {
            Ok(PastEntry {
                at_ms: row.try_get("", "at_ms")?,
                attempt: row.try_get("", "attempt")?,
                what: row.try_get("", "what")?,
                result: row.try_get("", "result")?,
                status: row.try_get("", "status")?,
                duration_ms: row.try_get("", "duration_ms")?,
                worker: row.try_get("", "worker")?,
            })
        })
        .collect()
}

/// Deletes at most `limit` entries that are older than `retention_ms` and whose key is gone; how many. Several processes
/// share the work: none waits for rows that another one deletes.
///
/// # Errors
/// [`StoreError`].
pub async fn delete_orphaned(db: &Database, retention_ms: i64, limit: u64) -> Result<u64, StoreError> {
    let sql = "WITH due AS MATERIALIZED (SELECT id FROM attempt_journal AS old WHERE at_ms <= {now} - $1 \
         AND NOT EXISTS (SELECT 1 FROM idempotency_key WHERE idempotency_key.reference = old.reference) ORDER BY at_ms LIMIT $2 \
         {skip_locked}) DELETE FROM attempt_journal WHERE id IN (SELECT id FROM due)";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    db.execute("delete journal", sql, vec![retention_ms.into(), limit.into()]).await
}
