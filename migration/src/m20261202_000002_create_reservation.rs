//! The reservation: what is confirmed or cancelled at the booking system. Written with the key's answer, never before.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "
CREATE TABLE reservation (
    id            text PRIMARY KEY NOT NULL,
    account       text NOT NULL,
    status        text NOT NULL,
    item_code     text NOT NULL,
    quantity      {int} NOT NULL,
    reserved_by   text NOT NULL,
    starts_at_us  {int},
    ends_at_us    {int},
    note          text,
    booking_id    text NOT NULL,
    version       {int} NOT NULL DEFAULT 1,
    busy_until_ms {int},
    created_at_ms {int} NOT NULL,
    updated_at_ms {int} NOT NULL,
    CONSTRAINT reservation_status CHECK (status IN ('confirmed', 'cancelled')),
    CONSTRAINT reservation_quantity CHECK (quantity BETWEEN 1 AND 2147483647),
    CONSTRAINT reservation_period CHECK (starts_at_us IS NULL OR ends_at_us IS NULL OR ends_at_us > starts_at_us),
    CONSTRAINT reservation_version CHECK (version >= 1)
){table_end}";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::run(
            manager,
            &[
                TABLE,
                "CREATE INDEX reservation_account_idx ON reservation (account, id)",
                "CREATE INDEX reservation_account_status_idx ON reservation (account, status, id)",
            ],
        )
        .await
    }
}
