//! What can go wrong with the database, in two kinds that callers treat differently.

use sea_orm::DbErr;

/// A statement that did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database did not answer, or refused: whether the statement took effect is not known.
    #[error("the database is unavailable: {0}")]
    Unavailable(#[source] DbErr),
    /// A stored row cannot be read: it was not written by this service, or by a later release of it.
    #[error("a stored row is unreadable: {0}")]
    Unreadable(String),
}

impl From<DbErr> for StoreError {
    fn from(error: DbErr) -> Self {
        match error {
            DbErr::Type(what) | DbErr::Json(what) => Self::Unreadable(what),
            DbErr::TryIntoErr { source, .. } => Self::Unreadable(source.to_string()),
            other => Self::Unavailable(other),
        }
    }
}

impl StoreError {
    /// The database did not answer within the caller's time.
    #[must_use]
    pub fn timed_out() -> Self {
        Self::Unavailable(DbErr::Custom("no answer in time".into()))
    }
}
