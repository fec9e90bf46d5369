//! List keys for an operator, and change nothing.

use crate::database::Database;
use crate::idempotency_key::{COLUMNS, Record};
use crate::key_state::KeyState;
use crate::store_error::StoreError;

/// Which keys.
#[derive(Debug, Clone, Default)]
pub struct KeyFilter {
    /// Of this state.
    pub state: Option<KeyState>,
    /// Of this account.
    pub account: Option<String>,
    /// Made at least this long ago.
    pub older_than_ms: Option<i64>,
    /// At most so many.
    pub limit: u64,
}

/// The keys that match, oldest first. An unreadable row is passed over with an error logged.
///
/// # Errors
/// [`StoreError`].
pub async fn list(db: &Database, filter: &KeyFilter) -> Result<Vec<Record>, StoreError> {
    let mut values: Vec<sea_orm::Value> = vec![i64::try_from(filter.limit).unwrap_or(i64::MAX).into()];
    let mut conditions = String::from("TRUE");
    let mut and = |condition: &str, value: sea_orm::Value| {
        values.push(value);
        conditions.push_str(&format!(" AND {condition} ${}", values.len()));
    };
    if let Some(state) = filter.state {
        and("state =", state.as_str().into());
    }
    if let Some(account) = &filter.account {
        and("account =", account.clone().into());
    }
    if let Some(age) = filter.older_than_ms {
        and("created_at_ms <= {now} -", age.into());
    }
    let sql = format!("SELECT {COLUMNS} FROM idempotency_key WHERE {conditions} ORDER BY created_at_ms, digest LIMIT $1");
    Ok(Record::read_all(&db.read_all("list keys", &sql, values).await?))
}

/// The key of that reference, whosever it is and whatever it is for.
///
/// # Errors
/// [`StoreError`].
pub async fn find_by_reference(db: &Database, reference: &str) -> Result<Option<Record>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM idempotency_key WHERE reference = $1");
    db.read_one("find by reference", &sql, vec![reference.into()]).await?.as_ref().map(Record::read).transpose()
}

/// How many keys are `outcome_unknown`.
///
/// # Errors
/// [`StoreError`].
pub async fn count_unknown(db: &Database) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) AS unknown FROM idempotency_key WHERE state = 'outcome_unknown'";
    let row = db.read_one("count unknown", sql, vec![]).await?;
    row.map_or(Ok(0), |row| Ok(row.try_get("", "unknown")?))
}
