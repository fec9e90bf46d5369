//! `Prefer`: how long a caller wants to wait.

use super::support::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

tests!(both [
    wait_on_a_duplicate_gets_the_stored_answer,
    wait_gives_up_after_its_time_and_no_later_than_the_limit,
    respond_async_answers_at_once_and_the_key_knows_the_end,
    respond_async_is_202_however_fast_the_booking_is,
    preferences_combine_and_say_what_was_applied,
    a_server_that_waits_by_default_can_be_told_not_to,
    wait_on_a_first_request_answers_202_if_it_takes_longer,
    a_change_that_is_not_waited_for_shows_what_stands,
    a_waiter_goes_on_when_the_key_is_freed,
    a_waiter_takes_over_when_the_lease_lapses,
]);

async fn patient(case: &Case, upstream: &Upstream) -> Service {
    case.api(upstream).set("LEASE", "20s").set("BOOKING_TIMEOUT", "15s").set("WAIT_LIMIT", "2s").start().await
}

async fn wait_on_a_duplicate_gets_the_stored_answer(case: &Case) {
    let upstream = case.upstream().await;
    let service = patient(case, &upstream).await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("go on"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    let waiting = service.post(&key, &body).prefer("wait=2").in_flight();
    pass(300).await;
    assert!(!waiting.is_finished(), "{:?}", waiting.await);
    upstream.open_gate("go on");
    let (first, waited) = (first.await.unwrap(), waiting.await.unwrap());
    first.expect_created();
    waited.expect_replay_of(&first);
    assert_eq!(waited.header("preference-applied"), Some("wait=2"));
    assert_eq!(upstream.posts(&body).len(), 1);
}

async fn wait_gives_up_after_its_time_and_no_later_than_the_limit(case: &Case) {
    let upstream = case.upstream().await;
    let service = patient(case, &upstream).await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("go on"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    // Asked for longer than WAIT_LIMIT: it ends while the work goes on all the same.
    for (wait, least) in [("wait=1", 900), ("wait=600", 1900)] {
        let started = std::time::Instant::now();
        service.post(&key, &body).prefer(wait).await.expect_problem(409, "key-in-progress");
        assert!(started.elapsed() >= Duration::from_millis(least), "{wait}: {:?}", started.elapsed());
    }
    assert!(!first.is_finished());
    upstream.open_gate("go on");
    first.await.unwrap().expect_created();
}

async fn respond_async_answers_at_once_and_the_key_knows_the_end(case: &Case) {
    let upstream = case.upstream().await;
    let service = patient(case, &upstream).await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("go on"), Answer]]);
    let first = service.post(&key, &body).prefer("respond-async").await;
    let duplicate = service.post(&key, &body).prefer("respond-async").await;
    for reply in [&first, &duplicate] {
        assert_eq!(reply.status, 202, "{reply:?}");
        assert_eq!(reply.header("preference-applied"), Some("respond-async"));
        assert_eq!((&reply.json()["status"], &reply.json()["booking_id"]), (&json!("pending"), &Value::Null));
        assert!(reply.header("location").unwrap().ends_with(&format!("/reservations/{}", first.id())));
    }
    // Who began it may come back soon; a herd does not come back at once.
    assert_eq!(first.retry_after(), 1);
    let herd = together((0..40).map(|_| service.post(&key, &body).prefer("respond-async"))).await;
    let waits: BTreeSet<_> = herd.iter().map(Reply::retry_after).collect();
    assert!(waits.len() > 1 && waits.iter().all(|wait| (1..=5).contains(wait)), "they all come back at once: {waits:?}");
    assert_eq!(service.get(first.header("location").unwrap()).await.json()["status"], "pending");
    let busy = service.delete(&first.id()).await;
    busy.expect_problem(409, "reservation-busy");
    upstream.open_gate("go on");
    eventually("the reservation is confirmed", async || {
        (service.reservation(&first.id()).await.json()["status"] == "confirmed").then_some(())
    })
    .await;
    let end = service.post(&key, &body).await;
    assert_eq!((end.status, end.is_replay(), end.id()), (201, true, first.id()));
    assert_eq!(upstream.posts(&body).len(), 1);
}

/// Who asked for it need not be ready for two kinds of answer. Many, since one booking may happen to be slow.
async fn respond_async_is_202_however_fast_the_booking_is(case: &Case) {
    let (upstream, service) = case.started().await;
    let requests: Vec<_> = (0..40).map(|_| (case.key(), case.body())).collect();
    for (key, body) in &requests {
        let reply = service.post(key, body).prefer("respond-async").await;
        assert_eq!(
            (reply.status, reply.header("preference-applied"), &reply.json()["status"]),
            (202, Some("respond-async"), &json!("pending")),
            "{reply:?}"
        );
    }
    for (key, body) in &requests {
        assert_eq!(service.settle(key, body).await.status, 201);
        assert_eq!(upstream.posts(body).len(), 1);
    }
}

async fn wait_on_a_first_request_answers_202_if_it_takes_longer(case: &Case) {
    let upstream = case.upstream().await;
    let service = patient(case, &upstream).await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("go on"), Answer]]);
    let first = service.post(&key, &body).prefer("wait=1").await;
    assert_eq!((first.status, first.header("preference-applied")), (202, Some("wait=1")), "{first:?}");
    upstream.open_gate("go on");
    assert_eq!(service.settle(&key, &body).await.id(), first.id());
    // One that is done in time is an ordinary answer.
    service.post(&case.key(), &case.body()).prefer("wait=2").await.expect_created();
}

async fn a_change_that_is_not_waited_for_shows_what_stands(case: &Case) {
    let upstream = case.upstream().await;
    let service = patient(case, &upstream).await;
    let first = service.post(&case.key(), &case.body()).await;
    first.expect_created();
    upstream.on_change([vec![Gate("go on"), Answer]]);
    let key = case.key();
    let change = service.patch(&first.id(), &key, &first.etag(), &json!({"quantity": 6})).prefer("respond-async");
    let accepted = change.clone().await;
    assert_eq!((accepted.status, &accepted.json()["quantity"]), (202, &json!(1)), "{accepted:?}");
    let other = service.patch(&first.id(), &case.key(), &first.etag(), &json!({"quantity": 7})).await;
    other.expect_problem(409, "reservation-busy");
    upstream.open_gate("go on");
    eventually("the change is made", async || (service.reservation(&first.id()).await.json()["quantity"] == 6).then_some(())).await;
    let end = change.await;
    assert_eq!((end.status, end.is_replay(), &end.json()["quantity"]), (200, true, &json!(6)), "{end:?}");
}

async fn a_waiter_goes_on_when_the_key_is_freed(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("BOOKING_TIMEOUT", "5s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("go on"), Busy(429, "1")], vec![Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    let waiting = service.post(&key, &body).prefer("wait=10").in_flight();
    pass(300).await;
    upstream.open_gate("go on");
    first.await.unwrap().expect_problem(503, "booking-system-busy");
    waiting.await.unwrap().expect_created();
    assert_eq!(upstream.posts(&body).len(), 2);
}

async fn a_waiter_takes_over_when_the_lease_lapses(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("SCHEDULER", "off").set("LEASE", "2s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Silence], vec![Answer]]);
    let _lost = service.post(&key, &body).sent().await.unwrap();
    let booking = upstream.is_booked(&body).await;
    service.kill_9();
    service.start_again().await;
    let waited = service.post(&key, &body).prefer("wait=15").await;
    assert_eq!((waited.status, waited.id()), (201, booking.reference));
}

/// Sends a duplicate of a running request with each of these preferences; the status, and what was applied.
async fn duplicates(case: &Case, service: &Service, upstream: &Upstream, table: &[(&[&str], u16, Option<&str>)]) {
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("go on"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    for (preferences, status, applied) in table {
        let request = preferences.iter().fold(service.post(&key, &body), |request, preference| request.prefer(preference));
        let reply = request.await;
        assert_eq!((reply.status, reply.header("preference-applied")), (*status, *applied), "{preferences:?}: {reply:?}");
        assert!(reply.retry_after() >= 1 && reply.header("idempotent-replayed").is_none(), "{preferences:?}: {reply:?}");
        match status {
            202 => assert_eq!(reply.json()["status"], "pending"),
            _ => drop(reply.expect_problem(409, "key-in-progress")),
        }
    }
    upstream.open_gate("go on");
    let first = first.await.unwrap();
    first.expect_created();
    // What is there is neither waited for nor answered asynchronously.
    let replay = service.post(&key, &body).prefer("respond-async").await;
    replay.expect_replay_of(&first);
    assert_eq!(replay.header("preference-applied"), None);
    assert_eq!(upstream.posts(&body).len(), 1);
}

async fn preferences_combine_and_say_what_was_applied(case: &Case) {
    let upstream = case.upstream().await;
    let service = patient(case, &upstream).await;
    let table: &[(&[&str], u16, Option<&str>)] = &[
        (&["wait=0"], 409, Some("wait=0")),
        (&["wait=0, respond-async"], 202, Some("respond-async, wait=0")),
        (&["respond-async, wait=1"], 202, Some("respond-async, wait=1")),
        (&["wait=1", "respond-async"], 202, Some("respond-async, wait=1")),
        (&["respond-async, wait=600"], 202, Some("respond-async, wait=2")),
        (&["wait=x"], 409, None),
        (&["wait"], 409, None),
        (&["handling=lenient, return=minimal"], 409, None),
    ];
    duplicates(case, &service, &upstream, table).await;
    // The first request of a key, likewise.
    for (preference, applied) in [("wait=0", "wait=0"), ("respond-async, wait=0", "respond-async, wait=0")] {
        let body = case.body();
        upstream.on_post(&body, [vec![After(700), Answer]]);
        let reply = service.post(&case.key(), &body).prefer(preference).await;
        assert_eq!((reply.status, reply.header("preference-applied")), (202, Some(applied)), "{reply:?}");
    }
}

async fn a_server_that_waits_by_default_can_be_told_not_to(case: &Case) {
    let upstream = case.upstream().await;
    let setup = case.api(&upstream).set("LEASE", "20s").set("BOOKING_TIMEOUT", "15s").set("WAIT_LIMIT", "1s");
    let service = setup.set("ON_DUPLICATE", "wait").start().await;
    let table: &[(&[&str], u16, Option<&str>)] = &[
        (&[], 409, None),
        (&["wait=0"], 409, Some("wait=0")),
        (&["respond-async"], 202, Some("respond-async")),
        (&["respond-async, wait=1"], 202, Some("respond-async, wait=1")),
    ];
    duplicates(case, &service, &upstream, table).await;
}
