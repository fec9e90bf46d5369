//! The audit of the operator's tool: who said what about which key, and why. Written in the commit that does it, kept for good.

use crate::database::{Database, Transaction};
use crate::idempotency_key::Record;
use crate::store_error::StoreError;

/// What an operator does to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorAction {
    /// What was said: `booked`, `not booked`.
    pub said: String,
    /// Why.
    pub reason: String,
    /// Who, as the operating system knows it.
    pub operator: String,
}

/// An action as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastAction {
    /// Milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The action.
    pub action: OperatorAction,
}

impl OperatorAction {
    pub(crate) async fn write(&self, tx: &Transaction<'_>, record: &Record) -> Result<(), StoreError> {
        let sql = "INSERT INTO operator_action (at_ms, reference, account, attempt, said, reason, operator) \
             VALUES ({now}, $1, $2, $3, $4, $5, $6)";
        let values = vec![
            record.reference.clone().into(),
            record.account.clone().into(),
            record.attempt.into(),
            self.said.clone().into(),
            self.reason.clone().into(),
            self.operator.clone().into(),
        ];
        tx.execute("write audit", sql, values).await?;
        Ok(())
    }
}

/// What operators did to the key of this reference, oldest first.
///
/// # Errors
/// [`StoreError`].
pub async fn of_reference(db: &Database, reference: &str) -> Result<Vec<PastAction>, StoreError> {
    let sql = "SELECT at_ms, said, reason, operator FROM operator_action WHERE reference = $1 ORDER BY at_ms";
    let rows = db.read_all("list operator actions", sql, vec![reference.into()]).await?;
    rows.iter()
        .map(|row| {
            let action = OperatorAction {
                said: row.try_get("", "said")?,
                reason: row.try_get("", "reason")?,
                operator: row.try_get("", "operator")?,
            };
            Ok(PastAction { at_ms: row.try_get("", "at_ms")?, action })
        })
        .collect()
}
