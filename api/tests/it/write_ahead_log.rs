//! SQLite's write-ahead log, the file `-wal` beside the database.

use super::support::prelude::*;
use sea_orm::ConnectionTrait;

tests!(sqlite [
    the_log_shrinks_again_after_a_long_reader,
]);

const MIB: u64 = 1 << 20;

/// F08: nothing can be taken out of the log while somebody reads what it replaces.
async fn the_log_shrinks_again_after_a_long_reader(case: &Case) {
    let (_upstream, service) = case.started().await;
    let log = case.folder().join("reservations.db-wal");
    let size = || std::fs::metadata(&log).map_or(0, |log| log.len());
    service.post(&case.key(), &case.body()).await.expect_created();

    let reader = case.database.connect().await;
    reader.execute_unprepared("BEGIN; SELECT count(*) FROM idempotency_key").await.unwrap();
    while size() < 9 * MIB {
        let bodies: Vec<_> = (0..50).map(|_| (case.key(), changed(&case.body(), json!({"note": "n".repeat(900)})))).collect();
        for reply in together(bodies.iter().map(|(key, body)| service.post(key, body))).await {
            reply.expect_created();
        }
    }
    reader.execute_unprepared("ROLLBACK").await.unwrap();
    reader.close().await.unwrap();

    eventually("the log is short again", async || {
        service.post(&case.key(), &case.body()).await.expect_created();
        (size() <= 4 * MIB).then_some(())
    })
    .await;
}
