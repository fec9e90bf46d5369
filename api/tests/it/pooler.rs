//! PgBouncer between the service and PostgreSQL.

use super::support::pgbouncer::PgBouncer;
use super::support::prelude::*;

tests!(postgres [
    three_processes_work_through_a_pooler_in_session_mode,
    three_processes_work_through_a_pooler_in_transaction_mode,
    a_pooler_mode_that_does_not_suit_is_refused_with_its_name,
]);

/// The parameter that says that sessions are shared.
const SHARED: &str = "&statement-cache-capacity=0";

/// Two servers and the jobs alone on one database: fresh requests, herds, changes, cancellations, pages, and what a dead worker left.
async fn three_processes_work(case: &Case, url: &str) {
    let upstream = case.upstream_that(false, true).await;
    case.program("migration").set("DATABASE_URL", url).arguments(["up"]).run().await.expect_success();
    let status = case.program("migration").set("DATABASE_URL", url).arguments(["status"]).run().await;
    assert!(!status.expect_success().output.contains("pending"), "{status:?}");
    let setup = || case.api(&upstream).set("DATABASE_URL", url).set("SCHEDULER", "off").set("DATABASE_POOL", "8").set("LEASE", "3s");
    let (one, two) = tokio::join!(setup().start(), setup().start());
    let jobs = case.jobs(&upstream).set("DATABASE_URL", url).set("DATABASE_POOL", "4").spawn();

    for _ in 0..5 {
        let (key, body) = (case.key(), case.body());
        let herd = together((0..40).map(|n| if n % 2 == 0 { one.post(&key, &body) } else { two.post(&key, &body) })).await;
        let fresh: Vec<_> = herd.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).collect();
        assert_eq!((fresh.len(), upstream.bookings_of(&body).len()), (1, 1));
        for reply in herd.iter().filter(|reply| reply.status != 201) {
            reply.expect_problem(409, "key-in-progress");
        }
        let bodies: Vec<_> = (0..40).map(|_| (case.key(), case.body())).collect();
        for reply in together(bodies.iter().map(|(key, body)| one.post(key, body))).await {
            reply.expect_created();
        }
        for (key, body) in &bodies[..5] {
            let made = two.post(key, body).await;
            assert!(made.is_replay(), "{made:?}");
            let change = one.patch(&made.id(), &case.key(), &made.etag(), &json!({"quantity": 2})).await;
            assert_eq!((change.status, &change.json()["quantity"]), (200, &json!(2)), "{change:?}");
        }
    }
    assert_eq!(two.get("/reservations?limit=50").await.json()["items"].as_array().unwrap().len(), 50);

    // One dies in the middle of a booking, and the jobs finish it.
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("never")]]);
    let cut = one.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    one.kill_9();
    let _ = cut.await;
    eventually("the key is settled or released", async || {
        let state = two.key_state(&key).await?;
        (state != "in_progress").then_some(())
    })
    .await;
    assert!(!jobs.has_ended(), "{}", jobs.log());
    case.jobs(&upstream).set("DATABASE_URL", url).arguments(["keys", "list"]).run().await.expect_success();
}

async fn three_processes_work_through_a_pooler_in_session_mode(case: &Case) {
    let pooler = PgBouncer::start(case.database.server(), "session", 60).await;
    three_processes_work(case, &pooler.url(case.database.name(), "")).await;
}

/// With fewer sessions than connections, each is everybody's.
async fn three_processes_work_through_a_pooler_in_transaction_mode(case: &Case) {
    let pooler = PgBouncer::start(case.database.server(), "transaction", 4).await;
    three_processes_work(case, &pooler.url(case.database.name(), SHARED)).await;
}

async fn a_pooler_mode_that_does_not_suit_is_refused_with_its_name(case: &Case) {
    let upstream = case.upstream().await;
    for (mode, parameters) in [("transaction", ""), ("statement", ""), ("statement", SHARED)] {
        let pooler = PgBouncer::start(case.database.server(), mode, 4).await;
        let url = pooler.url(case.database.name(), parameters);
        for start in [case.api(&upstream), case.jobs(&upstream), case.program("migration").arguments(["up"])] {
            let ended = start.set("DATABASE_URL", &url).run().await;
            assert_eq!(ended.expect_refusal().complaint.trim().lines().count(), 1, "{ended:?}");
            assert!(ended.complaint.contains(&format!("{mode} mode")) && ended.complaint.contains("pool_mode = session"), "{ended:?}");
        }
    }
    assert_eq!(case.database.number("SELECT count(*) AS n FROM pg_tables WHERE schemaname = 'public'").await, 0);
}
