//! The database of a part: what is left behind in it is put there, counted and watched.

use std::path::Path;

use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, Statement};

use crate::backlog;
use crate::postgres::Postgres;

pub enum Store {
    Sqlite(String),
    Postgres(Postgres),
}

impl Store {
    pub fn sqlite(folder: &Path) -> Self {
        Self::Sqlite(format!("sqlite://{}", folder.join("reservations.db").display()))
    }

    pub const fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(file) => format!("{file}?mode=rwc"),
            Self::Postgres(postgres) => postgres.url(),
        }
    }

    /// Keys made until `until_ms` that nobody has settled.
    pub async fn unsettled(&self, until_ms: i64) -> i64 {
        let states = "state IN ('in_progress', 'outcome_unknown')";
        self.number(&format!("SELECT count(*) AS n FROM idempotency_key WHERE {states} AND created_at_ms <= {until_ms}")).await
    }

    /// When the last key was made.
    pub async fn newest_ms(&self) -> i64 {
        self.number("SELECT max(created_at_ms) AS n FROM idempotency_key").await
    }

    /// Keys of this state, made until then.
    pub async fn of_state(&self, state: &str, until_ms: i64) -> i64 {
        self.number(&format!("SELECT count(*) AS n FROM idempotency_key WHERE state = '{state}' AND created_at_ms <= {until_ms}")).await
    }

    /// Keys that have expired long ago.
    pub async fn expired(&self) -> i64 {
        self.number(backlog::COUNT).await
    }

    pub async fn add_expired(&self, rows: usize) {
        let sql = backlog::expired_keys(matches!(self, Self::Postgres(_)), rows);
        let connection = self.connect().await;
        connection.execute_unprepared(&sql).await.unwrap_or_else(|e| panic!("the expired keys: {e}"));
        if matches!(self, Self::Postgres(_)) {
            connection.execute_unprepared("ANALYZE").await.expect("statistics");
            connection.execute_unprepared(backlog::WATCH).await.expect("the batches are watched");
        }
        let _ = connection.close().await;
    }

    /// The most keys that one statement deleted, and deadlocks so far; `None` where the database does not tell.
    pub async fn batches(&self) -> Option<(i64, i64)> {
        if matches!(self, Self::Sqlite(_)) {
            return None;
        }
        let largest = self.number("SELECT coalesce(max(n), 0) AS n FROM batch").await;
        let deadlocks = self.number("SELECT deadlocks AS n FROM pg_stat_database WHERE datname = current_database()").await;
        Some((largest, deadlocks))
    }

    pub async fn remove(self) {
        if let Self::Postgres(postgres) = self {
            postgres.remove().await;
        }
    }

    async fn number(&self, sql: &str) -> i64 {
        let connection = self.connect().await;
        let backend = match self {
            Self::Sqlite(_) => DbBackend::Sqlite,
            Self::Postgres(_) => DbBackend::Postgres,
        };
        let row = connection.query_one_raw(Statement::from_string(backend, sql)).await;
        let _ = connection.close().await;
        row.unwrap_or_else(|e| panic!("{sql}: {e}")).expect("a row").try_get("", "n").expect("a number")
    }

    async fn connect(&self) -> DatabaseConnection {
        let url = self.url();
        let mut options = ConnectOptions::new(url.clone());
        options.max_connections(1).sqlx_logging(false);
        Database::connect(options).await.unwrap_or_else(|e| panic!("{url}: {e}"))
    }
}
