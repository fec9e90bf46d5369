//! Bearer tokens: only their SHA-256 is stored.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "
CREATE TABLE api_token (
    token_sha256  {bytes} PRIMARY KEY NOT NULL,
    account       text NOT NULL,
    role          text NOT NULL,
    created_at_ms {int} NOT NULL,
    revoked_at_ms {int},
    CONSTRAINT api_token_digest CHECK (length(token_sha256) = 32),
    CONSTRAINT api_token_account CHECK (length(account) BETWEEN 1 AND 128),
    CONSTRAINT api_token_role CHECK (role IN ('client', 'operator'))
){table_end}";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::run(manager, &[TABLE]).await
    }
}
