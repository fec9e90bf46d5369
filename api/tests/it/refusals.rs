//! What the booking system's other answers become: stored refusals, or a key that is free again.

use super::support::prelude::*;

tests!(both [
    a_refusal_is_final_stored_and_replayed,
    a_refusal_that_answers_a_copy_is_no_refusal,
    a_refusal_is_stored_only_once_a_look_up_could_be_read,
    without_look_up_a_refusal_stands_for_itself,
    a_replay_has_the_headers_of_its_answer_and_its_own,
    what_surely_had_no_effect_frees_the_key,
    an_address_where_nobody_answers_frees_the_key,
    headers_of_the_booking_system_reach_nobody,
    after_an_unknown_send_a_refusal_proves_nothing_until_absent_after,
    the_rate_limit_spends_no_key,
]);

/// B21
async fn a_refusal_is_final_stored_and_replayed(case: &Case) {
    let (upstream, service) = case.started().await;
    for status in [400, 402, 409, 410, 422] {
        let (key, body) = (case.key(), case.body());
        upstream.on_post(&body, [vec![Status(status)], vec![Answer]]);
        let first = service.post(&key, &body).header("Accept-Language", "ja").await;
        first.expect_problem(422, "booking-rejected");
        assert!(
            !first.is_replay() && first.json()["title"].as_str().unwrap().is_ascii(),
            "a stored answer follows nobody's language: {first:?}"
        );
        service.post(&key, &body).await.expect_replay_of(&first);
        assert!(first.header("content-type").unwrap().starts_with("application/problem+json"));
        service.post(&key, &changed(&body, json!({"quantity": 2}))).await.expect_problem(422, "key-reused");
        assert_eq!(service.key_state(&key).await.as_deref(), Some("completed"));
        let rejected = service.get(first.json()["instance"].as_str().expect("the refusal names its reservation")).await;
        assert_eq!((rejected.status, &rejected.json()["status"]), (200, &json!("rejected")));
        service.delete(&rejected.id()).await.expect_no_content();
        assert_eq!(upstream.posts(&body).len(), 1);
    }
    assert!(upstream.bookings().is_empty());
    assert_eq!(upstream.requests("GET").len(), 5, "each refusal is checked once");
}

/// F03: a proxy sends our request twice; the first copy books, the second is refused, and that is what we see.
async fn a_refusal_that_answers_a_copy_is_no_refusal(case: &Case) {
    let (upstream, service) = case.started().await;
    for status in [400, 402, 409, 410, 422] {
        let (key, body) = (case.key(), case.body());
        upstream.on_post(&body, [vec![Book, Status(status)]]);
        let first = service.post(&key, &body).await;
        first.expect_created();
        assert_eq!(first.id(), upstream.bookings_of(&body)[0].reference);
        service.post(&key, &body).await.expect_replay_of(&first);
        assert_eq!(upstream.posts(&body).len(), 1, "{status}");
    }
}

/// F03
async fn a_refusal_is_stored_only_once_a_look_up_could_be_read(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("ANSWER_WITHIN", "2s").set("BOOKING_TIMEOUT", "1s").set("ABSENT_AFTER", "1s").start().await;
    // Read at the second try, while the caller waits.
    for books in [true, false] {
        let (key, body) = (case.key(), case.body());
        let script = if books { vec![Book, Status(409)] } else { vec![Status(409)] };
        upstream.on_post(&body, [script]);
        upstream.on_lookup([vec![Page(404)], vec![Status(500)], vec![Answer]]);
        let reply = service.post(&key, &body).await;
        assert_eq!(reply.status, if books { 201 } else { 422 }, "{reply:?}");
        service.post(&key, &body).await.expect_replay_of(&reply);
        assert_eq!(upstream.posts(&body).len(), 1);
    }
    // Not while the caller waits: nothing is stored until one is read.
    for books in [true, false] {
        let (key, body) = (case.key(), case.body());
        let script = if books { vec![Book, Status(409)] } else { vec![Status(409)] };
        upstream.on_post(&body, [script]);
        upstream.on_lookup([vec![Status(500)]]);
        service.post(&key, &body).await.expect_problem(503, "outcome-pending");
        assert_ne!(service.key_state(&key).await.as_deref(), Some("completed"));
        upstream.on_lookup([vec![Answer]]);
        let settled = service.settle(&key, &body).await;
        assert_eq!(settled.status, if books { 201 } else { 422 }, "{settled:?}");
    }
}

async fn without_look_up_a_refusal_stands_for_itself(case: &Case) {
    let upstream = case.upstream_that(true, false).await;
    let service = case.api(&upstream).start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Status(409)]]);
    let first = service.post(&key, &body).await;
    first.expect_problem(422, "booking-rejected");
    service.post(&key, &body).await.expect_replay_of(&first);
    assert!(upstream.requests("GET").is_empty());
}

/// B21: what is of the one exchange is made anew, what is of the answer is not, and nothing is added but the mark.
async fn a_replay_has_the_headers_of_its_answer_and_its_own(case: &Case) {
    let (upstream, service) = case.started().await;
    for refused in [false, true] {
        let (key, body) = (case.key(), case.body());
        if refused {
            upstream.on_post(&body, [vec![Status(409)]]);
        }
        let first = service.post(&key, &body).await;
        pass(1100).await;
        let again = service.post(&key, &body).await;
        again.expect_replay_of(&first);
        let all = |reply: &Reply| {
            let lines = reply.message.headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone()));
            lines.filter(|(name, _)| !["date", "idempotent-replayed"].contains(&name.as_str())).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(all(&again), all(&first));
        assert!(first.header("idempotent-replayed").is_none() && first.header("set-cookie").is_none());
        assert_ne!(again.header("date").expect("a date"), first.header("date").expect("a date"), "the date was stored");
    }
}

/// B15, B18
async fn what_surely_had_no_effect_frees_the_key(case: &Case) {
    let (upstream, service) = case.started().await;
    let script = [401, 403, 404, 405].map(|status| (Status(status), 502, "booking-system-misconfigured"));
    for (step, status, code) in script.into_iter().chain([(Busy(429, "7"), 503, "booking-system-busy")]) {
        let (key, body) = (case.key(), case.body());
        upstream.on_post(&body, [vec![step.clone()], vec![Answer]]);
        let reply = service.post(&key, &body).await;
        reply.expect_problem(status, code);
        assert!(status == 502 || reply.retry_after() == 7, "{reply:?}");
        assert_eq!(service.key_state(&key).await, None, "{step:?}");
        let reference = upstream.posts(&body)[0].body["reference"].as_str().unwrap().to_owned();
        service.reservation(&reference).await.expect_problem(404, "not-found");
        service.post(&key, &changed(&body, json!({"quantity": 2}))).await.expect_created();
    }
    // A gateway in between has no say in what was booked.
    let (key, body) = (case.key(), case.body());
    upstream.close();
    let closed = service.post(&key, &body).await;
    closed.expect_problem(503, "booking-system-unavailable");
    assert!(closed.retry_after() >= 1 && closed.header("idempotent-replayed").is_none(), "{closed:?}");
    assert_eq!(service.key_state(&key).await, None);
    upstream.open().await;
    service.post(&key, &body).await.expect_created();
}

/// B57: packets that are dropped, not refused. A listener whose queue is full does that.
async fn an_address_where_nobody_answers_frees_the_key(case: &Case) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let hole = socket.listen(1).unwrap();
    let address = hole.local_addr().unwrap();
    let fill =
        (0..8).map(|_| Box::pin(tokio::time::timeout(std::time::Duration::from_millis(500), tokio::net::TcpStream::connect(address))));
    let queue = together(fill).await;
    assert!(queue.iter().any(Result::is_err), "the queue is not full");
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("BOOKING_URL", format!("http://{address}")).start().await;
    let (key, body) = (case.key(), case.body());
    service.post(&key, &body).await.expect_problem(503, "booking-system-unavailable");
    assert_eq!(service.key_state(&key).await, None);
}

/// B18
async fn the_rate_limit_spends_no_key(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("RATE_LIMIT", "2/s").start().await;
    let bodies: Vec<_> = (0..12).map(|_| (case.key(), case.body())).collect();
    let replies = together(bodies.iter().map(|(key, body)| service.post(key, body))).await;
    let limited: Vec<_> = replies.iter().zip(&bodies).filter(|(reply, _)| reply.status == 429).collect();
    assert!(!limited.is_empty(), "{replies:?}");
    for (reply, (key, body)) in &limited {
        reply.expect_problem(429, "too-many-requests");
        assert!(upstream.posts(body).is_empty(), "{key}");
    }
    // Replays are never counted: nobody is kept from an answer that is there.
    let known = replies.iter().zip(&bodies).find(|(reply, _)| reply.status == 201).expect("one was let in");
    for _ in 0..10 {
        service.post(&known.1.0, &known.1.1).await.expect_replay_of(known.0);
    }
    let (_, (key, body)) = limited[0];
    eventually("the limited request is let in", async || {
        let reply = service.post(key, body).await;
        (reply.status != 429).then(|| reply.expect_created())
    })
    .await;
    assert_eq!(upstream.posts(body).len(), 1);
}

async fn headers_of_the_booking_system_reach_nobody(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Chatty]]);
    let first = service.post(&key, &body).await;
    first.expect_created();
    let again = service.post(&key, &body).await;
    again.expect_replay_of(&first);
    for reply in [first, again] {
        assert!(reply.header("set-cookie").is_none() && reply.header("x-internal").is_none(), "{:?}", reply.message.headers);
        let content_types = reply.message.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-type")).count();
        assert_eq!(content_types, 1);
    }
}

async fn after_an_unknown_send_a_refusal_proves_nothing_until_absent_after(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("ANSWER_WITHIN", "2s").set("ABSENT_AFTER", "20s").start().await;
    let (key, body) = (case.key(), case.body());
    // The first send takes effect only after the caller has given up on it; a re-send is refused meanwhile.
    upstream.on_post(&body, [vec![After(3000), Book, Answer], vec![Status(409)]]);
    service.post(&key, &body).await.expect_problem(503, "outcome-pending");
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, reply.id()), (201, upstream.bookings_of(&body)[0].reference.clone()));
}
