//! What a session of PostgreSQL is good for: whose it is, and whether it will ever work again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sea_orm_migration::sea_orm::{
    ConnectionTrait as _, DatabaseConnection, DatabaseTransaction, DbErr, RuntimeErr, SqliteTransactionMode, TransactionOptions,
    TransactionTrait as _, sqlx,
};

/// Sessions that will never work again, and those as old as they are: a server that became read-only (demoted to a standby, or made so)
/// answers every read and no write for as long as a session lives, wherever its address leads by then. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Outdated(Arc<Mutex<Option<Instant>>>);

/// What an error says of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// Nothing.
    Usable,
    /// It is of no use any more; whether the statement took effect is not known.
    Lost,
    /// It only reads: the statement had no effect, and another session may do it.
    ReadOnly,
}

impl Outdated {
    /// Reads the error of a statement. If its session will never work again, this one and all older ones are closed instead of used again.
    pub fn judge(&self, error: &DbErr) -> Session {
        let session = Session::after(error);
        if session != Session::Usable {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        session
    }

    pub(crate) fn includes(&self, age: Duration) -> bool {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| age >= since.elapsed())
    }
}

impl Session {
    /// An error while a connection is opened or waited for says nothing of those that are open.
    fn after(error: &DbErr) -> Self {
        let (DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error))) = error else {
            return Self::Usable;
        };
        // SQLite's codes are numbers of other kinds, none of them with five characters of these.
        match error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() {
            Some("25006") => Self::ReadOnly,
            // A transaction that nobody ends, or that was ended; the server's stop; prepared statements that are not those we made.
            Some("25P02" | "25P03" | "57P01" | "57P02" | "57P03" | "57P05" | "26000" | "42P05") => Self::Lost,
            Some(code) if code.starts_with("08") => Self::Lost,
            _ => Self::Usable,
        }
    }
}

/// Whom a database session belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sessions {
    /// To the connection, from its begin to its end.
    Own,
    /// To whoever has a transaction: a pooler in transaction mode. What others prepared in it is there, under the names that we use, too.
    Shared,
}

impl Sessions {
    /// `statement-cache-capacity=0` says that they are shared.
    #[must_use]
    pub fn of(url: &str) -> Self {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let shared = url.starts_with("postgres") && query.split('&').any(|parameter| parameter == "statement-cache-capacity=0");
        if shared { Self::Shared } else { Self::Own }
    }

    /// Begins a transaction, on SQLite as a writer. In a shared session it first forgets what was prepared there: the library gives its
    /// statements the same names in every connection, and prepares anew in each transaction where its cache has no room.
    ///
    /// # Errors
    /// The database's own.
    pub async fn begin(self, db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
        let options = TransactionOptions { sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate), ..Default::default() };
        let tx = db.begin_with_options(options).await?;
        if self == Self::Shared {
            tx.execute_unprepared("DEALLOCATE ALL").await?;
        }
        Ok(tx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_older_than_the_last_that_was_lost_are_outdated() {
        let outdated = Outdated::default();
        assert!(!outdated.includes(Duration::from_secs(3600)));
        let refused = |error| DbErr::Conn(RuntimeErr::SqlxError(Arc::new(error)));
        assert_eq!(outdated.judge(&refused(sqlx::Error::PoolTimedOut)), Session::Usable);
        assert!(!outdated.includes(Duration::from_secs(3600)));
        *outdated.0.lock().unwrap() = Some(Instant::now());
        assert!(outdated.includes(Duration::from_secs(3600)));
        assert!(!outdated.includes(Duration::ZERO));
    }
}
