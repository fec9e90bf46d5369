//! The schema, one change a file: frozen history that imports nothing of ours.
//!
//! [`up`] is safe with any number of processes at once: the whole migration runs inside one outer transaction that
//! starts as a writer (SQLite) or holds an advisory lock (PostgreSQL), so a loser waits and then finds nothing to do.
//! On PostgreSQL it looks first, and a schema that is complete needs no right to change it.

use sea_orm_migration::MigrationStatus;
use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{DatabaseBackend, DatabaseConnection, Statement};
use std::collections::HashSet;
use std::time::Duration;

use crate::session::Sessions;

pub mod connect;
mod m20261202_000001_create_idempotency_key;
mod m20261202_000002_create_reservation;
mod m20261202_000003_create_api_token;
mod m20261202_000004_create_job_run;
mod m20261202_000005_create_attempt_journal;
mod m20261202_000006_create_operator_action;
mod m20261202_000007_sort_text_by_its_bytes;
mod server;
pub mod session;
mod sqlite_files;
pub mod start;
pub mod terminal;

/// Any number, as long as every process of this service takes the same one.
const ADVISORY_LOCK: i64 = 0x7265_7365_7276_6501;

/// All migrations, oldest first.
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261202_000001_create_idempotency_key::Migration),
            Box::new(m20261202_000002_create_reservation::Migration),
            Box::new(m20261202_000003_create_api_token::Migration),
            Box::new(m20261202_000004_create_job_run::Migration),
            Box::new(m20261202_000005_create_attempt_journal::Migration),
            Box::new(m20261202_000006_create_operator_action::Migration),
            Box::new(m20261202_000007_sort_text_by_its_bytes::Migration),
        ]
    }
}

/// Why the schema was not brought up to date. It is as it was then.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The schema is not complete, and the role may not change it.
    #[error(
        "the schema is not up to date, and the database role has no permission to change it ({0}): \
         run `migration up` with a role that has the right to, then start again"
    )]
    MayNotChange(String),
    /// The schema is complete, and the role may not use it.
    #[error("the database role has no permission to use the tables ({0}): it needs SELECT, INSERT, UPDATE and DELETE on all of them")]
    MayNotUse(String),
    /// The database's own error.
    #[error("the schema cannot be brought up to date: {0}")]
    Database(#[from] DbErr),
}

/// Applies what is pending. A crash in the middle leaves the schema as it was.
///
/// # Errors
/// [`MigrateError`]; nothing is applied then.
pub async fn up(db: &DatabaseConnection, sessions: Sessions) -> Result<(), MigrateError> {
    if db.get_database_backend() == DatabaseBackend::Postgres {
        let tx = sessions.begin(db).await?;
        if is_complete(&tx).await? {
            return can_write(&tx, "UPDATE idempotency_key SET attempt = attempt WHERE false")
                .await
                .map_err(|error| may_not_use(db, error));
        }
        tx.rollback().await?;
    }
    loop {
        match apply(db, sessions, None).await {
            // A migration asks for its locks with little patience, so that nobody waits in line behind it for long.
            Err(error) if is_locked(&error) => tokio::time::sleep(Duration::from_millis(250)).await,
            done => return done.map_err(|error| may_not_change(db, error)),
        }
    }
}

/// Applies the oldest of what is pending, as many as that: what an earlier release knew, to try an upgrade with.
///
/// # Errors
/// The database's own error; nothing is applied then.
pub async fn up_to(db: &DatabaseConnection, steps: u32) -> Result<(), DbErr> {
    apply(db, Sessions::Own, Some(steps)).await
}

/// `lock_timeout` is over.
fn is_locked(error: &DbErr) -> bool {
    let code = connect::cause(error).and_then(|error| error.as_database_error()?.code().map(|code| code == "55P03"));
    code == Some(true)
}

async fn apply(db: &DatabaseConnection, sessions: Sessions, steps: Option<u32>) -> Result<(), DbErr> {
    let tx = sessions.begin(db).await?;
    if db.get_database_backend() == DatabaseBackend::Postgres {
        let lock = "SELECT pg_advisory_xact_lock($1)";
        tx.execute_raw(Statement::from_sql_and_values(DatabaseBackend::Postgres, lock, [ADVISORY_LOCK.into()])).await?;
    }
    Migrator::up(&tx, steps).await?;
    can_write(&tx, "UPDATE seaql_migrations SET version = version WHERE false").await?;
    tx.commit().await
}

/// Writes no row, but fails where none could be written: a file without write permission, a standby.
async fn can_write(db: &impl ConnectionTrait, statement: &str) -> Result<(), DbErr> {
    db.execute_unprepared(statement).await.map(|_| ())
}

/// Whether every migration is applied, seen without the lock and with no right but to read. Another process may be in the middle of one,
/// which shows as nothing of it.
async fn is_complete(db: &impl ConnectionTrait) -> Result<bool, MigrateError> {
    let ask = async |sql: &str| db.query_all_raw(Statement::from_string(DatabaseBackend::Postgres, sql)).await;
    let there = ask("SELECT 1 WHERE to_regclass('seaql_migrations') IS NOT NULL").await?;
    if there.is_empty() {
        return Ok(false);
    }
    let rows = ask("SELECT version FROM seaql_migrations").await.map_err(|error| may_not_use(db, error))?;
    let applied = rows.iter().map(|row| row.try_get("", "version")).collect::<Result<HashSet<String>, _>>()?;
    // One that we do not know goes to the library, which refuses it.
    Ok(applied == Migrator::migrations().iter().map(|migration| migration.name().to_owned()).collect())
}

fn may_not_change(db: &impl ConnectionTrait, error: DbErr) -> MigrateError {
    refused(db, &error).map_or(MigrateError::Database(error), |words| {
        MigrateError::MayNotChange(match words.strip_prefix("permission denied for ") {
            Some(what) => format!("it lacks the right CREATE on {what}"),
            None => words,
        })
    })
}

fn may_not_use(db: &impl ConnectionTrait, error: DbErr) -> MigrateError {
    refused(db, &error).map_or(MigrateError::Database(error), MigrateError::MayNotUse)
}

/// The database's words, where it refused for want of a right: 42501, or 3F000 where the role may see no schema at all.
fn refused(db: &impl ConnectionTrait, error: &DbErr) -> Option<String> {
    let error = connect::cause(error)?.as_database_error()?;
    let refused = matches!(error.code().as_deref(), Some("42501" | "3F000"));
    (refused && db.get_database_backend() == DatabaseBackend::Postgres).then(|| error.message().to_owned())
}

/// Every migration's name and whether it is applied, oldest first.
///
/// # Errors
/// The database's own error.
pub async fn status(db: &DatabaseConnection, sessions: Sessions) -> Result<Vec<(String, bool)>, DbErr> {
    let files = if db.get_database_backend() == DatabaseBackend::Postgres {
        let tx = sessions.begin(db).await?;
        let files = Migrator::get_migration_with_status_read_only(&tx).await?;
        tx.rollback().await?;
        files
    } else {
        Migrator::get_migration_with_status_read_only(db).await?
    };
    Ok(files.iter().map(|m| (m.name().to_owned(), m.status() == MigrationStatus::Applied)).collect())
}

/// One text of DDL for both engines: `{bytes}`, `{int}` and `{serial}` stand for the engine's own names, `{table_end}` makes SQLite's
/// types binding.
async fn run(manager: &SchemaManager<'_>, ddl: &[&str]) -> Result<(), DbErr> {
    let names = match manager.get_database_backend() {
        DatabaseBackend::Postgres => [
            ("{bytes}", "bytea"),
            ("{int}", "bigint"),
            ("{serial}", "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
            ("{table_end}", ""),
        ],
        _ => [("{bytes}", "blob"), ("{int}", "integer"), ("{serial}", "integer PRIMARY KEY"), ("{table_end}", " STRICT")],
    };
    for statement in ddl {
        let sql = names.iter().fold((*statement).to_owned(), |sql, (name, here)| sql.replace(name, here));
        manager.get_connection().execute_unprepared(&sql).await?;
    }
    Ok(())
}
