//! The key: one row a keyed request, from the claim until its expiry. The CHECKs make an impossible state unstorable.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "
CREATE TABLE idempotency_key (
    digest              {bytes} PRIMARY KEY NOT NULL,
    account             text NOT NULL,
    operation           text NOT NULL,
    fingerprint_version {int} NOT NULL,
    fingerprint         {bytes} NOT NULL,
    request             {bytes} NOT NULL,
    change_to           {bytes},
    reservation_id      text NOT NULL,
    reference           text NOT NULL,
    state               text NOT NULL,
    attempt             {int} NOT NULL,
    lease_token         text,
    lease_until_ms      {int},
    lease_ended_at_ms   {int},
    maybe_sent_until_ms {int},
    next_look_at_ms     {int},
    looks               {int} NOT NULL DEFAULT 0,
    answer_status       {int},
    answer_content_type text,
    answer_location     text,
    answer_etag         text,
    answer_body         {bytes},
    created_at_ms       {int} NOT NULL,
    completed_at_ms     {int},
    expires_at_ms       {int},
    CONSTRAINT idempotency_key_digest CHECK (length(digest) = 32 AND length(fingerprint) = 32),
    CONSTRAINT idempotency_key_operation CHECK (operation IN ('createReservation', 'changeReservation', 'cancelReservation')),
    CONSTRAINT idempotency_key_change CHECK ((operation = 'changeReservation') = (change_to IS NOT NULL)),
    CONSTRAINT idempotency_key_reference CHECK ((operation = 'createReservation') = (reference = reservation_id)),
    CONSTRAINT idempotency_key_state CHECK (state IN ('in_progress', 'completed', 'released', 'outcome_unknown')),
    CONSTRAINT idempotency_key_attempt CHECK (attempt >= 1 AND looks >= 0),
    CONSTRAINT idempotency_key_lease CHECK (state <> 'in_progress' OR (lease_token IS NOT NULL AND lease_until_ms IS NOT NULL)),
    CONSTRAINT idempotency_key_no_lease CHECK (state NOT IN ('completed', 'released') OR lease_until_ms IS NULL),
    CONSTRAINT idempotency_key_lease_owner CHECK (lease_until_ms IS NULL OR lease_token IS NOT NULL),
    CONSTRAINT idempotency_key_lease_ended CHECK (lease_ended_at_ms IS NULL OR state = 'in_progress'),
    CONSTRAINT idempotency_key_answer CHECK (
        (state = 'completed') = (answer_status IS NOT NULL)
        AND (state = 'completed') = (answer_body IS NOT NULL)
        AND (state = 'completed') = (completed_at_ms IS NOT NULL)
        AND (answer_status IS NULL OR answer_status BETWEEN 200 AND 499)
        AND (answer_status IS NULL OR answer_status = 204 OR (answer_content_type IS NOT NULL AND length(answer_body) > 0))),
    CONSTRAINT idempotency_key_expiry CHECK (
        (state = 'completed' AND expires_at_ms IS NOT NULL)
        OR (state = 'released' AND (expires_at_ms IS NULL) = (next_look_at_ms IS NOT NULL))
        OR (state IN ('in_progress', 'outcome_unknown') AND expires_at_ms IS NULL)),
    CONSTRAINT idempotency_key_look CHECK (next_look_at_ms IS NULL OR state IN ('released', 'outcome_unknown'))
){table_end}";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::run(
            manager,
            &[
                TABLE,
                // A reservation that is not settled yet, or never was, is read from its key.
                "CREATE UNIQUE INDEX idempotency_key_reference_idx ON idempotency_key (reference)",
                // At most one unsettled change of a reservation: the second claim conflicts here.
                "CREATE UNIQUE INDEX idempotency_key_one_change_idx ON idempotency_key (reservation_id) \
                 WHERE operation <> 'createReservation' AND state IN ('in_progress', 'outcome_unknown')",
                "CREATE INDEX idempotency_key_lease_idx ON idempotency_key (lease_until_ms) WHERE state = 'in_progress'",
                "CREATE INDEX idempotency_key_look_idx ON idempotency_key (next_look_at_ms) WHERE next_look_at_ms IS NOT NULL",
                "CREATE INDEX idempotency_key_unknown_idx ON idempotency_key (state) WHERE state = 'outcome_unknown'",
                "CREATE INDEX idempotency_key_expiry_idx ON idempotency_key (expires_at_ms) WHERE expires_at_ms IS NOT NULL",
            ],
        )
        .await
    }
}
