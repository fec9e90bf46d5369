//! SIGTERM: what is under way is finished if the grace allows, and left to its lease if not.

use super::jobs::{abandoned, are_completed};
use super::support::prelude::*;
use super::support::wire::Wire;

tests!(both [
    what_is_under_way_is_finished_within_the_grace,
    what_takes_longer_than_the_grace_is_left_to_its_lease,
    what_is_left_keeps_its_lease_until_it_lapses,
    a_sweep_under_way_takes_nothing_new_and_finishes_what_it_has,
] sqlite [
    idle_connections_hold_nothing_up,
    a_second_signal_ends_it_at_once,
]);

const IN_PROGRESS: &str = "SELECT count(*) AS n FROM idempotency_key WHERE state = 'in_progress'";

/// B42
async fn what_is_under_way_is_finished_within_the_grace(case: &Case) {
    let upstream = case.upstream().await;
    let setup = case.api(&upstream).set("SHUTDOWN_GRACE", "20s").set("BOOKING_TIMEOUT", "15s").set("LEASE", "20s");
    let service = setup.start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("go on"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    service.terminate();
    eventually("it takes no new work", async || match service.get("/health/ready").unwatched().attempt().await {
        Ok(reply) => (reply.status != 200).then_some(()),
        Err(_) => Some(()),
    })
    .await;
    eventually("it takes no new connection", async || Wire::connect(service.port()).await.err()).await;
    assert!(!first.is_finished() && !service.has_ended());
    upstream.open_gate("go on");
    let first = first.await.unwrap();
    first.expect_created();
    assert_eq!(service.ends().await, Some(0), "{}", service.log());
    assert_eq!(case.database.number(IN_PROGRESS).await, 0);
    service.start_again().await;
    service.post(&key, &body).await.expect_replay_of(&first);
}

/// B42
async fn what_takes_longer_than_the_grace_is_left_to_its_lease(case: &Case) {
    let upstream = case.upstream().await;
    let setup = case.api(&upstream).set("SHUTDOWN_GRACE", "1s").set("BOOKING_TIMEOUT", "15s").set("LEASE", "3s");
    let service = setup.start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Silence], vec![Answer]]);
    let first = service.post(&key, &body).unwatched().in_flight();
    let booking = upstream.is_booked(&body).await;
    service.terminate();
    let _ = service.ends().await;
    // Its caller may hear anything but a final answer.
    assert!(!first.await.is_ok_and(|reply| reply.is_final()));
    service.start_again().await;
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, reply.id()), (201, booking.reference));
    assert_eq!(upstream.bookings_of(&body).len(), 1);
}

/// B42
async fn idle_connections_hold_nothing_up(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("SHUTDOWN_GRACE", "25s").start().await;
    let mut silent = Vec::new();
    for head in ["", "GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "POST /reservations HTT"] {
        let mut wire = Wire::connect(service.port()).await.unwrap();
        wire.write(head.as_bytes()).await.unwrap();
        silent.push(wire);
    }
    pass(300).await;
    let asked = std::time::Instant::now();
    service.terminate();
    assert_eq!(service.ends().await, Some(0), "{}", service.log());
    assert!(asked.elapsed().as_secs() < 20, "connections without a request used up the grace: {:?}", asked.elapsed());
}

/// B42: the booking system may have acted, so the key is not set free, and not given to anybody before its time.
async fn what_is_left_keeps_its_lease_until_it_lapses(case: &Case) {
    let upstream = case.upstream().await;
    let setup =
        case.api(&upstream).set("SHUTDOWN_GRACE", "500ms").set("BOOKING_TIMEOUT", "15s").set("LEASE", "30s").set("SCHEDULER", "off");
    let service = setup.start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Silence], vec![Answer]]);
    let _first = service.post(&key, &body).unwatched().in_flight();
    upstream.is_booked(&body).await;
    service.terminate();
    assert_eq!(service.ends().await, Some(0), "{}", service.log());
    assert_eq!(case.database.number(IN_PROGRESS).await, 1);
    service.start_again().await;
    let record = service.key_record(&key).await.unwrap();
    assert_eq!((&record["state"], &record["attempt"]), (&json!("in_progress"), &json!(1)));
    assert!(record["lease_remaining_ms"].as_i64().unwrap() > 0, "its lease was taken from it: {record}");
    service.post(&key, &body).await.expect_problem(409, "key-in-progress");
    assert_eq!(upstream.everything(), 1, "somebody asked before the lease was over");
}

/// B42
async fn a_second_signal_ends_it_at_once(case: &Case) {
    let upstream = case.upstream().await;
    // Only the second signal can end it while anybody waits.
    let setup =
        case.api(&upstream).set("SHUTDOWN_GRACE", "1h").set("BOOKING_TIMEOUT", "15m").set("ANSWER_WITHIN", "15m").set("LEASE", "2s");
    let service = setup.start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Gate("never")], vec![Answer]]);
    let first = service.post(&key, &body).unwatched();
    let first = tokio::spawn(async move { first.attempt().await.is_ok_and(|reply| reply.is_final()) });
    upstream.is_booked(&body).await;
    service.terminate();
    eventually("it takes no new connection", async || Wire::connect(service.port()).await.err()).await;
    assert!(!service.has_ended());
    service.terminate();
    assert_eq!(service.ends().await, Some(0), "{}", service.log());
    assert!(!first.await.unwrap());
    service.start_again().await;
    assert_eq!(service.settle(&key, &body).await.status, 201);
    assert_eq!(upstream.bookings_of(&body).len(), 1);
}

/// B42: SIGTERM in the middle of a sweep with more to do.
async fn a_sweep_under_way_takes_nothing_new_and_finishes_what_it_has(case: &Case) {
    let upstream = case.upstream().await;
    let keys = abandoned(case, &upstream, 12).await;
    upstream.on_lookup([vec![Gate("answer now"), Answer]]);
    let setup = || case.jobs(&upstream).set("RECOVERY_CALLS", "4").set("BOOKING_TIMEOUT", "20s").set("ANSWER_WITHIN", "20s");
    let jobs = setup().set("SHUTDOWN_GRACE", "25s").set("LEASE", "30s").spawn();
    eventually("it is in the middle of its run", async || (upstream.requests("GET").len() == 4).then_some(())).await;
    jobs.terminate();
    pass(500).await;
    assert!(!jobs.has_ended(), "it leaves what it has begun: {}", jobs.log());
    upstream.open_gate("answer now");
    assert_eq!(jobs.ends().await, Some(0), "{}", jobs.log());
    assert_eq!(upstream.requests("GET").len(), 4, "it went on to the next ones");
    assert_eq!(case.database.number("SELECT count(*) AS n FROM idempotency_key WHERE state = 'completed'").await, 4);
    let service = case.api(&upstream).start().await;
    are_completed(&service, &keys).await;
}
