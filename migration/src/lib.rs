//! The schema, one change a file: frozen history that imports nothing of ours.
//!
//! [`up`] is safe with any number of processes at once: the whole migration runs inside one outer transaction that
//! starts as a writer (SQLite) or holds an advisory lock (PostgreSQL), so a loser waits and then finds nothing to do.

use sea_orm_migration::MigrationStatus;
use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{
    DatabaseBackend, DatabaseConnection, SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait,
};

pub mod connect;
mod m20261202_000001_create_idempotency_key;
mod m20261202_000002_create_reservation;
mod m20261202_000003_create_api_token;
mod m20261202_000004_create_job_run;
mod m20261202_000005_create_attempt_journal;
mod m20261202_000006_create_operator_action;

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
        ]
    }
}

/// Applies what is pending. A crash in the middle leaves the schema as it was.
///
/// # Errors
/// The database's own error; nothing is applied then.
pub async fn up(db: &DatabaseConnection) -> Result<(), DbErr> {
    let options = TransactionOptions { sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate), ..Default::default() };
    let tx = db.begin_with_options(options).await?;
    if db.get_database_backend() == DatabaseBackend::Postgres {
        let lock = "SELECT pg_advisory_xact_lock($1)";
        tx.execute_raw(Statement::from_sql_and_values(DatabaseBackend::Postgres, lock, [ADVISORY_LOCK.into()])).await?;
    }
    Migrator::up(&tx, None).await?;
    // Writes no row, but fails where none could be written: a file without write permission, a standby.
    tx.execute_unprepared("UPDATE seaql_migrations SET version = version WHERE false").await?;
    tx.commit().await
}

/// Every migration's name and whether it is applied, oldest first.
///
/// # Errors
/// The database's own error.
pub async fn status(db: &DatabaseConnection) -> Result<Vec<(String, bool)>, DbErr> {
    let files = Migrator::get_migration_with_status(db).await?;
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
