//! Expired keys: many of them at once, several processes that delete them, and requests that take one meanwhile.

use super::support::Engine;
use super::support::backlog::{COUNT, WATCH, expired_keys};
use super::support::prelude::*;

tests!(both [
    a_large_backlog_goes_in_batches_and_harms_nobody,
    a_key_that_is_claimed_anew_survives_the_deletion_of_its_former_life,
    nothing_of_the_former_life_is_left,
] postgres [
    a_key_that_is_claimed_anew_while_its_row_is_being_deleted_survives,
]);

/// B43: `ROWS=2000000` for as many as anybody may have.
async fn a_large_backlog_goes_in_batches_and_harms_nobody(case: &Case) {
    let rows: usize = std::env::var("ROWS").ok().and_then(|n| n.parse().ok()).unwrap_or(30_000);
    let postgres = case.engine == Engine::Postgres;
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("SCHEDULER", "off").set("DATABASE_ACQUIRE_TIMEOUT", "20s").set("LEASE", "30s").start().await;
    let kept = (case.key(), case.body());
    let first = service.post(&kept.0, &kept.1).await;
    first.expect_created();
    case.database.execute(&expired_keys(postgres, rows)).await;
    if postgres {
        case.database.execute(WATCH).await;
    }
    let rows = case.database.number(COUNT).await;
    let sweeper = || case.jobs(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "20s").set("LEASE", "30s").spawn();
    let mut sweepers = vec![sweeper(), sweeper(), sweeper()];
    let (mut left, mut seen) = (rows, vec![rows]);
    while left > 0 {
        service.post(&case.key(), &case.body()).await.expect_created();
        left = case.database.number(COUNT).await;
        assert!(left <= *seen.last().unwrap());
        seen.push(left);
        if left < rows / 2 && sweepers.len() == 3 {
            sweepers.remove(0).kill_9();
        }
        if seen.len() % 200 == 0 {
            assert_ne!(left, seen[seen.len() - 100], "nobody goes on: {left} of {rows} are left");
        }
    }
    // On SQLite every commit that anybody could see was a whole batch.
    assert!(postgres || seen.iter().all(|left| (rows - left) % 1000 == 0 || *left == 0), "not in batches of 1000: {seen:?}");
    if postgres {
        assert!(case.database.number("SELECT max(n)::bigint AS n FROM batch").await <= 1000);
        let deadlocks = "SELECT deadlocks AS n FROM pg_stat_database WHERE datname = current_database()";
        assert_eq!(case.database.number(deadlocks).await, 0);
    }
    for process in sweepers.iter().chain([&service]) {
        assert!(!process.log().contains("ERROR"), "{}", process.log());
    }
    service.post(&kept.0, &kept.1).await.expect_replay_of(&first);
}

/// B43: many keys expire, and are claimed anew while the jobs delete them.
async fn a_key_that_is_claimed_anew_survives_the_deletion_of_its_former_life(case: &Case) {
    let upstream = case.upstream().await;
    let setup = case.api(&upstream).set("LEASE", "30s").set("DATABASE_ACQUIRE_TIMEOUT", "20s");
    let (service, _sweeper) = (setup.start().await, case.jobs(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "20s").spawn());
    let keys: Vec<_> = (0..100).map(|_| (case.key(), case.body())).collect();
    for reply in together(keys.iter().map(|(key, body)| service.post(key, body))).await {
        reply.expect_created();
    }
    // From one moment on both the sweepers and the callers want them.
    case.database.execute("UPDATE idempotency_key SET expires_at_ms = 1").await;
    keys.iter().for_each(|(key, _)| case.ledger.new_life(key));
    let anew = together(keys.iter().map(|(key, body)| service.post(key, body))).await;
    for reply in &anew {
        reply.expect_created();
    }
    // The sweepers run every second and have seen them all.
    pass(2500).await;
    for ((key, body), reply) in keys.iter().zip(&anew) {
        service.post(key, body).await.expect_replay_of(reply);
    }
}

/// B43: the deletion has locked the row and waits; a request finds the key expired at that moment.
async fn a_key_that_is_claimed_anew_while_its_row_is_being_deleted_survives(case: &Case) {
    let upstream = case.upstream().await;
    let setup = || case.api(&upstream).set("LEASE", "1s").set("DATABASE_ACQUIRE_TIMEOUT", "20s").set("SCHEDULER", "off");
    let short_lived = setup().set("KEY_RETENTION", "2s").start().await;
    let service = setup().set("LEASE", "30s").set("BOOKING_TIMEOUT", "20s").start().await;
    let (key, body) = (case.key(), case.body());
    let former = short_lived.post(&key, &body).await;
    former.expect_created();
    eventually("the key expires", async || service.key_state(&key).await.is_none().then_some(())).await;
    case.ledger.new_life(&key);
    let slow = "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN OLD; END'; \
         CREATE TRIGGER wait BEFORE DELETE ON idempotency_key FOR EACH ROW EXECUTE FUNCTION wait()";
    case.database.execute(slow).await;
    let gate = case.database.locked("SELECT pg_advisory_xact_lock(4711)").await;
    let sweep = case.jobs(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "20s").arguments(["--once", "--job", "cleanup"]).spawn();
    let waiting = |n: i64| {
        let sql = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        async move { eventually("the deletion waits", async || (case.database.number(sql).await == n).then_some(())).await }
    };
    waiting(1).await;
    let other = changed(&body, json!({"quantity": 2}));
    let anew = service.post(&key, &other).in_flight();
    waiting(2).await;
    gate.release().await;
    let anew = anew.await.unwrap();
    assert_eq!(anew.expect_created()["quantity"], 2);
    assert_ne!(anew.id(), former.id());
    assert_eq!(sweep.ends().await, Some(0), "{}", sweep.log());
    service.post(&key, &other).await.expect_replay_of(&anew);
}

/// B45: a success and a refusal expire, and become a refusal and a success.
async fn nothing_of_the_former_life_is_left(case: &Case) {
    let upstream = case.upstream().await;
    let setup = || case.api(&upstream).set("LEASE", "1s").set("BOOKING_TIMEOUT", "20s").set("ANSWER_WITHIN", "20s").set("SCHEDULER", "off");
    let short_lived = setup().set("KEY_RETENTION", "21s").start().await;
    let (booked, refused) = ((case.key(), case.body()), (case.key(), case.body()));
    upstream.on_post(&refused.1, [vec![Status(409)]]);
    let former = [short_lived.post(&booked.0, &booked.1).await, short_lived.post(&refused.0, &refused.1).await];
    former[0].expect_created();
    former[1].expect_problem(422, "booking-rejected");
    // What takes 21 seconds is not waited for.
    case.database.execute("UPDATE idempotency_key SET expires_at_ms = 1").await;
    let service = setup().start().await;
    let bodies = [changed(&booked.1, json!({"quantity": 7})), changed(&refused.1, json!({"quantity": 8}))];
    upstream.on_post(&bodies[0], [vec![Gate("answer now"), Status(409)]]);
    upstream.on_post(&bodies[1], [vec![Gate("answer now"), Answer]]);
    let mut anew = Vec::new();
    for ((key, _), body) in [&booked, &refused].into_iter().zip(&bodies) {
        case.ledger.new_life(key);
        anew.push(service.post(key, body).in_flight());
        let record = eventually("the key is claimed anew", async || service.key_record(key).await).await;
        assert_eq!((&record["state"], &record["attempt"]), (&json!("in_progress"), &json!(1)), "{record}");
        assert!(record["completed_at"].is_null() && record["expires_at"].is_null(), "{record}");
        service.post(key, body).await.expect_problem(409, "key-in-progress");
    }
    upstream.open_gate("answer now");
    let anew = [anew.remove(0).await.unwrap(), anew.remove(0).await.unwrap()];
    anew[0].expect_problem(422, "booking-rejected");
    assert_eq!(anew[1].expect_created()["quantity"], 8);
    for ((key, _), (body, reply)) in [&booked, &refused].into_iter().zip(bodies.iter().zip(&anew)) {
        service.post(key, body).await.expect_replay_of(reply);
    }
    assert_eq!((anew[0].header("location"), anew[0].header("etag")), (former[1].header("location"), former[1].header("etag")));
    assert!(anew[1].header("location").unwrap().ends_with(&anew[1].id()));
    // Of the former lives only the reservation is left, which is permanent.
    let of_former = format!("SELECT count(*) AS n FROM idempotency_key WHERE reference = '{}'", former[0].id());
    assert_eq!(case.database.number(&of_former).await, 0);
    assert_eq!(service.reservation(&former[0].id()).await.json(), former[0].json());
}
