//! What the booking system offers ends somewhere: it forgets keys, a gateway answers for it, a send arrives late.

use super::support::prelude::*;

tests!(both [
    a_key_that_is_forgotten_there_is_not_sent_again,
    a_gateways_404_to_a_look_up_is_not_believed,
    a_late_change_cannot_undo_the_next_one,
]);

/// `BOOKING_KEY_RETENTION`: what deduplicated for a while does so no longer.
async fn a_key_that_is_forgotten_there_is_not_sent_again(case: &Case) {
    let upstream = case.upstream_that(true, false).await;
    // Remembered for 6 s, less BOOKING_TIMEOUT and ABSENT_AFTER.
    let service = case.api(&upstream).set("BOOKING_KEY_RETENTION", "6s").set("LEASE", "1s").set("ANSWER_WITHIN", "1s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Silence]]);
    service.post(&key, &body).await.expect_problem(503, "outcome-pending");
    let shown = eventually("only a person can tell any more", async || {
        let list = case.jobs(&upstream).arguments(["keys", "list", "--state", "outcome_unknown"]).run().await;
        let reference = upstream.bookings()[0].reference.clone();
        if !list.output.contains(&reference) {
            return None;
        }
        let shown = case.jobs(&upstream).arguments(["keys", "show", &reference]).run().await;
        shown.output.lines().any(|line| line.starts_with("next look") && line.ends_with('-')).then_some(shown)
    })
    .await;
    shown.expect_success();
    let sent = upstream.posts(&body).len();
    upstream.on_post(&body, [vec![Answer]]);
    // Several runs of the job, and callers who ask.
    for _ in 0..3 {
        pass(1000).await;
        service.post(&key, &body).await.expect_problem(409, "outcome-unknown");
    }
    assert_eq!(upstream.posts(&body).len(), sent, "it was sent to a system that may have forgotten it");
    assert_eq!(upstream.bookings_of(&body).len(), 1);
}

async fn a_gateways_404_to_a_look_up_is_not_believed(case: &Case) {
    let upstream = case.upstream_that(false, true).await;
    let service = case.api(&upstream).set("LEASE", "1s").set("ANSWER_WITHIN", "1s").set("ABSENT_AFTER", "100ms").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Status(504)]]);
    upstream.on_lookup([vec![Page(404)]]);
    service.post(&key, &body).await.expect_problem(503, "outcome-pending");
    // Long after a real "not there" would have been believed.
    eventually("it is asked again and again", async || (upstream.requests("GET").len() >= 4).then_some(())).await;
    eventually("nobody can tell", async || (service.key_state(&key).await? == "outcome_unknown").then_some(())).await;
    assert_eq!(upstream.posts(&body).len(), 1);
    upstream.on_lookup([vec![Answer]]);
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, upstream.posts(&body).len()), (201, 1), "{reply:?}");
    case.expect_no_orphans(&upstream, &service).await;
}

/// Where nothing there would recognise a late send, the next change waits until none can arrive any more.
async fn a_late_change_cannot_undo_the_next_one(case: &Case) {
    let upstream = case.upstream_that(false, true).await;
    let service = case.api(&upstream).set("ABSENT_AFTER", "4s").set("LEASE", "20s").set("ANSWER_WITHIN", "15s").start().await;
    let first = service.post(&case.key(), &case.body()).await;
    first.expect_created();
    // The first send is on its way for longer than anybody waits for its answer.
    upstream.on_change([vec![After(2500), Answer], vec![Answer]]);
    let two = service.patch(&first.id(), &case.key(), &first.etag(), &json!({"quantity": 2})).await;
    assert_eq!((two.status, upstream.requests("PATCH").len()), (200, 2), "{two:?}");
    let (key, change) = (case.key(), json!({"quantity": 3}));
    let busy = service.patch(&first.id(), &key, &two.etag(), &change).await;
    busy.expect_problem(409, "reservation-busy");
    assert!((1..=5).contains(&busy.retry_after()), "{busy:?}");
    service.delete(&first.id()).await.expect_problem(409, "reservation-busy");
    let three = service.patch(&first.id(), &key, &two.etag(), &change).until_final().await;
    assert_eq!((three.status, &three.json()["quantity"]), (200, &json!(3)), "{three:?}");
    // The late send has arrived by then, and undoes nothing.
    pass(500).await;
    assert_eq!((&upstream.bookings()[0].details["quantity"], upstream.requests("PATCH").len()), (&json!(3), 3));
}
