//! Which bodies are requests, and which of them are the same request.

use super::support::prelude::*;

tests!(both [
    what_is_no_valid_body_names_its_faults_and_claims_nothing,
    one_request_in_all_its_spellings,
    whatever_means_something_else_is_another_request,
    a_retry_that_is_no_request_leaves_the_record_as_it_is,
    all_faults_of_a_body_are_told_at_once,
    lengths_are_counted_in_characters,
    a_query_never_changes_what_is_meant,
]);

/// A body as text, with a placeholder where a number or a string goes.
fn text(case: &Case, quantity: &str) -> String {
    let item = &case.body()["item_code"];
    format!("{{\"item_code\": {item}, \"quantity\": {quantity}, \"reserved_by\": \"hanako\"}}")
}

/// The same members, the last one first.
fn reversed(body: &Value) -> String {
    let members: Vec<_> = body.as_object().unwrap().iter().rev().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

/// B10, B13, B16
async fn what_is_no_valid_body_names_its_faults_and_claims_nothing(case: &Case) {
    let (upstream, service) = case.started().await;
    let key = case.key();
    let good = case.body();
    let open = good.to_string();
    let open = open.strip_suffix('}').unwrap();
    let with = |change: Value| {
        let mut body = good.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body.to_string()
    };
    let day = |time: &str| format!("2031-05-06T{time}");
    let mut bodies: Vec<(String, &str)> = Vec::new();
    for number in
        ["1.0", "1e0", "10E-1", "\"1\"", "0", "-0", "-1", "2147483648", "18446744073709551616", "1e400", "null", "true", "[1]", "{}"]
    {
        bodies.push((text(case, number), "/quantity"));
    }
    bodies.extend([
        (format!("{open}, \"quantity\": 1}}"), ""),
        (format!("{open}, \"quantit\\u0079\": 1}}"), ""),
        (format!("{open}, \"surplus\": 1}}"), "/surplus"),
        (format!("{open}, \"note\": \"a\\u0000b\"}}"), "/note"),
        (format!("{open}, \"note\": \"\\ud83d\"}}"), ""),
        (with(json!({"note": 5})), "/note"),
        (with(json!({"note": "x".repeat(1001)})), "/note"),
        (with(json!({"item_code": ""})), "/item_code"),
        (with(json!({"item_code": "x".repeat(65)})), "/item_code"),
        (with(json!({"reserved_by": "x".repeat(129)})), "/reserved_by"),
        (with(json!({"starts_at": "2031-05-06"})), "/starts_at"),
        (with(json!({"starts_at": day("10:00:00")})), "/starts_at"),
        (with(json!({"starts_at": "2031-02-30T10:00:00Z"})), "/starts_at"),
        (with(json!({"starts_at": day("10:00:00Z"), "ends_at": day("10:00:00Z")})), ""),
        (with(json!({"starts_at": day("10:00:00Z"), "ends_at": day("11:00:00+02:00")})), ""),
        (changed(&good, json!({"item_code": null})).to_string(), ""),
        (String::new(), ""),
        ("null".into(), ""),
        ("[]".into(), ""),
        (format!("[{good}]"), ""),
        (format!("{good} x"), ""),
        ("{".into(), ""),
        (format!("\u{feff}{good}"), ""),
    ]);
    for (body, pointer) in bodies {
        let reply = service.request("POST", "/reservations").key(&key).body(&body).await;
        assert_eq!((reply.status, reply.code().as_deref()), (400, Some("request-invalid")), "{body}: {reply:?}");
        let errors = reply.json()["errors"].as_array().cloned().unwrap_or_default();
        assert!(!errors.is_empty() && errors.iter().all(|e| e["pointer"].is_string() && e["detail"].is_string()), "{body}: {reply:?}");
        assert!(errors.iter().any(|e| e["pointer"].as_str().unwrap().ends_with(pointer)), "{body}: {reply:?}");
    }
    assert_eq!((service.key_state(&key).await, upstream.everything()), (None, 0));
    service.post(&key, &good).await.expect_created();
}

/// B09, B10, B13
async fn one_request_in_all_its_spellings(case: &Case) {
    let (upstream, service) = case.started().await;
    let key = case.key();
    let body = json!({
        "item_code": "SAME-1", "quantity": 1, "reserved_by": "Jos\u{e9}/x", "starts_at": "2031-05-06T10:00:00+09:00", "ends_at": "2031-05-06T12:00:00+09:00",
    });
    let first = service.post(&key, &body).await;
    first.expect_created();
    let text = body.to_string();
    let spellings = [
        serde_json::to_string_pretty(&body).unwrap() + "\r\n",
        text.replace('\u{e9}', "\\u00e9"),
        text.replace('\u{e9}', "\\u00E9"),
        text.replace("/x", "\\/x"),
        text.replace("\"quantity\"", "\"qu\\u0061ntity\""),
        text.replace("10:00:00+09:00", "01:00:00Z"),
        text.replace("10:00:00+09:00", "01:00:00.000+00:00"),
        text.replace("12:00:00+09:00", "05:00:00+02:00"),
        text.replace('{', "{\"note\": null, "),
        reversed(&body),
        format!("\n\t {} \n", reversed(&body).replace(",\"", " ,\n\"")),
    ];
    for _ in 0..2 {
        for spelling in &spellings {
            let reply = service.request("POST", "/reservations").key(&key).body(spelling).await;
            assert!(reply.is_replay(), "{spelling}: {reply:?}");
            reply.expect_replay_of(&first);
        }
        // The verdict is the record's, not this process's.
        service.kill_9();
        service.start_again().await;
    }
    assert_eq!(upstream.posts(&body).len(), 1);
}

/// B09, B13
async fn whatever_means_something_else_is_another_request(case: &Case) {
    let (upstream, service) = case.started().await;
    let key = case.key();
    let body = json!({"item_code": "OTHER-1", "quantity": 1, "reserved_by": "Jos\u{e9}", "note": "n", "starts_at": "2031-05-06T10:00:00Z"});
    let first = service.post(&key, &body).await;
    first.expect_created();
    for (change, pointer) in [
        (json!({"quantity": 2}), "/quantity"),
        (json!({"item_code": "other-1"}), "/item_code"),
        (json!({"reserved_by": "Jose\u{301}"}), "/reserved_by"),
        (json!({"reserved_by": "Jos\u{e9} "}), "/reserved_by"),
        (json!({"note": ""}), "/note"),
        (json!({"note": null}), "/note"),
        (json!({"starts_at": "2031-05-06T10:00:00.000001Z"}), "/starts_at"),
        (json!({"starts_at": "2031-05-06T10:00:00+01:00"}), "/starts_at"),
        (json!({"ends_at": "2031-05-07T10:00:00Z"}), "/ends_at"),
    ] {
        let reply = service.post(&key, &changed(&body, change.clone())).await;
        assert_eq!((reply.status, reply.code().as_deref()), (422, Some("key-reused")), "{change}: {reply:?}");
        assert!(reply.header("retry-after").is_none(), "{reply:?}");
        assert_eq!(reply.json()["mismatch"].to_string().matches('/').count(), 1, "{change}: {reply:?}");
        assert!(reply.json()["mismatch"].to_string().contains(pointer), "{change}: {reply:?}");
    }
    service.post(&key, &body).await.expect_replay_of(&first);
    assert_eq!(upstream.posts(&body).len(), 1);
}

/// B10, B13: another spelling of a number, an unknown member: refused before the key is looked at, and without effect on it.
async fn a_retry_that_is_no_request_leaves_the_record_as_it_is(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    first.expect_created();
    let record = service.key_record(&key).await;
    let text = body.to_string();
    let spelled = |number: &str| text.replace("\"quantity\":1", &format!("\"quantity\":{number}"));
    let mut retries: Vec<_> = ["1.0", "1e0", "10E-1", "\"1\"", "01", "+1", "1.", "0", "-0", "null"].map(spelled).to_vec();
    retries.push(text.replace('{', "{\"surplus\": 1, "));
    retries.push(text.replace('{', "{\"quantity\": 1, "));
    for retry in retries {
        assert_ne!(retry, text);
        let reply = service.request("POST", "/reservations").key(&key).body(&retry).await;
        assert_eq!((reply.status, reply.code().as_deref()), (400, Some("request-invalid")), "{retry}: {reply:?}");
        assert_eq!(service.key_record(&key).await, record, "{retry}");
        service.post(&key, &body).await.expect_replay_of(&first);
    }
    assert_eq!(upstream.posts(&body).len(), 1);
}

async fn all_faults_of_a_body_are_told_at_once(case: &Case) {
    let (upstream, service) = case.started().await;
    let body = r#"{"item_code": "", "quantity": 0, "note": 7, "starts_at": "soon", "surplus": 1, "more": {"item_code": 1}}"#;
    let reply = service.request("POST", "/reservations").key(&case.key()).body(body).await;
    reply.expect_problem(400, "request-invalid");
    let errors = reply.json()["errors"].as_array().unwrap().clone();
    let mut pointers: Vec<_> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    pointers.sort_unstable();
    assert_eq!(pointers, ["/item_code", "/more", "/note", "/quantity", "/reserved_by", "/starts_at", "/surplus"], "{reply:?}");
    // Faults are told, values are not.
    assert!(!reply.text().contains("soon"), "{reply:?}");
    assert_eq!(upstream.everything(), 0);
}

async fn lengths_are_counted_in_characters(case: &Case) {
    let (_upstream, service) = case.started().await;
    let body = json!({"item_code": "\u{4e88}".repeat(64), "quantity": 2147483647, "reserved_by": "\u{7d04}".repeat(128), "note": "\u{1f600}".repeat(1000)});
    let key = case.key();
    let first = service.post(&key, &body).await;
    let reservation = first.expect_created();
    for (name, value) in body.as_object().unwrap() {
        assert_eq!(&reservation[name], value);
    }
    service.post(&key, &body).await.expect_replay_of(&first);
}

/// B08
async fn a_query_never_changes_what_is_meant(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    for query in ["dry_run=1", "x=1&y=2", "y=2&x=1", "x=1", "x=2", "x", "%78=1", "="] {
        service.request("POST", &format!("/reservations?{query}")).key(&key).json(&body).await.expect_problem(400, "request-invalid");
    }
    for target in ["/reservations/", "//reservations", "/reservations%2F", "/reservations%3Fdry_run=1", "/Reservations", "/./reservations"]
    {
        let elsewhere = service.request("POST", target).key(&key).json(&body).await;
        assert!(matches!(elsewhere.status, 404 | 405), "{target}: {elsewhere:?}");
    }
    assert_eq!((service.key_state(&key).await, upstream.everything()), (None, 0));
    let first = service.post(&key, &body).await;
    first.expect_created();
    // Nor is an answer that is there replayed to a request that asks for something else.
    service.request("POST", "/reservations?dry_run=1").key(&key).json(&body).await.expect_problem(400, "request-invalid");
    // Another spelling of the path is the same path or none of ours, never another meaning.
    let spelled = service.request("POST", "/%72eservations").key(&key).json(&body).await;
    assert!(spelled.status == 404 || spelled.is_replay(), "{spelled:?}");
    assert_eq!(upstream.posts(&body).len(), 1);
}
