//! The attempt journal: what was called, what it came to, how long it took. No foreign key: a freed key's entries stay for a while.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::run(
            manager,
            &[
                "CREATE TABLE attempt_journal (
                    id          {serial},
                    reference   text NOT NULL,
                    attempt     {int} NOT NULL,
                    what        text NOT NULL,
                    result      text NOT NULL,
                    status      {int},
                    duration_ms {int} NOT NULL,
                    at_ms       {int} NOT NULL,
                    worker      text NOT NULL
                ){table_end}",
                "CREATE INDEX attempt_journal_reference_idx ON attempt_journal (reference)",
                "CREATE INDEX attempt_journal_at_idx ON attempt_journal (at_ms)",
            ],
        )
        .await
    }
}
