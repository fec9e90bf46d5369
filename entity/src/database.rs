//! The connection pools, and the few things in which the two engines differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sea_orm::{
    ConnectOptions, ConnectionTrait, DatabaseBackend, DatabaseConnection, DatabaseTransaction, DbErr, QueryResult, Statement, Value,
};

use migration::session::{Outdated, Session, Sessions};

use crate::crash_point::{self, Moment};
use crate::store_error::StoreError;

pub use migration::MigrateError;
pub use migration::connect::ConnectError;

/// How to reach the database.
#[derive(Debug, Clone)]
pub struct DatabaseSettings {
    /// `sqlite://FILE?mode=rwc` or `postgres://USER@HOST/NAME`.
    pub url: String,
    /// Connections at most; on SQLite these read, and one more writes.
    pub pool: u32,
    /// How long to wait for a connection, and on SQLite for another process's write lock.
    pub acquire_timeout: Duration,
}

/// The database. On SQLite there is one connection that writes, so that our own writers queue up instead of colliding;
/// other processes are waited for (`busy_timeout`).
#[derive(Debug, Clone)]
pub struct Database {
    read: DatabaseConnection,
    write: DatabaseConnection,
    statements: Arc<AtomicU64>,
    outdated: Outdated,
    sessions: Sessions,
}

impl Database {
    /// Opens the pools.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing is left open then.
    pub async fn connect(settings: &DatabaseSettings) -> Result<Self, ConnectError> {
        let outdated = Outdated::default();
        let write = open(settings, if is_sqlite(settings) { 1 } else { settings.pool }, &outdated).await?;
        let read = if is_sqlite(settings) { open(settings, settings.pool, &outdated).await? } else { write.clone() };
        Ok(Self { read, write, statements: Arc::default(), outdated, sessions: Sessions::of(&settings.url) })
    }

    /// Brings the schema up to date; safe with many processes at once.
    ///
    /// # Errors
    /// [`MigrateError`]; the schema is as it was then.
    pub async fn migrate(&self) -> Result<(), MigrateError> {
        migration::up(&self.write, self.sessions).await
    }

    /// SQL statements sent so far, apart from the begins and ends of transactions and from the journal, which is written beside: what each path costs is a promise, and tested.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Closes the pools; statements under way are finished.
    pub async fn close(self) {
        // An error here has nobody to act on it: the process is about to end.
        let _ = self.read.close().await;
        let _ = self.write.close().await;
    }

    pub(crate) async fn read_one(&self, name: &str, sql: &str, values: Vec<Value>) -> Result<Option<QueryResult>, StoreError> {
        let statement = self.statement(sql, values);
        Ok(self.send(name, || self.query(&self.read, statement.clone())).await?.into_iter().next())
    }

    pub(crate) async fn read_all(&self, name: &str, sql: &str, values: Vec<Value>) -> Result<Vec<QueryResult>, StoreError> {
        let statement = self.statement(sql, values);
        self.send(name, || self.query(&self.read, statement.clone())).await
    }

    /// Reads to the end, not just to the row: SQLite shows the row of a `RETURNING` before it commits, and only the end tells whether it did.
    pub(crate) async fn write_one(&self, name: &str, sql: &str, values: Vec<Value>) -> Result<Option<QueryResult>, StoreError> {
        Ok(self.write_all(name, sql, values).await?.into_iter().next())
    }

    pub(crate) async fn write_all(&self, name: &str, sql: &str, values: Vec<Value>) -> Result<Vec<QueryResult>, StoreError> {
        let statement = self.statement(sql, values);
        self.send(name, || self.query(&self.write, statement.clone())).await
    }

    /// Rows changed.
    pub(crate) async fn execute(&self, name: &str, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        let statement = self.statement(sql, values);
        self.send(name, || self.change(statement.clone())).await
    }

    /// A statement that no request waits for: it is not counted.
    pub(crate) async fn execute_beside(&self, name: &str, sql: &str, values: Vec<Value>) -> Result<(), StoreError> {
        let statement = self.build(sql, values);
        self.send(name, || self.change(statement.clone())).await.map(|_| ())
    }

    /// A transaction that is a writer from its begin: SQLite's deferred ones fail when another writer got in between.
    pub(crate) async fn begin(&self) -> Result<Transaction<'_>, StoreError> {
        Ok(Transaction { database: self, inner: self.sessions.begin(&self.write).await? })
    }

    /// A statement that a read-only session refused had no effect. It is sent once more, over a new session: after a failover the address
    /// may lead to the new primary by now, and no caller needs to hear of the sessions that stayed with the old one.
    async fn send<T, F>(&self, name: &str, statement: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, DbErr>>,
    {
        match around(name, statement()).await {
            Err(error) if self.outdated.judge(&error) == Session::ReadOnly => {
                let again = around(name, statement()).await;
                Ok(again.inspect_err(|error| _ = self.outdated.judge(error))?)
            }
            done => Ok(done?),
        }
    }

    async fn query(&self, pool: &DatabaseConnection, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        if self.sessions == Sessions::Own {
            return pool.query_all_raw(statement).await;
        }
        let tx = self.sessions.begin(pool).await?;
        let rows = tx.query_all_raw(statement).await?;
        tx.commit().await?;
        Ok(rows)
    }

    /// Rows changed.
    async fn change(&self, statement: Statement) -> Result<u64, DbErr> {
        if self.sessions == Sessions::Own {
            return Ok(self.write.execute_raw(statement).await?.rows_affected());
        }
        let tx = self.sessions.begin(&self.write).await?;
        let done = tx.execute_raw(statement).await?;
        tx.commit().await?;
        Ok(done.rows_affected())
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.write.get_database_backend() == DatabaseBackend::Postgres
    }

    /// `{now}` is the database's clock in milliseconds; `{skip_locked}` lets several sweepers share a table, and `{for_update}` locks what
    /// was read until the end of the statement. SQLite has one writer at a time and needs neither. `{c}` behind a text compares and sorts it
    /// by its bytes, as SQLite does anyway: so pages do not depend on the operating system, and the indexes of that order are used.
    fn statement(&self, sql: &str, values: Vec<Value>) -> Statement {
        self.statements.fetch_add(1, Ordering::Relaxed);
        self.build(sql, values)
    }

    fn build(&self, sql: &str, values: Vec<Value>) -> Statement {
        let (now, skip_locked, for_update, c) = if self.is_postgres() {
            ("(extract(epoch FROM statement_timestamp()) * 1000)::bigint", "FOR UPDATE SKIP LOCKED", "FOR UPDATE", " COLLATE \"C\"")
        } else {
            ("CAST(round(unixepoch('subsec') * 1000) AS INTEGER)", "", "", "")
        };
        let sql = sql.replace("{now}", now).replace("{skip_locked}", skip_locked).replace("{for_update}", for_update).replace("{c}", c);
        Statement::from_sql_and_values(self.write.get_database_backend(), sql, values)
    }
}

/// A transaction of a few local statements; dropped without [`Transaction::commit`] it is rolled back.
pub(crate) struct Transaction<'a> {
    database: &'a Database,
    inner: DatabaseTransaction,
}

impl Transaction<'_> {
    /// Rows changed.
    pub(crate) async fn execute(&self, name: &str, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        let done = around(name, self.inner.execute_raw(self.database.statement(sql, values))).await;
        Ok(done.inspect_err(|error| _ = self.database.outdated.judge(error))?.rows_affected())
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        let outdated = self.database.outdated.clone();
        Ok(around("commit", self.inner.commit()).await.inspect_err(|error| _ = outdated.judge(error))?)
    }

    pub(crate) async fn rollback(self) -> Result<(), StoreError> {
        Ok(around("rollback", self.inner.rollback()).await?)
    }
}

/// Every statement passes here: with a crash point before it is sent and one after it is acknowledged.
async fn around<T>(name: &str, statement: impl Future<Output = Result<T, DbErr>>) -> Result<T, DbErr> {
    crash_point::reach(name, Moment::Before);
    let done = statement.await?;
    crash_point::reach(name, Moment::After);
    Ok(done)
}

fn is_sqlite(settings: &DatabaseSettings) -> bool {
    settings.url.starts_with("sqlite:")
}

async fn open(settings: &DatabaseSettings, connections: u32, outdated: &Outdated) -> Result<DatabaseConnection, ConnectError> {
    let mut options = ConnectOptions::new(settings.url.clone());
    // A ping before every acquire would be a round trip a statement.
    options.max_connections(connections).test_before_acquire_if_idle_for(Duration::from_secs(5));
    migration::connect::open_renewed(options, settings.acquire_timeout, outdated).await
}
