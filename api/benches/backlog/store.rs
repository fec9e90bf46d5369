//! The database of a part: what is left behind in it is put there, counted and watched.

use std::path::Path;

use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, Statement};

use crate::postgres::Postgres;

pub enum Store {
    Sqlite(String),
    Postgres(Postgres),
}

/// A row as a completed key leaves it; `{digest}` and `{reference}` are made for each.
const EXPIRED: &str = "INSERT INTO idempotency_key (digest, account, operation, fingerprint_version, fingerprint, request, reservation_id, \
     reference, state, attempt, lease_token, answer_status, answer_content_type, answer_location, answer_etag, answer_body, \
     created_at_ms, completed_at_ms, expires_at_ms) \
     SELECT {digest}, 'local', 'createReservation', 1, {digest}, {bytes}, {reference}, {reference}, 'completed', 1, {reference}, 201, \
     'application/json', '/reservations/' || {reference}, '\"1\"', {bytes}, 1000, 2000, 3000 + n";
const BODY: &str = "{\"id\":\"01a23500-6027-72cd-a98e-07770609ce4f\",\"status\":\"confirmed\",\"item_code\":\"ROOM-101\",\"quantity\":1,\
     \"reserved_by\":\"taro\",\"starts_at\":null,\"ends_at\":null,\"note\":null,\"booking_id\":\"BK-8e03978e\"}";
/// Counts the rows of every statement that deletes keys.
const WATCH: &str = "CREATE TABLE bench_batch (n bigint NOT NULL); \
     CREATE FUNCTION bench_note() RETURNS trigger LANGUAGE plpgsql AS \
     'BEGIN INSERT INTO bench_batch SELECT count(*) FROM gone; RETURN NULL; END'; \
     CREATE TRIGGER bench_note AFTER DELETE ON idempotency_key REFERENCING OLD TABLE AS gone \
     FOR EACH STATEMENT EXECUTE FUNCTION bench_note();";

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
        self.number("SELECT count(*) AS n FROM idempotency_key WHERE completed_at_ms = 2000").await
    }

    pub async fn add_expired(&self, rows: usize) {
        let bytes = format!("'{BODY}'");
        let sql = match self {
            Self::Sqlite(_) => {
                let numbers = format!("WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {rows})");
                let reference = "printf('%036d', n)";
                let filled = EXPIRED.replace("{digest}", "randomblob(32)");
                format!(
                    "{numbers} {} FROM number",
                    filled.replace("{reference}", reference).replace("{bytes}", &format!("CAST({bytes} AS BLOB)"))
                )
            }
            Self::Postgres(_) => {
                let filled = EXPIRED.replace("{digest}", "sha256(n::text::bytea)").replace("{reference}", "lpad(n::text, 36, '0')");
                format!("{} FROM generate_series(1, {rows}) AS n", filled.replace("{bytes}", &format!("convert_to({bytes}, 'UTF8')")))
            }
        };
        let connection = self.connect().await;
        connection.execute_unprepared(&sql).await.unwrap_or_else(|e| panic!("the expired keys: {e}"));
        if matches!(self, Self::Postgres(_)) {
            connection.execute_unprepared("ANALYZE").await.expect("statistics");
            connection.execute_unprepared(WATCH).await.unwrap_or_else(|e| panic!("{WATCH}: {e}"));
        }
        let _ = connection.close().await;
    }

    /// The most keys that one statement deleted, and deadlocks so far; `None` where the database does not tell.
    pub async fn batches(&self) -> Option<(i64, i64)> {
        if matches!(self, Self::Sqlite(_)) {
            return None;
        }
        let largest = self.number("SELECT coalesce(max(n), 0) AS n FROM bench_batch").await;
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
