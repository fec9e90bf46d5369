//! What each path costs in SQL statements, as the process itself counts them.

use super::support::Engine;
use super::support::prelude::*;

tests!(both [
    each_path_costs_the_statements_it_promises,
    a_key_that_others_used_costs_what_any_other_costs,
    the_journal_tells_of_every_call_and_of_nobody,
] postgres [
    no_answer_waits_for_the_journal,
]);

const JOURNAL: &str = "SELECT count(*) AS n FROM attempt_journal";

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

/// B06, B20: what one caller does tells nothing of what another one has under the same key: the work is the same, statement by statement.
async fn a_key_that_others_used_costs_what_any_other_costs(case: &Case) {
    let upstream = case.upstream().await;
    let tokens = "acme:acme-token-1,other:other-token-1";
    let service = case.api(&upstream).set("API_TOKENS", tokens).set("SCHEDULER", "off").set("LEASE", "60s").start().await;
    let (used, unused) = (case.key(), case.key());
    service.post(&used, &case.body()).await.expect_created();
    // The token is known from here on, and costs no look any more.
    let known = || service.get("/idempotency-policy").token("other-token-1");
    let cost = async |request: super::support::client::Request, status: u16| {
        // A token is looked up every few seconds; which of two requests that falls to must not count.
        let mut least = u64::MAX;
        for _ in 0..3 {
            known().await;
            service.get("/reservations?limit=1").token("other-token-1").await;
            let before = statements(&service).await;
            assert_eq!(request.clone().await.status, status);
            least = least.min(statements(&service).await - before - METRICS);
        }
        least
    };
    let record = |key: &str| service.get(&format!("/idempotency-keys/{key}?operation=createReservation"));
    for token in [Some("other-token-1"), Some("wrong"), None] {
        let (with, status) = (
            |request: super::support::client::Request| token.map_or(request.clone().no_token(), |t| request.token(t)),
            if token == Some("other-token-1") { 404 } else { 401 },
        );
        assert_eq!(cost(with(record(&used)), status).await, cost(with(record(&unused)), status).await, "{token:?}");
        if status == 401 {
            let body = case.body();
            let post = |key: &str| with(service.post(key, &body));
            assert_eq!(cost(post(&used), 401).await, cost(post(&unused), 401).await, "{token:?}");
        }
    }
    // A first request of the other account claims, books and finalizes, whoever used that key before.
    let fresh = async |used_before: bool| {
        let mut least = u64::MAX;
        for _ in 0..3 {
            let key = case.key();
            if used_before {
                service.post(&key, &case.body()).await.expect_created();
            }
            let before = statements(&service).await;
            service.post(&key, &case.body()).token("other-token-1").await.expect_created();
            least = least.min(statements(&service).await - before - METRICS);
        }
        least
    };
    assert_eq!(fresh(true).await, fresh(false).await);
}

async fn the_journal_tells_of_every_call_and_of_nobody(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), changed(&case.body(), json!({"note": "for hanako"})));
    upstream.on_post(&body, [vec![Book, Status(500)], vec![Answer]]);
    let reference = service.settle(&key, &body).await.id();
    // The send, the look-up that found the booking, and the end of the attempt.
    let of_key = format!("{JOURNAL} WHERE reference = '{reference}'");
    eventually("the journal is written", async || (case.database.number(&of_key).await == 3).then_some(())).await;
    let of_somebody = format!("{JOURNAL} WHERE reference || what || result || worker LIKE '%hanako%'");
    assert_eq!(case.database.number(&of_somebody).await, 0);
}

/// Written beside the work: while it cannot be written at all, requests are answered as ever.
async fn no_answer_waits_for_the_journal(case: &Case) {
    let (_, service) = case.started().await;
    let blocked = case.database.locked("LOCK TABLE attempt_journal IN ACCESS EXCLUSIVE MODE").await;
    for _ in 0..50 {
        service.post(&case.key(), &case.body()).await.expect_created();
    }
    blocked.release().await;
    eventually("the journal catches up", async || (case.database.number(JOURNAL).await == 100).then_some(())).await;
}
