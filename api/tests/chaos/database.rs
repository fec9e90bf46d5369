//! The database of a world: made, locked, its sessions ended, and read by the oracle.

use std::path::Path;
use std::time::Duration;

use sea_orm::{ConnectOptions, ConnectionTrait, Database as Sea, DatabaseConnection, DbBackend, DbErr, QueryResult, Statement};

use super::clock::Clock;
use super::server::OwnServer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

pub struct Database {
    pub engine: Engine,
    /// That of all processes of a world, on SQLite.
    pub clock: Option<Clock>,
    /// `sqlite://FILE`, or `postgres://user@host:port`.
    server: String,
    name: String,
    /// For what is asked all the time.
    beside: tokio::sync::OnceCell<DatabaseConnection>,
}

/// The lease of a key as the database sees it.
pub struct Lease {
    pub state: String,
    /// How long it goes on; negative where it has lapsed, none where there is no lease.
    pub left_ms: Option<i64>,
    /// How long ago its reference was made.
    pub age_ms: i64,
}

/// A reservation here.
pub struct Reservation {
    pub id: String,
    pub status: String,
    pub booking_id: String,
    pub quantity: i64,
}

impl Database {
    /// On that server, or on the one that `TEST_DATABASE_URL` names; by a clock of its own where that library is given (SQLite).
    pub async fn create(engine: Engine, folder: &Path, server: Option<&OwnServer>, faketime: Option<&Path>) -> Self {
        let clock = faketime.filter(|_| engine == Engine::Sqlite).map(|library| Clock::new(library, folder));
        let (server, name) = match engine {
            Engine::Sqlite => (format!("sqlite://{}", folder.join("reservations.db").display()), String::new()),
            Engine::Postgres => (server.map_or_else(postgres_server, OwnServer::url), format!("chaos_{}", uuid::Uuid::new_v4().simple())),
        };
        let database = Self { engine, clock, server, name, beside: tokio::sync::OnceCell::new() };
        if engine == Engine::Postgres {
            database.administrate(&format!("CREATE DATABASE {} TEMPLATE template0", database.name)).await;
        }
        database
    }

    pub async fn remove(&self) {
        if self.engine == Engine::Postgres {
            self.administrate(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)).await;
        }
    }

    /// `host:port` of PostgreSQL.
    pub fn address(&self) -> String {
        self.server.rsplit_once(['@', '/']).map_or("", |(_, address)| address).to_owned()
    }

    /// Where a process finds it: the file, or PostgreSQL through a wire.
    pub fn url(&self, through: Option<u16>) -> String {
        match through {
            None => format!("{}?mode=rwc", self.server),
            Some(port) => {
                let (before, _) = self.server.rsplit_once('@').expect("user@host");
                format!("{before}@127.0.0.1:{port}/{}?sslmode=disable", self.name)
            }
        }
    }

    /// Every write waits for that long; reads go on. False where that did not come about.
    pub async fn block_writes(&self, length: Duration) -> bool {
        // All sessions may just be ended, ours among them.
        let Ok(connection) = self.connect().await else { return false };
        let lock = match self.engine {
            Engine::Sqlite => "BEGIN IMMEDIATE",
            Engine::Postgres => "BEGIN; LOCK TABLE idempotency_key, reservation IN SHARE MODE",
        };
        // Where others write without a pause it may not get the lock at all.
        let locked = connection.execute_unprepared(lock).await.is_ok();
        if locked {
            tokio::time::sleep(length).await;
        }
        let _ = connection.close().await;
        locked
    }

    /// Every session is ended by the server (PostgreSQL). False where that is away.
    pub async fn end_sessions(&self) -> bool {
        let sql = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'", self.name);
        self.ask_administrator(&sql).await.is_ok()
    }

    /// The lease of the key with this reference; none where there is no such key.
    pub async fn lease(&self, reference: &str) -> Result<Option<Lease>, DbErr> {
        let (backend, now) = match self.engine {
            Engine::Sqlite => (DbBackend::Sqlite, "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)"),
            Engine::Postgres => (DbBackend::Postgres, "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"),
        };
        let sql = format!(
            "SELECT state, lease_until_ms - {now} AS left_ms, {now} - created_at_ms AS age_ms FROM idempotency_key WHERE reference = $1"
        );
        let connection = self.beside.get_or_try_init(|| self.connect()).await?;
        let row = connection.query_one_raw(Statement::from_sql_and_values(backend, sql, [reference.into()])).await?;
        // Our own clock, with which we read a file, is not the one that the processes have.
        let off_ms = self.clock.as_ref().map_or(0, Clock::off_ms);
        let read = |row: QueryResult| {
            let left_ms = row.try_get::<Option<i64>>("", "left_ms")?;
            let age_ms = row.try_get::<i64>("", "age_ms")? + off_ms;
            Ok(Lease { state: row.try_get("", "state")?, left_ms: left_ms.map(|left| left - off_ms), age_ms })
        };
        row.map(read).transpose()
    }

    /// How many keys are not settled: one that only an operator can settle is not counted.
    pub async fn unsettled(&self) -> i64 {
        let sql = "SELECT count(*) AS n FROM idempotency_key WHERE state = 'in_progress' OR next_look_at_ms IS NOT NULL";
        self.rows(sql).await.first().map_or(0, |row| row.try_get("", "n").expect("a number"))
    }

    /// State, reference and attempts of every key that is neither completed nor finally released.
    pub async fn open_keys(&self) -> Vec<(String, String)> {
        let sql = "SELECT state, reference FROM idempotency_key WHERE state IN ('in_progress', 'outcome_unknown') \
             OR next_look_at_ms IS NOT NULL";
        let text = |row: &QueryResult, column| row.try_get("", column).expect("a text");
        self.rows(sql).await.iter().map(|row| (text(row, "state"), text(row, "reference"))).collect()
    }

    pub async fn reservations(&self) -> Vec<Reservation> {
        let rows = self.rows("SELECT id, status, booking_id, quantity FROM reservation").await;
        let text = |row: &QueryResult, column| row.try_get("", column).expect("a text");
        let read = |row| Reservation {
            id: text(row, "id"),
            status: text(row, "status"),
            booking_id: text(row, "booking_id"),
            quantity: row.try_get("", "quantity").expect("a number"),
        };
        rows.iter().map(read).collect()
    }

    async fn rows(&self, sql: &str) -> Vec<QueryResult> {
        let backend = match self.engine {
            Engine::Sqlite => DbBackend::Sqlite,
            Engine::Postgres => DbBackend::Postgres,
        };
        let connection = self.connect().await.unwrap_or_else(|e| panic!("our own connection: {e}"));
        let rows = connection.query_all_raw(Statement::from_string(backend, sql)).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let _ = connection.close().await;
        rows
    }

    async fn connect(&self) -> Result<DatabaseConnection, DbErr> {
        match self.engine {
            Engine::Sqlite => open(&self.server).await,
            Engine::Postgres => open(&format!("{}/{}", self.server, self.name)).await,
        }
    }

    async fn administrate(&self, sql: &str) {
        self.ask_administrator(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    async fn ask_administrator(&self, sql: &str) -> Result<(), DbErr> {
        let connection = open(&format!("{}/postgres", self.server)).await?;
        let done = connection.execute_unprepared(sql).await;
        let _ = connection.close().await;
        done.map(drop)
    }
}

async fn open(url: &str) -> Result<DatabaseConnection, DbErr> {
    let mut options = ConnectOptions::new(url);
    options.max_connections(1).sqlx_logging(false);
    Sea::connect(options).await
}

/// `postgres://user:password@host:port`.
fn postgres_server() -> String {
    let url = std::env::var("TEST_DATABASE_URL").ok().filter(|url| !url.is_empty());
    let url = url.expect("PostgreSQL needs TEST_DATABASE_URL: run it as '.ci/with-postgres cargo test --workspace' (make does)");
    let (scheme, rest) = url.split_once("://").expect("TEST_DATABASE_URL is an address");
    assert!(rest.contains('@'), "TEST_DATABASE_URL must look like postgres://user@host:port/postgres");
    format!("{scheme}://{}", rest.split('/').next().expect("a server"))
}
