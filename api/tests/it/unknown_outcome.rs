//! The booking system's answer does not come, or says nothing: in all four modes of what it can be asked afterwards.

use super::support::prelude::*;

tests!(both [
    where_it_deduplicates_and_looks_up,
    where_it_only_looks_up,
    where_it_only_deduplicates,
    where_it_does_neither,
    a_late_booking_is_found_by_a_second_look,
    absent_is_believed_only_after_absent_after_where_it_does_not_deduplicate,
    redirects_are_not_followed_and_proxies_not_used,
    an_endless_answer_costs_no_memory,
    what_does_not_take_a_connection_frees_the_key,
]);

/// B32, B55, B57: everything that leaves the outcome open although the booking was made.
fn faults() -> Vec<Step> {
    vec![
        Silence,
        Status(500),
        Status(503),
        Status(504),
        Status(408),
        Status(418),
        Half,
        Garbage,
        Nameless,
        Close,
        Reset,
        Drip,
        Endless,
        Page(200),
        Page(502),
        Redirect(302, "/bookings".into()),
        Redirect(307, "/bookings".into()),
    ]
}

/// All faults at once, each under a key of its own; the keys and bodies.
fn staged(case: &Case, upstream: &Upstream) -> Vec<(Step, String, Value)> {
    let staged: Vec<_> = faults().into_iter().map(|fault| (fault, case.key(), case.body())).collect();
    for (fault, _, body) in &staged {
        upstream.on_post(body, [vec![Book, fault.clone()], vec![Answer]]);
    }
    staged
}

async fn server(case: &Case, upstream: &Upstream) -> Service {
    case.api(upstream).set("LEASE", "2s").set("ABSENT_AFTER", "1s").start().await
}

/// Every key ends in the 201 of the one booking there is, whoever finds it.
async fn all_end_true(case: &Case, upstream: &Upstream, service: &Service, staged: &[(Step, String, Value)]) {
    let replies = together(staged.iter().map(|(_, key, body)| Box::pin(service.settle(key, body)))).await;
    for ((fault, _, body), reply) in staged.iter().zip(&replies) {
        let bookings = upstream.bookings_of(body);
        assert_eq!(bookings.len(), 1, "{fault:?}");
        assert_eq!(
            (reply.status, reply.id(), &reply.json()["booking_id"]),
            (201, bookings[0].reference.clone(), &json!(bookings[0].booking_id)),
            "{fault:?}"
        );
        let keys: Vec<_> = upstream.posts(body).iter().map(|p| p.head.header("idempotency-key").map(str::to_owned)).collect();
        assert!(keys.iter().all(|key| key.as_deref() == Some(&format!("\"{}\"", reply.id()))), "{fault:?}: {keys:?}");
    }
    case.expect_no_orphans(upstream, service).await;
}

async fn where_it_deduplicates_and_looks_up(case: &Case) {
    let upstream = case.upstream().await;
    let service = server(case, &upstream).await;
    all_end_true(case, &upstream, &service, &staged(case, &upstream)).await;
}

async fn where_it_only_looks_up(case: &Case) {
    let upstream = case.upstream_that(false, true).await;
    let service = server(case, &upstream).await;
    let staged = staged(case, &upstream);
    all_end_true(case, &upstream, &service, &staged).await;
    for (fault, _, body) in &staged {
        assert_eq!(upstream.posts(body).len(), 1, "{fault:?} was sent twice to a system that does not deduplicate");
    }
}

async fn where_it_only_deduplicates(case: &Case) {
    let upstream = case.upstream_that(true, false).await;
    let service = server(case, &upstream).await;
    all_end_true(case, &upstream, &service, &staged(case, &upstream)).await;
    assert!(upstream.requests("GET").is_empty(), "look-ups were sent to a system that has none");
}

async fn where_it_does_neither(case: &Case) {
    let upstream = case.upstream_that(false, false).await;
    let service = server(case, &upstream).await;
    let staged = staged(case, &upstream);
    let replies = together(staged.iter().map(|(_, key, body)| service.post(key, body))).await;
    for ((fault, ..), reply) in staged.iter().zip(&replies) {
        assert_eq!((reply.status, reply.code().as_deref()), (503, Some("outcome-pending")), "{fault:?}: {reply:?}");
    }
    for (fault, key, body) in &staged {
        eventually("the outcome is unknown", async || (service.key_state(key).await? == "outcome_unknown").then_some(())).await;
        service.post(key, body).await.expect_problem(409, "outcome-unknown");
        assert_eq!(upstream.posts(body).len(), 1, "{fault:?}");
    }
    assert!(upstream.requests("GET").is_empty());
}

/// No booking is orphaned: the key was released too early, and nobody ever asks for it again.
async fn a_late_booking_is_found_by_a_second_look(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "1s").set("ABSENT_AFTER", "6s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("take effect at last"), Book, Silence]]);
    let _lost = service.post(&key, &body).sent().await.unwrap();
    let reference = upstream.post_arrives(&body).await.body["reference"].as_str().unwrap().to_owned();
    service.kill_9();
    service.start_again().await;
    eventually("the key is released", async || (service.key_state(&key).await? == "released").then_some(())).await;
    // Not the last word yet, and treated so.
    service.delete(&reference).await.expect_problem(409, "reservation-busy");
    upstream.open_gate("take effect at last");
    upstream.is_booked(&body).await;
    case.expect_no_orphans(&upstream, &service).await;
    let reply = service.post(&key, &body).await;
    assert_eq!((reply.status, reply.is_replay(), reply.id()), (201, true, reference), "{reply:?}");
    assert_eq!(upstream.posts(&body).len(), 1);
}

async fn absent_is_believed_only_after_absent_after_where_it_does_not_deduplicate(case: &Case) {
    let upstream = case.upstream_that(false, true).await;
    let service = case.api(&upstream).set("LEASE", "1s").set("ANSWER_WITHIN", "1s").set("ABSENT_AFTER", "5s").start().await;
    let (late, never) = ((case.key(), case.body()), (case.key(), case.body()));
    // One takes effect after everybody has given up on it, the other never does.
    upstream.on_post(&late.1, [vec![After(3000), Book, Silence], vec![Answer]]);
    upstream.on_post(&never.1, [vec![Silence], vec![Answer]]);
    for reply in together([service.post(&late.0, &late.1), service.post(&never.0, &never.1)]).await {
        reply.expect_problem(503, "outcome-pending");
    }
    eventually("the outcome is unknown", async || (service.key_state(&never.0).await? == "outcome_unknown").then_some(())).await;
    service.post(&never.0, &never.1).await.expect_problem(409, "outcome-unknown");
    assert_eq!(upstream.posts(&never.1).len(), 1);
    eventually("the late booking is found", async || (service.key_state(&late.0).await? == "completed").then_some(())).await;
    eventually("the absent one is released", async || (service.key_state(&never.0).await? == "released").then_some(())).await;
    assert_eq!((service.settle(&late.0, &late.1).await.status, service.settle(&never.0, &never.1).await.status), (201, 201));
    assert_eq!((upstream.posts(&late.1).len(), upstream.posts(&never.1).len()), (1, 2));
}

/// B55, B58
async fn redirects_are_not_followed_and_proxies_not_used(case: &Case) {
    let (upstream, elsewhere) = (case.upstream().await, Upstream::start(true, true).await);
    let mut setup = case.api(&upstream);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        setup = setup.set(name, elsewhere.url());
    }
    let service = setup.start().await;
    service.post(&case.key(), &case.body()).await.expect_created();
    for status in [301, 302, 303, 307, 308] {
        let (key, body) = (case.key(), case.body());
        upstream.on_post(&body, [vec![Redirect(status, format!("{}/bookings", elsewhere.url()))], vec![Answer]]);
        assert_eq!(service.settle(&key, &body).await.status, 201);
        assert_eq!(upstream.bookings_of(&body).len(), 1);
    }
    assert_eq!((elsewhere.connections(), elsewhere.everything()), (0, 0));
    // By its name, with exceptions that would let everything or nothing through, and with a broken address: the environment has no say.
    for (no_proxy, proxy) in
        [("*", elsewhere.url()), ("", elsewhere.url()), ("localhost", "http://127.0.0.1:1".into()), ("", "no address".into())]
    {
        let setup = case.api(&upstream).set("BOOKING_URL", upstream.url().replace("127.0.0.1", "localhost"));
        let setup = setup.set("NO_PROXY", no_proxy).set("no_proxy", no_proxy).set("HTTP_PROXY", &proxy).set("ALL_PROXY", proxy);
        setup.start().await.post(&case.key(), &case.body()).await.expect_created();
    }
    assert_eq!((elsewhere.connections(), elsewhere.everything()), (0, 0));
}

/// B57: a black hole: the system takes no more connections for this port, and says nothing.
async fn what_does_not_take_a_connection_frees_the_key(case: &Case) {
    let upstream = case.upstream().await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let hole = socket.listen(0).unwrap();
    let address = hole.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(taken) = tokio::time::timeout(std::time::Duration::from_millis(300), tokio::net::TcpStream::connect(address)).await {
        waiting.push(taken.unwrap());
        assert!(waiting.len() < 100, "the system takes everything");
    }
    let lost = case
        .api(&upstream)
        .set("BOOKING_URL", format!("http://{address}"))
        .set("BOOKING_TIMEOUT", "20s")
        .set("LEASE", "30s")
        .set("KEY_RETENTION", "1h");
    let lost = lost.start().await;
    let (key, body) = (case.key(), case.body());
    let reply = lost.post(&key, &body).await;
    reply.expect_problem(503, "booking-system-unavailable");
    assert!(reply.retry_after() >= 1);
    assert_eq!(lost.key_state(&key).await, None);
    case.api(&upstream).start().await.post(&key, &body).await.expect_created();
}

/// B57
async fn an_endless_answer_costs_no_memory(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("BOOKING_TIMEOUT", "5s").set("LEASE", "4s").start().await;
    let staged: Vec<_> = (0..16).map(|_| (Endless, case.key(), case.body())).collect();
    for (_, _, body) in &staged {
        upstream.on_post(body, [vec![Book, Endless], vec![Answer]]);
    }
    all_end_true(case, &upstream, &service, &staged).await;
    if let Some(peak) = service.peak_memory_kib() {
        assert!(peak < 400 * 1024, "{peak} KiB");
    }
}
