//! SIGTERM: what is under way is finished if the grace allows, and left to its lease if not.

use super::support::prelude::*;
use super::support::wire::Wire;

tests!(both [
    what_is_under_way_is_finished_within_the_grace,
    what_takes_longer_than_the_grace_is_left_to_its_lease,
] sqlite [idle_connections_hold_nothing_up]);

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
    assert!(!first.is_finished() && !service.has_ended());
    upstream.open_gate("go on");
    let first = first.await.unwrap();
    first.expect_created();
    assert_eq!(service.ends().await, Some(0), "{}", service.log());
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
