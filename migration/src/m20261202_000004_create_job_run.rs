//! When each scheduled job last succeeded, in any process: shown in metrics and readiness.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "
CREATE TABLE job_run (
    job             text PRIMARY KEY NOT NULL,
    last_success_ms {int} NOT NULL,
    worker          text NOT NULL
){table_end}";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::run(manager, &[TABLE]).await
    }
}
