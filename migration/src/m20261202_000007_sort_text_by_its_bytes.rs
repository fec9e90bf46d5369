//! PostgreSQL: no unique index, and no order in which pages are read, depends on the operating system's rules for sorting text.
//!
//! Such rules change with the C library, and an index that was sorted by the old ones accepts a second row under the same key from then
//! on. `COLLATE "C"` compares bytes. SQLite always does, and has nothing to change here.
//!
//! The collation belongs to the indexes and not to the columns: a column's would change the type of what prepared statements give back,
//! and a process of the earlier release would fail at each until it is started anew. Its statements find their rows by the hash indexes,
//! which equal text needs only the bytes for, as do ours.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DatabaseBackend;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// The rows that are at most one for each reservation.
const UNSETTLED_CHANGE: &str = "WHERE operation <> 'createReservation' AND state IN ('in_progress', 'outcome_unknown')";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() != DatabaseBackend::Postgres {
            return Ok(());
        }
        let one_change = format!(
            "CREATE UNIQUE INDEX idempotency_key_one_change_c_idx ON idempotency_key (reservation_id COLLATE \"C\") {UNSETTLED_CHANGE}"
        );
        let change =
            format!("CREATE INDEX idempotency_key_change_hash_idx ON idempotency_key USING hash (reservation_id) {UNSETTLED_CHANGE}");
        crate::run(
            manager,
            &[
                // All locks at once and before anything else: a lock that is made stronger later is a deadlock with whoever has the weaker
                // one. A statement that holds one of these tables and waits for another would be one, too, so this gives up (and `up` tries
                // again) before the database looks for deadlocks and picks a victim.
                "SET LOCAL lock_timeout = '500ms'",
                "LOCK TABLE idempotency_key, reservation, job_run, seaql_migrations IN ACCESS EXCLUSIVE MODE",
                "SET LOCAL lock_timeout TO DEFAULT",
                // Expand.
                "CREATE UNIQUE INDEX idempotency_key_reference_c_idx ON idempotency_key (reference COLLATE \"C\")",
                "CREATE INDEX idempotency_key_reference_hash_idx ON idempotency_key USING hash (reference)",
                &one_change,
                &change,
                "CREATE UNIQUE INDEX reservation_id_c_idx ON reservation (id COLLATE \"C\")",
                "CREATE INDEX reservation_id_hash_idx ON reservation USING hash (id)",
                "CREATE INDEX reservation_account_c_idx ON reservation (account COLLATE \"C\", id COLLATE \"C\")",
                "CREATE INDEX reservation_account_status_c_idx ON reservation (account COLLATE \"C\", status COLLATE \"C\", id COLLATE \"C\")",
                "CREATE UNIQUE INDEX job_run_job_c_idx ON job_run (job COLLATE \"C\")",
                "CREATE UNIQUE INDEX seaql_migrations_version_c_idx ON seaql_migrations (version COLLATE \"C\")",
                // Logical replication names rows by the primary key, which cannot have a collation of its own.
                "ALTER TABLE reservation REPLICA IDENTITY USING INDEX reservation_id_c_idx",
                "ALTER TABLE job_run REPLICA IDENTITY USING INDEX job_run_job_c_idx",
                "ALTER TABLE seaql_migrations REPLICA IDENTITY USING INDEX seaql_migrations_version_c_idx",
                // Contract. The columns stay NOT NULL.
                "DROP INDEX idempotency_key_reference_idx, idempotency_key_one_change_idx",
                "DROP INDEX reservation_account_idx, reservation_account_status_idx",
                "ALTER TABLE reservation DROP CONSTRAINT reservation_pkey",
                "ALTER TABLE job_run DROP CONSTRAINT job_run_pkey",
                "ALTER TABLE seaql_migrations DROP CONSTRAINT seaql_migrations_pkey",
            ],
        )
        .await
    }
}
