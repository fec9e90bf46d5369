//! `kill -9` at the three moments that matter, then recovery: by a retry, and by the job without any retry.

use super::support::prelude::*;

tests!(both [
    killed_before_the_call_a_retry_books_it,
    killed_before_the_call_the_job_releases_it,
    killed_before_the_call_the_job_books_it_where_told_so,
    killed_during_the_call_a_retry_finds_the_booking,
    killed_during_the_call_the_job_finds_the_booking,
    killed_before_the_finalize_a_retry_finds_the_booking,
    killed_before_the_finalize_the_job_finds_the_booking,
    paused_beyond_its_lease_a_worker_changes_nothing_any_more,
]);

/// What is left of a process that was killed.
struct Remains {
    service: Service,
    key: String,
    body: Value,
}

async fn server(case: &Case, upstream: &Upstream) -> Service {
    case.api(upstream)
        .set("LEASE", "1500ms")
        .set("BOOKING_TIMEOUT", "10s")
        .set("ANSWER_WITHIN", "20s")
        .set("SCHEDULER", "off")
        .start()
        .await
}

/// The claim is committed, the booking system has received nothing.
async fn killed_before_the_call(case: &Case, upstream: &Upstream) -> Remains {
    let service = server(case, upstream).await;
    let (key, body) = (case.key(), case.body());
    upstream.go_deaf();
    let _lost = service.post(&key, &body).sent().await.unwrap();
    eventually("the service calls", async || (upstream.connections() > 0).then_some(())).await;
    service.kill_9();
    upstream.hear_again();
    assert!(upstream.posts(&body).is_empty());
    Remains { service, key, body }
}

/// The booking exists, its answer was never received.
async fn killed_during_the_call(case: &Case, upstream: &Upstream) -> Remains {
    let service = server(case, upstream).await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Silence], vec![Answer]]);
    let _lost = service.post(&key, &body).sent().await.unwrap();
    upstream.is_booked(&body).await;
    service.kill_9();
    Remains { service, key, body }
}

/// The answer was received, nothing of it is written.
async fn killed_before_the_finalize(case: &Case, upstream: &Upstream) -> Remains {
    let service = server(case, upstream).await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("answer now"), Answer]]);
    let _lost = service.post(&key, &body).sent().await.unwrap();
    upstream.post_arrives(&body).await;
    let blocked = case.database.block_writes().await;
    upstream.open_gate("answer now");
    upstream.is_booked(&body).await;
    pass(300).await;
    service.kill_9();
    blocked.release().await;
    Remains { service, key, body }
}

/// B29: a caller comes again, nobody else does anything.
async fn a_retry_finishes(case: &Case, upstream: &Upstream, remains: Remains) {
    let Remains { service, key, body } = remains;
    service.start_again().await;
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, &reply.json()["status"]), (201, &json!("confirmed")));
    service.post(&key, &body).await.expect_replay_of(&reply);
    assert_eq!(upstream.bookings_of(&body).len(), 1);
    case.expect_no_orphans(upstream, &service).await;
}

/// B29: the job runs, no caller comes.
async fn the_job_runs(case: &Case, upstream: &Upstream) {
    pass(1700).await; // the lease
    let setup = case.jobs(upstream).set("LEASE", "1500ms").set("BOOKING_TIMEOUT", "1s").arguments(["--once", "--job", "release"]);
    setup.run().await.expect_success();
}

/// The job has found the booking: it is a reservation before anybody asks, and the answer is the one a caller would have had.
async fn the_job_has_finished(case: &Case, upstream: &Upstream, remains: Remains) {
    let Remains { service, key, body } = remains;
    let booking = upstream.bookings_of(&body).remove(0);
    service.start_again().await;
    let read = service.reservation(&booking.reference).await;
    assert_eq!((&read.json()["status"], &read.json()["booking_id"]), (&json!("confirmed"), &json!(booking.booking_id)));
    let reply = service.post(&key, &body).await;
    assert_eq!((reply.status, reply.is_replay(), reply.json(), reply.etag()), (201, true, read.json(), read.etag()), "{reply:?}");
    assert!(reply.header("location").unwrap().ends_with(&booking.reference));
    case.expect_no_orphans(upstream, &service).await;
}

async fn killed_before_the_call_a_retry_books_it(case: &Case) {
    let upstream = case.upstream().await;
    let remains = killed_before_the_call(case, &upstream).await;
    a_retry_finishes(case, &upstream, remains).await;
}

async fn killed_before_the_call_the_job_releases_it(case: &Case) {
    let upstream = case.upstream().await;
    let remains = killed_before_the_call(case, &upstream).await;
    the_job_runs(case, &upstream).await;
    remains.service.start_again().await;
    assert_eq!(remains.service.key_state(&remains.key).await.as_deref(), Some("released"));
    assert!(upstream.bookings().is_empty());
    let reply = remains.service.post(&remains.key, &remains.body).await;
    assert_eq!((reply.status, upstream.bookings_of(&remains.body).len()), (201, 1), "{reply:?}");
}

async fn killed_before_the_call_the_job_books_it_where_told_so(case: &Case) {
    let upstream = case.upstream().await;
    let remains = killed_before_the_call(case, &upstream).await;
    pass(1700).await;
    let setup = case.jobs(&upstream).set("LEASE", "1500ms").set("ON_ABSENT", "rebook").arguments(["--once", "--job", "release"]);
    setup.run().await.expect_success();
    the_job_has_finished(case, &upstream, remains).await;
}

async fn killed_during_the_call_a_retry_finds_the_booking(case: &Case) {
    let upstream = case.upstream().await;
    let remains = killed_during_the_call(case, &upstream).await;
    a_retry_finishes(case, &upstream, remains).await;
}

async fn killed_during_the_call_the_job_finds_the_booking(case: &Case) {
    let upstream = case.upstream().await;
    let remains = killed_during_the_call(case, &upstream).await;
    the_job_runs(case, &upstream).await;
    the_job_has_finished(case, &upstream, remains).await;
}

/// B34
async fn killed_before_the_finalize_a_retry_finds_the_booking(case: &Case) {
    let upstream = case.upstream().await;
    let remains = killed_before_the_finalize(case, &upstream).await;
    a_retry_finishes(case, &upstream, remains).await;
}

/// B34
async fn killed_before_the_finalize_the_job_finds_the_booking(case: &Case) {
    let upstream = case.upstream().await;
    let remains = killed_before_the_finalize(case, &upstream).await;
    the_job_runs(case, &upstream).await;
    the_job_has_finished(case, &upstream, remains).await;
}

/// The process stands still while another one takes its key over, and wakes up with an answer in hand.
async fn paused_beyond_its_lease_a_worker_changes_nothing_any_more(case: &Case) {
    let upstream = case.upstream().await;
    let setup = || case.api(&upstream).set("LEASE", "2s").set("BOOKING_TIMEOUT", "10s").set("ANSWER_WITHIN", "20s").set("SCHEDULER", "off");
    let (one, two) = (setup().start().await, setup().start().await);
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Gate("answer the sleeper"), Answer], vec![Answer]]);
    let sleeper = one.post(&key, &body).in_flight();
    upstream.is_booked(&body).await;
    one.pause();
    let taken_over = two.settle(&key, &body).await;
    upstream.open_gate("answer the sleeper");
    one.resume();
    let late = sleeper.await.unwrap();
    // Whatever it says, it may not say anything else than the record.
    assert!(!late.is_final() || late.stored_part() == taken_over.stored_part(), "{late:?}");
    one.post(&key, &body).await.expect_replay_of(&taken_over);
    assert_eq!(upstream.bookings_of(&body).len(), 1);
}
