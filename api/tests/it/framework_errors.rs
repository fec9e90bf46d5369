//! What goes wrong before a handler is reached is answered in the same form as everything else.

use super::support::ledger::problem_fault;
use super::support::prelude::*;
use super::support::wire::{Unframed, Wire};

tests!(both [
    every_error_is_a_problem_document,
    who_is_refused_while_still_sending_reads_why,
    a_body_that_is_too_large_or_too_slow_is_refused,
    a_body_without_end_is_refused_at_the_byte_too_many,
    a_wrong_method_is_told_the_right_ones,
] sqlite [
    titles_follow_the_language_of_the_caller,
    what_is_no_http_ends_the_connection,
    every_code_has_a_page,
]);

/// B53
async fn every_error_is_a_problem_document(case: &Case) {
    let (upstream, service) = case.started().await;
    let good = case.body().to_string();
    let id = uuid::Uuid::now_v7();
    let post = || service.request("POST", "/reservations").key(&case.key());
    let replies = [
        (404, "not-found", service.get("/nowhere").await),
        (404, "not-found", service.get("/reservations/").await),
        (404, "not-found", service.get(&format!("/reservations/{id}")).await),
        (405, "method-not-allowed", service.request("PUT", "/reservations").key(&case.key()).body(&good).await),
        (405, "method-not-allowed", service.request("POST", &format!("/reservations/{id}")).key(&case.key()).body(&good).await),
        (405, "method-not-allowed", service.request("DELETE", "/reservations").await),
        (400, "request-invalid", post().body("{\"item_code\": ").await),
        (400, "request-invalid", post().body("").await),
        (400, "request-invalid", post().body("null").await),
        (400, "request-invalid", post().body(b"{\"item_code\": \"\xff\"}").await),
        (415, "media-type-unsupported", post().header("Content-Type", "text/plain").bytes(&good).await),
        (415, "media-type-unsupported", post().header("Content-Type", "application/json; charset=latin1").bytes(&good).await),
        (415, "media-type-unsupported", post().header("Content-Type", "application/x-www-form-urlencoded").bytes("a=b").await),
        (415, "media-type-unsupported", post().bytes(&good).await),
        (413, "body-too-large", post().body(format!("{{\"note\": \"{}\"}}", "x".repeat(70_000))).await),
        (400, "key-missing", service.request("POST", "/reservations").body(&good).await),
    ];
    for (status, code, reply) in &replies {
        reply.expect_problem(*status, code);
    }
    let allow = replies[3].2.header("allow").expect("405 says what is allowed");
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    assert_eq!(upstream.everything(), 0);
    let utf8 = service
        .request("POST", "/reservations")
        .key(&case.key())
        .header("Content-Type", "Application/JSON; Charset=UTF-8")
        .bytes(&good)
        .await;
    utf8.expect_created();
}

/// B53
async fn a_wrong_method_is_told_the_right_ones(case: &Case) {
    let (_upstream, service) = case.started().await;
    let id = format!("/reservations/{}", uuid::Uuid::now_v7());
    for (target, allow) in [
        ("/reservations", "GET, HEAD, OPTIONS, POST"),
        (id.as_str(), "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("/idempotency-keys/a", "GET, HEAD, OPTIONS"),
        ("/idempotency-policy", "GET, HEAD, OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
        ("/docs", "GET, HEAD, OPTIONS"),
        ("/docs/", "GET, HEAD, OPTIONS"),
        ("/docs/swagger-ui.css", "GET, HEAD, OPTIONS"),
        ("/docs/swagger-ui-bundle.js", "GET, HEAD, OPTIONS"),
        ("/openapi.yaml", "GET, HEAD, OPTIONS"),
        ("/openapi.json", "GET, HEAD, OPTIONS"),
        ("/problems/key-reused", "GET, HEAD, OPTIONS"),
        ("/health/live", "GET, HEAD, OPTIONS"),
        ("/health/ready", "GET, HEAD, OPTIONS"),
        ("/metrics", "GET, HEAD, OPTIONS"),
    ] {
        for method in ["PUT", "TRACE", "QUERY"] {
            let reply = service.request(method, target).await;
            reply.expect_problem(405, "method-not-allowed");
            assert_eq!(reply.header("allow"), Some(allow), "{method} {target}");
        }
        let options = service.request("OPTIONS", target).unwatched().await;
        assert_eq!((options.status, options.header("allow")), (204, Some(allow)), "{target}");
        let (head, get) = (service.request("HEAD", target).unwatched().await, service.get(target).await);
        assert_eq!((head.status, head.header("content-type")), (get.status, get.header("content-type")), "{target}");
    }
    for method in ["HEAD", "OPTIONS"] {
        let nowhere = service.request(method, "/nowhere").unwatched().await;
        assert_eq!((nowhere.status, nowhere.header("content-type")), (404, Some("application/problem+json")), "{method}");
    }
}

/// B28: an answer that came before the body was read must not be lost to a reset.
async fn who_is_refused_while_still_sending_reads_why(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("API_TOKENS", "acme:acme-token-1").start().await;
    let large = " ".repeat(4_000_000);
    for (status, code, request) in [
        (401, "unauthenticated", service.request("POST", "/reservations").token("wrong").key("k")),
        (400, "key-missing", service.request("POST", "/reservations")),
        (404, "not-found", service.request("POST", "/nowhere")),
        (405, "method-not-allowed", service.request("PUT", "/reservations")),
        (415, "media-type-unsupported", service.request("POST", "/reservations").key("k").header("Content-Type", "text/plain")),
    ] {
        let request = request.header("Content-Length", large.len().to_string());
        let mut wire = request.sent().await.unwrap();
        for piece in large.as_bytes().chunks(500_000) {
            pass(20).await;
            wire.write(piece).await.unwrap_or_else(|broken| panic!("{code}: {broken}"));
        }
        Reply::new(wire.read(Unframed::UntilClose).await.expect("an answer")).expect_problem(status, code);
    }
}

async fn titles_follow_the_language_of_the_caller(case: &Case) {
    let (_upstream, service) = case.started().await;
    let ask = |language: &'static str| service.get("/nowhere").header("Accept-Language", language);
    let english = service.get("/nowhere").await.json();
    for language in ["ja", "ja-JP", "en;q=0.5, ja", "ja;q=0.9, fr;q=0.1"] {
        let japanese = ask(language).await.json();
        assert!(!japanese["title"].as_str().unwrap().is_ascii(), "{language}: {japanese}");
        for member in ["type", "status", "code", "retry"] {
            assert_eq!(japanese[member], english[member]);
        }
    }
    for language in ["en", "fr", "ja;q=0", "*", "ja;q=0.1, en", "\u{e4}"] {
        assert!(ask(language).await.json()["title"].as_str().unwrap().is_ascii(), "{language}");
    }
}

/// B28
async fn a_body_that_is_too_large_or_too_slow_is_refused(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("BODY_LIMIT", "2KiB").set("BODY_TIMEOUT", "1s").start().await;
    let (key, body) = (case.key(), case.body());
    let large = changed(&body, json!({"note": "x".repeat(4000)})).to_string();
    let chunked = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    service.request("POST", "/reservations").key(&key).body(&large).await.expect_problem(413, "body-too-large");
    let in_chunks = service.request("POST", "/reservations").key(&key).header("Transfer-Encoding", "chunked").body(chunked).await;
    in_chunks.expect_problem(413, "body-too-large");
    // Announced, but it comes a byte at a time and not to its end.
    let slow = service.request("POST", "/reservations").key(&key).header("Content-Length", "500").body("");
    let mut wire = slow.sent().await.unwrap();
    for _ in 0..20 {
        if wire.write(b" ").await.is_err() {
            break;
        }
        pass(100).await;
    }
    let reply = Reply::new(wire.read(Unframed::UntilClose).await.expect("an answer to a body that is too slow"));
    reply.expect_problem(408, "request-timeout");
    assert_eq!(problem_fault(&reply), None);
    assert_eq!((service.key_state(&key).await, upstream.everything()), (None, 0));
    // A caller that asks first is told to go on.
    let polite = service.request("POST", "/reservations").key(&key).header("Expect", "100-continue").json(&body).await;
    polite.expect_created();
}

/// B28: the answer does not wait for an end that never comes; the time limit here is longer than any test may take.
async fn a_body_without_end_is_refused_at_the_byte_too_many(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("BODY_LIMIT", "2KiB").set("BODY_TIMEOUT", "1h").start().await;
    let (key, body) = (case.key(), case.body());
    let piece = " ".repeat(2048);
    let chunked = service.request("POST", "/reservations").key(&key).header("Transfer-Encoding", "chunked").body("");
    let mut wire = chunked.sent().await.unwrap();
    wire.write(format!("800\r\n{piece}\r\n").as_bytes()).await.unwrap();
    pass(300).await;
    wire.write(b"1\r\n \r\n").await.unwrap();
    Reply::new(wire.read(Unframed::UntilClose).await.expect("an answer")).expect_problem(413, "body-too-large");
    // One that says beforehand how long it will be is refused by its head.
    let announced = service.request("POST", "/reservations").key(&key).header("Content-Length", "2049").body("");
    let mut wire = announced.sent().await.unwrap();
    Reply::new(wire.read(Unframed::UntilClose).await.expect("an answer")).expect_problem(413, "body-too-large");
    assert_eq!((service.key_state(&key).await, upstream.everything()), (None, 0));
    // The limit itself is within it.
    let exact = body.to_string() + &" ".repeat(2048 - body.to_string().len());
    service.request("POST", "/reservations").key(&key).body(exact).await.expect_created();
}

async fn what_is_no_http_ends_the_connection(case: &Case) {
    let (_upstream, service) = case.started().await;
    let long = format!("GET /{} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "x".repeat(200_000));
    let many = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n{}\r\n", "X-Filler: y\r\n".repeat(20_000));
    for garbage in ["\x16\x03\x01\x02\x00 no http\r\n\r\n", "GET\r\n\r\n", &long, &many] {
        let mut wire = Wire::connect(service.port()).await.unwrap();
        let _ = wire.write(garbage.as_bytes()).await;
        if let Ok(message) = wire.read(Unframed::UntilClose).await {
            assert!(matches!(Reply::new(message.clone()).status, 400 | 414 | 431), "{message:?}");
        }
    }
    assert_eq!(service.get("/health/live").await.status, 200);
}

async fn every_code_has_a_page(case: &Case) {
    let (_upstream, service) = case.started().await;
    for code in super::support::ledger::RETRY.iter().flat_map(|(_, codes)| *codes) {
        let page = service.get(&format!("/problems/{code}")).await;
        assert_eq!(page.status, 200, "{code}: {page:?}");
        assert!(page.text().contains(code), "{code}: {page:?}");
    }
    service.get("/problems/no-such-code").await.expect_problem(404, "not-found");
}
