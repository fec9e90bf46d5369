//! The audit of the operator's tool.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::run(
            manager,
            &[
                "CREATE TABLE operator_action (
                    id        {serial},
                    at_ms     {int} NOT NULL,
                    reference text NOT NULL,
                    account   text NOT NULL,
                    attempt   {int} NOT NULL,
                    said      text NOT NULL,
                    reason    text NOT NULL,
                    operator  text NOT NULL,
                    CONSTRAINT operator_action_reason CHECK (length(reason) > 0)
                ){table_end}",
                "CREATE INDEX operator_action_reference_idx ON operator_action (reference)",
            ],
        )
        .await
    }
}
