//! The same contract over HTTP/2 without TLS, and over HTTP/1.1 connections that are kept alive.

use super::support::h2::{H2, keyed};
use super::support::ledger::problem_fault;
use super::support::prelude::*;
use super::support::wire::{Unframed, Wire};
use hyper::body::Bytes;

tests!(both [
    one_key_is_one_key_over_both_protocols,
    a_reset_stream_and_a_cut_connection_do_not_stop_the_work,
    many_streams_of_one_connection_book_once,
    an_error_ends_its_stream_and_nothing_else,
    an_error_leaves_a_kept_connection_usable,
    who_asks_before_sending_gets_leave_or_the_refusal,
    a_sub_path_is_the_same_over_http_2,
]);

async fn one_key_is_one_key_over_both_protocols(case: &Case) {
    let (upstream, service) = case.started().await;
    let h2 = H2::connect(&service).await;
    let (key, body) = (case.key(), case.body());
    let first = h2.post(&key, &body).await;
    first.expect_created();
    h2.post(&key, &body).await.expect_replay_of(&first);
    service.post(&key, &body).await.expect_replay_of(&first);
    H2::connect(&service).await.post(&key, &body).await.expect_replay_of(&first);
    h2.post(&key, &changed(&body, json!({"quantity": 2}))).await.expect_problem(422, "key-reused");
    let other = (case.key(), case.body());
    let first = service.post(&other.0, &other.1).await;
    h2.post(&other.0, &other.1).await.expect_replay_of(&first);
    assert_eq!(upstream.bookings().len(), 2);
}

/// B27
async fn a_reset_stream_and_a_cut_connection_do_not_stop_the_work(case: &Case) {
    let upstream = case.upstream().await;
    // A lease that outlasts the test: the end must come from the first attempt, not from a recovery.
    let service = case.api(&upstream).set("LEASE", "60s").set("BOOKING_TIMEOUT", "20s").start().await;
    for (reset, gate) in [(true, "after the reset"), (false, "after the cut")] {
        let h2 = H2::connect(&service).await;
        let (key, body) = (case.key(), case.body());
        upstream.on_post(&body, [vec![Gate(gate), Answer]]);
        service.ledger().asked("", "POST /reservations", &key, body.to_string().as_bytes());
        let mut stream = h2.open("POST", "/reservations", &keyed(&format!("\"{key}\""))).await;
        stream.body.send_data(Bytes::from(body.to_string()), true).expect("the body is sent");
        upstream.post_arrives(&body).await;
        if reset {
            stream.reset().await;
            // The other streams of the connection do not notice.
            h2.post(&case.key(), &case.body()).await.expect_created();
        } else {
            h2.cut();
        }
        pass(200).await;
        upstream.open_gate(gate);
        let reply = service.settle(&key, &body).await;
        assert_eq!((reply.status, reply.is_replay()), (201, true), "{reply:?}");
        assert_eq!(service.key_record(&key).await.unwrap()["attempt"], 1);
        assert_eq!(upstream.posts(&body).len(), 1);
    }
}

async fn many_streams_of_one_connection_book_once(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "30s").set("BOOKING_TIMEOUT", "20s").start().await;
    let h2 = H2::connect(&service).await;
    let (key, body) = (case.key(), case.body());
    let replies = together((0..100).map(|_| Box::pin(h2.post(&key, &body)))).await;
    let fresh: Vec<_> = replies.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).collect();
    assert_eq!(fresh.len(), 1, "{replies:?}");
    for reply in replies.iter().filter(|reply| reply.status != 201) {
        reply.expect_problem(409, "key-in-progress");
    }
    assert!(replies.iter().filter(|reply| reply.status == 201).all(|reply| reply.stored_part() == fresh[0].stored_part()));
    assert_eq!(upstream.posts(&body).len(), 1);
}

/// B53
async fn an_error_ends_its_stream_and_nothing_else(case: &Case) {
    let (upstream, service) = case.started().await;
    let h2 = H2::connect(&service).await;
    let key = format!("\"{}\"", case.key());
    let large = " ".repeat(1_000_000);
    let json = keyed(&key);
    for (status, code, reply) in [
        (400, "key-missing", h2.send("POST", "/reservations", &json[..1], "{}").await),
        (400, "key-malformed", h2.send("POST", "/reservations", &keyed("\"open"), "{}").await),
        (400, "request-invalid", h2.send("POST", "/reservations", &json, "{").await),
        (413, "body-too-large", h2.send("POST", "/reservations", &json, &large).await),
        (415, "media-type-unsupported", h2.send("POST", "/reservations", &json[1..], "{}").await),
        (404, "not-found", h2.send("GET", "/nowhere", &[], "").await),
        (405, "method-not-allowed", h2.send("PUT", "/reservations", &json, "{}").await),
    ] {
        reply.expect_problem(status, code);
    }
    assert_eq!(upstream.everything(), 0);
    h2.post(&case.key(), &case.body()).await.expect_created();
    // Two lines are two keys over HTTP/2 as well.
    let twice = [json[0], json[1], ("idempotency-key", "\"other\"")];
    h2.send("POST", "/reservations", &twice, &case.body().to_string()).await.expect_problem(400, "key-malformed");
}

/// B53, B28: what was refused is read to its end, so the connection can go on.
async fn an_error_leaves_a_kept_connection_usable(case: &Case) {
    let (upstream, service) = case.started().await;
    let mut wire = Wire::connect(service.port()).await.unwrap();
    let keep = |method: &str, target: &str| service.request(method, target).header("Connection", "keep-alive");
    let post = || keep("POST", "/reservations").key(&case.key());
    for (status, code, request) in [
        (404, "not-found", keep("GET", "/nowhere")),
        (400, "key-missing", keep("POST", "/reservations").body("{}")),
        (400, "request-invalid", post().body("{")),
        (405, "method-not-allowed", keep("PUT", "/reservations").body("{}")),
        (415, "media-type-unsupported", post().header("Content-Type", "text/plain").bytes("{}")),
        (413, "body-too-large", post().body(" ".repeat(70_000))),
        (
            413,
            "body-too-large",
            post().header("Transfer-Encoding", "chunked").body(format!("11170\r\n{}\r\n0\r\n\r\n", " ".repeat(70_000))),
        ),
    ] {
        wire.write(&request.encoded()).await.unwrap_or_else(|broken| panic!("{code}: {broken}"));
        let reply = Reply::new(wire.read(Unframed::UntilClose).await.unwrap_or_else(|broken| panic!("{code}: {broken}")));
        reply.expect_problem(status, code);
        assert_eq!(problem_fault(&reply), None);
        if reply.header("connection").is_some_and(|c| c.eq_ignore_ascii_case("close")) {
            panic!("{code}: the connection is given up");
        }
    }
    assert_eq!(upstream.everything(), 0);
    let (key, body) = (case.key(), case.body());
    let request = keep("POST", "/reservations").key(&key).json(&body);
    service.ledger().asked("", "POST /reservations", &key, body.to_string().as_bytes());
    wire.write(&request.encoded()).await.unwrap();
    let first = Reply::new(wire.read(Unframed::UntilClose).await.unwrap());
    first.expect_created();
    wire.write(&request.encoded()).await.unwrap();
    Reply::new(wire.read(Unframed::UntilClose).await.unwrap()).expect_replay_of(&first);
}

/// B28
async fn who_asks_before_sending_gets_leave_or_the_refusal(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    let text = body.to_string();
    let ask = |key: &str, length: usize| {
        let request = service.request("POST", "/reservations").key(key).header("Expect", "100-continue");
        request.header("Content-Length", length.to_string()).body("")
    };
    // Refused by its head alone: no byte of the body was asked for.
    let mut refused = ask(&case.key(), 1_000_000).sent().await.unwrap();
    Reply::new(refused.read(Unframed::UntilClose).await.unwrap()).expect_problem(413, "body-too-large");
    let mut malformed = service.request("POST", "/reservations").raw_key("\"open").header("Expect", "100-continue");
    malformed = malformed.header("Content-Length", "10").body("");
    let mut refused = malformed.sent().await.unwrap();
    Reply::new(refused.read(Unframed::UntilClose).await.unwrap()).expect_problem(400, "key-malformed");
    assert_eq!(upstream.everything(), 0);
    // Leave is given before anything is sent.
    service.ledger().asked("", "POST /reservations", &key, text.as_bytes());
    let mut wire = ask(&key, text.len()).sent().await.unwrap();
    let mut seen = [0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut wire.stream, &mut seen).await.unwrap();
    assert_eq!(&seen, b"HTTP/1.1 100");
    tokio::io::AsyncReadExt::read_exact(&mut wire.stream, &mut [0; 13]).await.unwrap();
    wire.write(text.as_bytes()).await.unwrap();
    let first = Reply::new(wire.read(Unframed::UntilClose).await.unwrap());
    first.expect_created();
    // HTTP/2 needs no leave: its flow control is one.
    let h2 = H2::connect(&service).await;
    let quoted = format!("\"{key}\"");
    let headers = [keyed(&quoted)[0], keyed(&quoted)[1], ("expect", "100-continue")];
    h2.send("POST", "/reservations", &headers, &text).await.expect_replay_of(&first);
}

/// B59
async fn a_sub_path_is_the_same_over_http_2(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("PUBLIC_URL", "https://shop.example/booking").start().await;
    let h2 = H2::connect(&service).await;
    let (key, body) = (format!("\"{}\"", case.key()), case.body().to_string());
    let first = h2.send("POST", "/booking/reservations", &keyed(&key), &body).await;
    first.expect_created();
    assert_eq!(first.header("location"), Some(format!("https://shop.example/booking/reservations/{}", first.id()).as_str()));
    h2.send("POST", "/reservations", &keyed(&key), &body).await.expect_replay_of(&first);
    let problem = h2.send("GET", "/booking/nowhere", &[], "").await;
    problem.expect_problem(404, "not-found");
    assert_eq!(problem.json()["type"], "https://shop.example/booking/problems/not-found");
}
