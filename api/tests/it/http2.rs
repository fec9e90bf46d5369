//! HTTP/2 without TLS and HTTP/1.1 on one port: the same service, the same answers.

use super::support::http2::Http2;
use super::support::ledger::problem_fault;
use super::support::prelude::*;

tests!(both [
    both_versions_give_the_same_answers,
    many_streams_under_one_key_book_once,
    a_reset_stream_stops_no_work,
] sqlite [
    refusals_harm_no_other_stream,
    a_connection_serves_on_after_an_error,
]);

async fn both_versions_give_the_same_answers(case: &Case) {
    let (_upstream, service) = case.started().await;
    let http2 = Http2::connect(&service).await;
    let (key, body) = (case.key(), case.body());
    let first = http2.post(&key, &body).await.reply().await;
    first.expect_created();
    service.post(&key, &body).await.expect_replay_of(&first);
    http2.post(&key, &body).await.reply().await.expect_replay_of(&first);
    let other = http2.post(&key, &changed(&body, json!({"quantity": 7}))).await.reply().await;
    other.expect_problem(422, "key-reused");
    assert_eq!((problem_fault(&other), other.json()["mismatch"].clone()), (None, json!(["/quantity"])));
    let read = http2.get(first.header("location").unwrap()).await.reply().await;
    read.expect_same_reservation(&first);
}

/// B25
async fn many_streams_under_one_key_book_once(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "30s").set("BOOKING_TIMEOUT", "20s").set("ANSWER_WITHIN", "60s").start().await;
    let http2 = Http2::connect(&service).await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("go on"), Answer]]);
    let streams = together((0..50).map(|_| Box::pin(http2.post(&key, &body)))).await;
    let (first, rest): (Vec<_>, Vec<_>) = {
        let replies = streams.into_iter().map(|stream| tokio::spawn(stream.reply())).collect::<Vec<_>>();
        upstream.post_arrives(&body).await;
        eventually("all but one are refused", async || (replies.iter().filter(|r| r.is_finished()).count() == 49).then_some(())).await;
        upstream.open_gate("go on");
        together(replies).await.into_iter().map(Result::unwrap).partition(|r| r.status == 201)
    };
    assert_eq!((first.len(), rest.len()), (1, 49));
    first[0].expect_created();
    for reply in rest {
        reply.expect_problem(409, "key-in-progress");
    }
    assert_eq!(upstream.posts(&body).len(), 1);
}

/// B27
async fn a_reset_stream_stops_no_work(case: &Case) {
    let upstream = case.upstream().await;
    // A lease that outlasts the test: the end must come from the first attempt, not from a recovery.
    let service = case.api(&upstream).set("LEASE", "60s").set("BOOKING_TIMEOUT", "20s").start().await;
    let http2 = Http2::connect(&service).await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("after the reset"), Answer]]);
    let stream = http2.post(&key, &body).await;
    upstream.post_arrives(&body).await;
    stream.reset();
    // The connection goes on, and shows that the reset has arrived.
    assert_eq!(http2.get("/health/live").await.reply().await.status, 200);
    upstream.open_gate("after the reset");
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, reply.is_replay()), (201, true), "{reply:?}");
    assert_eq!(service.key_record(&key).await.unwrap()["attempt"], 1);
    assert_eq!(upstream.posts(&body).len(), 1);
}

async fn refusals_harm_no_other_stream(case: &Case) {
    let (_upstream, service) = case.started().await;
    let http2 = Http2::connect(&service).await;
    let (key, body) = (case.key(), case.body());
    let large = changed(&body, json!({"note": "x".repeat(200_000)}));
    let (refused, booked, nowhere) = tokio::join!(
        async { http2.post(&case.key(), &large).await.reply().await },
        async { http2.post(&key, &body).await.reply().await },
        async { http2.get("/nowhere").await.reply().await },
    );
    refused.expect_problem(413, "body-too-large");
    booked.expect_created();
    nowhere.expect_problem(404, "not-found");
    assert_eq!((problem_fault(&refused), problem_fault(&nowhere)), (None, None));
}

/// Keep-alive: an error that was answered leaves the connection in order.
async fn a_connection_serves_on_after_an_error(case: &Case) {
    let (_upstream, service) = case.started().await;
    let mut wire = super::support::wire::Wire::connect(service.port()).await.unwrap();
    for request in [
        service.get("/nowhere"),
        service.request("POST", "/reservations").body("{}"),
        service.request("PUT", "/reservations").body("{}"),
        service.request("POST", "/reservations").key("k").body("{\"item_code\": "),
        service.get("/health/live"),
        service.post(&case.key(), &case.body()),
    ] {
        wire.write(&request.header("Connection", "keep-alive").encoded()).await.unwrap();
        let reply = Reply::new(wire.read(super::support::wire::Unframed::Empty).await.expect("an answer on the same connection"));
        assert!(matches!(reply.status, 200 | 201 | 400 | 404 | 405), "{reply:?}");
    }
}
