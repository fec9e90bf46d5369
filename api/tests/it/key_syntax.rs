//! Which header values are keys, and which of them are the same key.

use super::support::prelude::*;

tests!(both [
    one_key_in_all_its_spellings,
    one_key_in_all_its_spellings_for_a_change_too,
    what_is_not_exactly_one_key_claims_nothing,
    keys_that_look_alike_are_different,
    strict_syntax_takes_only_the_quoted_form,
]);

/// B02
async fn one_key_in_all_its_spellings(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    first.expect_created();
    let quoted = format!("\"{key}\"");
    for (name, value) in [
        ("Idempotency-Key", key.clone()),
        ("idempotency-key", quoted.clone()),
        ("IDEMPOTENCY-KEY", key.clone()),
        ("iDeMpOtEnCy-kEy", format!(" \t{quoted}  ")),
        ("Idempotency-Key", format!("{quoted};a=1")),
        ("Idempotency-Key", format!("{quoted}; a=\"x;y\"; b")),
    ] {
        let reply = service.request("POST", "/reservations").header(name, &value).json(&body).await;
        assert!(reply.is_replay(), "{name}: {value}: {reply:?}");
        reply.expect_replay_of(&first);
    }
    assert_eq!(upstream.posts(&body).len(), 1);
}

/// B02: quotes are no part of the key, on no route.
async fn one_key_in_all_its_spellings_for_a_change_too(case: &Case) {
    let (upstream, service) = case.started().await;
    let first = service.post(&case.key(), &case.body()).await;
    let (key, change) = (case.key(), json!({"quantity": 2}));
    let done = service.patch(&first.id(), &key, &first.etag(), &change).await;
    assert_eq!(done.status, 200, "{done:?}");
    let target = format!("/reservations/{}", first.id());
    for (name, value) in
        [("idempotency-key", key.clone()), ("IDEMPOTENCY-KEY", format!("\t\"{key}\" ")), ("Idempotency-Key", format!("\"{key}\";p=1"))]
    {
        let request = service.request("PATCH", &target).header(name, &value).header("If-Match", first.etag()).json(&change);
        request.await.expect_replay_of(&done);
    }
    let unterminated = service.request("PATCH", &target).raw_key(format!("\"{key}")).header("If-Match", first.etag()).json(&change);
    unterminated.await.expect_problem(400, "key-malformed");
    // Asked for by its decoded form, it is one key there, too.
    let record = service.get(&format!("/idempotency-keys/{key}?operation=changeReservation")).await;
    assert_eq!((record.status, &record.json()["state"]), (200, &json!("completed")));
    assert_eq!(upstream.requests("PATCH").len(), 1);
}

/// B02
async fn keys_that_look_alike_are_different(case: &Case) {
    let (upstream, service) = case.started().await;
    let long = format!("\"{}\"", "k".repeat(255));
    let escaped = format!("\"{}\"", "\\\\".repeat(255));
    let values = [
        r#""a\"b""#,
        r#""a\\b""#,
        r#""a\\\"b""#,
        r#""a b""#,
        r#""A b""#,
        r#""a  b""#,
        r#""a,b""#,
        r#""a;b""#,
        r#""0""#,
        r#""00""#,
        r#""?0""#,
        &long,
        &escaped,
    ];
    let mut ids = Vec::new();
    for value in values {
        let body = case.body();
        let first = service.request("POST", "/reservations").raw_key(value).json(&body).await;
        ids.push(first.expect_created()["id"].to_string());
        service.request("POST", "/reservations").raw_key(value).json(&body).await.expect_replay_of(&first);
    }
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), upstream.bookings().len()), (values.len(), values.len()));
}

async fn what_is_not_exactly_one_key_claims_nothing(case: &Case) {
    let (upstream, service) = case.started().await;
    let body = case.body();
    let too_long = "k".repeat(256);
    let too_long_quoted = format!("\"{too_long}\"");
    let values: &[&[u8]] = &[
        b"",
        b"  ",
        b"\"\"",
        b"\"  \"",
        b"\"open",
        b"open\"",
        b"\"a\" \"b\"",
        b"\"a\", \"b\"",
        b"a, b",
        b"\"a\\n\"",
        b"\"a\\",
        b"\"a\tb\"",
        b"\"a\"b",
        b"\"a\";",
        b"\"a\"; =1",
        b"a b",
        b"(\"a\")",
        b":YQ==:",
        b"\"\xe4\xba\x88\"",
        b"\xe4\xba\x88",
        b"\"\xff\"",
        too_long.as_bytes(),
        too_long_quoted.as_bytes(),
    ];
    for value in values {
        let reply = service.request("POST", "/reservations").raw_key(value).json(&body).await;
        assert_eq!((reply.status, reply.code().as_deref()), (400, Some("key-malformed")), "{}: {reply:?}", value.escape_ascii());
    }
    // Two lines are never one key, not even two equal ones, nor two that would be one string when joined.
    let key = case.key();
    let quoted = format!("\"{key}\"");
    for (one, two) in [(quoted.as_str(), quoted.as_str()), (&quoted, "\"other\""), ("\"half", "other half\""), (&quoted, "")] {
        let reply = service.request("POST", "/reservations").raw_key(one).header("idempotency-key", two).json(&body).await;
        reply.expect_problem(400, "key-malformed");
    }
    assert_eq!(upstream.everything(), 0);
    service.post(&key, &body).await.expect_created();
}

async fn strict_syntax_takes_only_the_quoted_form(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("KEY_SYNTAX", "strict").start().await;
    let (key, body) = (case.key(), case.body());
    for value in [key.as_str(), "token", "17", "1.5", "?1", ":YQ==:", "@1659578233"] {
        let reply = service.request("POST", "/reservations").raw_key(value).json(&body).await;
        assert_eq!((reply.status, reply.code().as_deref()), (400, Some("key-malformed")), "{value}: {reply:?}");
    }
    let first = service.post(&key, &body).await;
    first.expect_created();
    let with_parameter = format!("\"{key}\";v=2");
    service.request("POST", "/reservations").raw_key(with_parameter).json(&body).await.expect_replay_of(&first);
}
