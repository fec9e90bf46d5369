//! SQL that leaves a large number of expired keys behind, as completed ones leave them: to make them by requests would take minutes.

/// One row; `{digest}`, `{reference}` and `{bytes}` are written in each engine's own way.
const EXPIRED: &str = "INSERT INTO idempotency_key (digest, account, operation, fingerprint_version, fingerprint, request, reservation_id, \
     reference, state, attempt, lease_token, answer_status, answer_content_type, answer_location, answer_etag, answer_body, \
     created_at_ms, completed_at_ms, expires_at_ms) \
     SELECT {digest}, 'local', 'createReservation', 1, {digest}, {bytes}, {reference}, {reference}, 'completed', 1, {reference}, 201, \
     'application/json', '/reservations/' || {reference}, '\"1\"', {bytes}, 1000, 2000, 3000 + n FROM number";
const BODY: &str = "'{\"id\":\"01a23500-6027-72cd-a98e-07770609ce4f\",\"status\":\"confirmed\",\"item_code\":\"ROOM-101\",\"quantity\":1,\
     \"reserved_by\":\"taro\",\"starts_at\":null,\"ends_at\":null,\"note\":null,\"booking_id\":\"BK-8e03978e\"}'";

/// How many of them there are: those that expired long ago. By an index: a count that reads every row takes seconds, and SQLite's log
/// grows for as long as somebody reads.
pub const COUNT: &str = "SELECT count(*) AS n FROM idempotency_key WHERE expires_at_ms < 1000000000000";

/// Notes the number of rows of every statement that deletes keys (PostgreSQL), in the table `batch`.
pub const WATCH: &str = "CREATE TABLE batch (n bigint NOT NULL); \
     CREATE FUNCTION note_batch() RETURNS trigger LANGUAGE plpgsql AS \
     'BEGIN INSERT INTO batch SELECT count(*) FROM gone; RETURN NULL; END'; \
     CREATE TRIGGER note_batch AFTER DELETE ON idempotency_key REFERENCING OLD TABLE AS gone \
     FOR EACH STATEMENT EXECUTE FUNCTION note_batch();";

pub fn expired_keys(postgres: bool, rows: usize) -> String {
    let (numbers, digest, reference, bytes) = if postgres {
        let numbers = format!("WITH number AS (SELECT n FROM generate_series(1, {rows}) AS n)");
        (numbers, "sha256(n::text::bytea)", "lpad(n::text, 36, '0')", format!("convert_to({BODY}, 'UTF8')"))
    } else {
        let numbers = format!("WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {rows})");
        (numbers, "randomblob(32)", "printf('%036d', n)", format!("CAST({BODY} AS BLOB)"))
    };
    let insert = EXPIRED.replace("{digest}", digest).replace("{reference}", reference).replace("{bytes}", &bytes);
    let (into, select) = insert.split_once(" SELECT ").unwrap_or((&insert, ""));
    format!("{into} {numbers} SELECT {select}")
}
