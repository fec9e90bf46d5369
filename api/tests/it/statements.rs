//! What each path costs in SQL statements, as the process itself counts them.

use super::support::Engine;
use super::support::prelude::*;

tests!(both[each_path_costs_the_statements_it_promises]);

/// What the metrics themselves read: the runs of the jobs, and the number of unknown keys.
const METRICS: u64 = 2;

/// Statements sent since the process started; reading them costs two more.
async fn statements(service: &Service) -> u64 {
    let metrics = service.get("/metrics").await;
    let line = metrics.text().lines().find_map(|line| line.strip_prefix("reservation_api_sql_statements_total ").map(str::to_owned));
    line.expect("the counter is in the metrics").trim().parse().expect("a number")
}

async fn each_path_costs_the_statements_it_promises(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("SCHEDULER", "off").set("LEASE", "60s").start().await;
    let (key, body) = (case.key(), case.body());

    let before = statements(&service).await;
    let first = service.post(&key, &body).await;
    first.expect_created();
    let fresh = statements(&service).await - before - METRICS;
    // Claim and finalize; SQLite has no statement that writes two tables, so its finalize is a transaction of two.
    let promised = match case.engine {
        Engine::Postgres => 2,
        Engine::Sqlite => 3,
    };
    assert_eq!(fresh, promised, "a fresh request");

    let before = statements(&service).await;
    service.post(&key, &body).await.expect_replay_of(&first);
    assert_eq!(statements(&service).await - before - METRICS, 1, "a hot replay is one read");

    // A process that has not seen the key tries the insert first, which changes nothing.
    let other = case.api(&upstream).set("SCHEDULER", "off").set("LEASE", "60s").start().await;
    let before = statements(&other).await;
    other.post(&key, &body).await.expect_replay_of(&first);
    assert_eq!(statements(&other).await - before - METRICS, 2, "a cold replay is one insert that does nothing, and one read");
}
