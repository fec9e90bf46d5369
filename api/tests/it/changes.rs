//! PATCH and DELETE: noted before they are sent, finished whatever happens.

use super::support::prelude::*;

tests!(both [
    a_change_is_made_once_under_its_key_and_its_version,
    if_match_is_compared_strongly_and_only_for_a_new_key,
    a_refusal_names_its_reservation_in_the_language_of_the_caller,
    what_had_no_effect_is_told_in_the_words_of_the_operation,
    null_clears_a_member_and_absence_leaves_it,
    half_a_period_is_judged_with_the_other_half,
    of_two_changes_at_once_one_wins,
    a_duplicate_is_not_refused_by_what_the_first_has_just_done,
    a_cancellation_is_the_same_however_often_it_is_sent,
    a_cancellation_keeps_to_the_version_it_names,
    only_an_answer_in_json_settles_a_cancellation,
    nothing_changes_what_is_over,
    a_change_cut_short_by_a_crash_is_finished_by_the_job,
    a_cancellation_cut_short_by_a_crash_is_finished_by_the_job,
]);

async fn reserved(case: &Case, service: &Service) -> Reply {
    let first = service.post(&case.key(), &changed(&case.body(), json!({"note": "window"}))).await;
    first.expect_created();
    first
}

async fn a_change_is_made_once_under_its_key_and_its_version(case: &Case) {
    let (upstream, service) = case.started().await;
    let first = reserved(case, &service).await;
    let (id, key) = (first.id(), case.key());
    let change = json!({"quantity": 3, "starts_at": "2031-05-06T10:00:00+09:00", "ends_at": "2031-05-06T11:00:00+09:00"});
    let done = service.patch(&id, &key, &first.etag(), &change).await;
    let now = done.json();
    assert_eq!(
        (done.status, &now["quantity"], &now["note"], &now["item_code"]),
        (200, &json!(3), &json!("window"), &first.json()["item_code"])
    );
    assert_ne!(done.etag(), first.etag());
    service.patch(&id, &key, &first.etag(), &change).await.expect_replay_of(&done);
    service.patch(&id, &key, &done.etag(), &json!({"quantity": 4})).await.expect_problem(422, "key-reused");
    service.patch(&id, &case.key(), &first.etag(), &json!({"quantity": 4})).await.expect_problem(412, "version-stale");
    service.patch(&id, &case.key(), &done.etag(), &json!({"item_code": "other"})).await.expect_problem(400, "request-invalid");
    let read = service.reservation(&id).await;
    assert_eq!((read.json(), read.etag()), (now, done.etag()));
    let sent = upstream.requests("PATCH");
    assert_eq!((sent.len(), sent[0].path.as_str()), (1, format!("/bookings/{id}").as_str()));
    let key_there = sent[0].head.header("idempotency-key").expect("the change has a key of its own there");
    assert!(!key_there.contains(&id), "the change went out under the booking's key");
    assert_eq!((&sent[0].body["quantity"], &sent[0].body["note"]), (&json!(3), &json!("window")), "not the whole new values");
}

async fn if_match_is_compared_strongly_and_only_for_a_new_key(case: &Case) {
    let (upstream, service) = case.started().await;
    let first = reserved(case, &service).await;
    let (id, mut etag) = (first.id(), first.etag());
    let change = |quantity: i32, if_match: &str| service.patch(&id, &case.key(), if_match, &json!({"quantity": quantity}));
    // RFC 9110, section 13.1.1: a weak tag never matches. The reservation has not changed, so the answer must not say so.
    expect_weak_tag_refused(&change(2, &format!("W/{etag}")).await);
    let stale = change(2, "\"other\"").await;
    stale.expect_problem(412, "version-stale");
    assert!(stale.json()["detail"].as_str().unwrap().contains("has changed since"), "{stale:?}");
    for malformed in ["", etag.trim_matches('"'), "\"open", "*, \"a\"", "\"a\" \"b\""] {
        change(2, malformed).await.expect_problem(400, "request-invalid");
    }
    assert!(upstream.requests("PATCH").is_empty());
    for (quantity, form) in [(3, "{}"), (4, "\"other\" ,, {}"), (5, "W/\"other\", {}"), (6, "*")] {
        let done = change(quantity, &form.replace("{}", &etag)).await;
        assert_eq!((done.status, &done.json()["quantity"]), (200, &json!(quantity)), "{form}: {done:?}");
        etag = done.etag();
    }
    // A replay is refused by none of it.
    let (key, body) = (case.key(), json!({"quantity": 7}));
    let done = service.patch(&id, &key, &etag, &body).await;
    for if_match in [etag.as_str(), "\"other\"", "malformed"] {
        service.patch(&id, &key, if_match, &body).await.expect_replay_of(&done);
    }
    service.request("PATCH", &format!("/reservations/{id}")).key(&key).json(&body).await.expect_replay_of(&done);
}

fn expect_weak_tag_refused(reply: &Reply) {
    reply.expect_problem(412, "version-stale");
    let problem = reply.json();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("weak") && detail.contains("without `W/`") && !detail.contains("changed"), "{detail}");
}

async fn a_refusal_names_its_reservation_in_the_language_of_the_caller(case: &Case) {
    let (upstream, service) = case.started().await;
    let first = reserved(case, &service).await;
    let id = first.id();
    let expect = |reply: &Reply| {
        reply.expect_problem(422, "booking-rejected");
        let problem = reply.json();
        assert!(problem["instance"].as_str().is_some_and(|i| i.ends_with(&format!("/reservations/{id}"))), "{problem}");
        assert!(!problem["title"].as_str().unwrap().is_ascii(), "{problem}");
    };
    upstream.on_change([vec![Status(409)], vec![Answer]]);
    expect(&service.delete(&id).header("Accept-Language", "ja").await);
    service.delete(&id).await.expect_no_content();
    let key = case.key();
    for _ in 0..2 {
        expect(&service.patch(&id, &key, "*", &json!({"quantity": 2})).header("Accept-Language", "ja").await);
    }
}

/// B13
async fn what_had_no_effect_is_told_in_the_words_of_the_operation(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("ANSWER_WITHIN", "1s").start().await;
    let first = reserved(case, &service).await;
    let (change, cancellation) = (service.patch(&first.id(), &case.key(), "*", &json!({"quantity": 2})), service.delete(&first.id()));
    for (status, code) in [(401, "booking-system-misconfigured"), (429, "booking-system-busy")] {
        upstream.on_change([vec![Status(status)]]);
        for (request, said) in [(&change, "Nothing was changed; the key is free."), (&cancellation, "Nothing was cancelled.")] {
            let reply = request.clone().await;
            reply.expect_problem(if status == 401 { 502 } else { 503 }, code);
            assert!(reply.json()["detail"].as_str().unwrap().ends_with(said), "{reply:?}");
        }
    }
    // Nor has a cancellation a key to be sent under.
    upstream.on_change([vec![Status(500)]]);
    let pending = service.delete(&first.id()).await;
    pending.expect_problem(503, "outcome-pending");
    assert!(!pending.json()["detail"].as_str().unwrap().contains("key"), "{pending:?}");
    upstream.on_change([vec![Answer]]);
    eventually("it is cancelled", async || (service.delete(&first.id()).await.status == 204).then_some(())).await;
}

async fn null_clears_a_member_and_absence_leaves_it(case: &Case) {
    let (upstream, service) = case.started().await;
    let first = reserved(case, &service).await;
    let key = case.key();
    let one = service.patch(&first.id(), &key, &first.etag(), &json!({"quantity": 2})).await;
    assert_eq!((one.status, &one.json()["note"]), (200, &json!("window")), "{one:?}");
    service.patch(&first.id(), &key, &first.etag(), &json!({"quantity": 2, "note": null})).await.expect_problem(422, "key-reused");
    let two = service.patch(&first.id(), &case.key(), &one.etag(), &json!({"note": null})).await;
    assert_eq!((two.status, two.json().get("note").unwrap_or(&Value::Null)), (200, &Value::Null), "{two:?}");
    service.patch(&first.id(), &case.key(), &two.etag(), &json!({"quantity": null})).await.expect_problem(400, "request-invalid");
    assert!(upstream.requests("PATCH")[1].body["note"].is_null());
}

/// A fault is told at a member that was sent.
async fn half_a_period_is_judged_with_the_other_half(case: &Case) {
    let (_upstream, service) = case.started().await;
    let body = changed(&case.body(), json!({"starts_at": "2031-05-06T10:00:00Z", "ends_at": "2031-05-06T11:00:00Z"}));
    let first = service.post(&case.key(), &body).await;
    first.expect_created();
    for (change, pointer) in [
        (json!({"starts_at": "2031-05-06T11:00:00Z"}), "/starts_at"),
        (json!({"ends_at": "2031-05-06T10:00:00Z"}), "/ends_at"),
        (json!({"starts_at": "2031-05-06T11:00:00Z", "ends_at": "2031-05-06T11:00:00Z"}), "/ends_at"),
    ] {
        let refused = service.patch(&first.id(), &case.key(), &first.etag(), &change).await;
        refused.expect_problem(400, "request-invalid");
        assert_eq!(refused.json()["errors"][0]["pointer"], pointer, "{refused:?}");
    }
}

async fn of_two_changes_at_once_one_wins(case: &Case) {
    let (upstream, service) = case.started().await;
    let first = reserved(case, &service).await;
    upstream.on_change([vec![After(300), Answer]]);
    let changes = (2..7).map(|quantity| service.patch(&first.id(), &case.key(), &first.etag(), &json!({"quantity": quantity})));
    let replies = together(changes).await;
    let won: Vec<_> = replies.iter().filter(|r| r.status == 200).collect();
    assert_eq!(won.len(), 1, "{replies:?}");
    for reply in replies.iter().filter(|r| r.status != 200) {
        assert!(matches!(reply.code().as_deref(), Some("reservation-busy" | "version-stale")), "{reply:?}");
    }
    assert_eq!(upstream.requests("PATCH").len(), 1);
    assert_eq!(service.reservation(&first.id()).await.json()["quantity"], won[0].json()["quantity"]);
    assert_eq!(upstream.bookings()[0].details["quantity"], won[0].json()["quantity"]);
}

/// It may look the key up before the first has claimed it, and the reservation after the first has changed it.
async fn a_duplicate_is_not_refused_by_what_the_first_has_just_done(case: &Case) {
    let (_upstream, service) = case.started().await;
    let first = reserved(case, &service).await;
    let (id, mut etag) = (first.id(), first.etag());
    for quantity in 2..22 {
        let (key, change) = (case.key(), json!({"quantity": quantity}));
        let replies = together((0..12).map(|_| service.patch(&id, &key, &etag, &change))).await;
        for reply in &replies {
            assert!(reply.status == 200 || reply.code().as_deref() == Some("key-in-progress"), "{reply:?}");
        }
        etag = replies.iter().find(|reply| reply.status == 200).expect("one of them is the first").etag();
    }
}

async fn a_cancellation_is_the_same_however_often_it_is_sent(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    upstream.on_change([vec![After(200), Answer]]);
    for reply in together((0..4).map(|_| service.delete(&first.id()))).await {
        reply.expect_no_content();
    }
    service.delete(&first.id()).raw_key("\"broken").await.expect_no_content();
    assert_eq!(service.reservation(&first.id()).await.json()["status"], "cancelled");
    assert!(upstream.bookings()[0].cancelled);
    assert_eq!(upstream.requests("DELETE").len(), 1);
    service.post(&key, &body).await.expect_replay_of(&first);
    // What is gone there already is as good as cancelled.
    for status in [404, 410] {
        let other = reserved(case, &service).await;
        upstream.on_change([vec![Status(status)]]);
        service.delete(&other.id()).await.expect_no_content();
        assert_eq!(service.reservation(&other.id()).await.json()["status"], "cancelled");
    }
}

/// RFC 9110, section 13.1.1: what `If-Match` does not hold of is not done.
async fn a_cancellation_keeps_to_the_version_it_names(case: &Case) {
    let (upstream, service) = case.started().await;
    let first = reserved(case, &service).await;
    let id = first.id();
    let now = service.patch(&id, &case.key(), &first.etag(), &json!({"quantity": 2})).await;
    let cancel = |if_match: &str| service.delete(&id).header("If-Match", if_match);
    cancel(&first.etag()).await.expect_problem(412, "version-stale");
    expect_weak_tag_refused(&cancel(&format!("W/{}", now.etag())).await);
    cancel("no-tag").await.expect_problem(400, "request-invalid");
    assert!(upstream.requests("DELETE").is_empty());
    // Of a change and a cancellation of one version at once, one is done; the other one hears that it was not.
    let (changed, cancelled) = (service.patch(&id, &case.key(), &now.etag(), &json!({"quantity": 3})), cancel(&now.etag()));
    let (changed, cancelled) = tokio::join!(changed, cancelled);
    match cancelled.status {
        204 => assert!(matches!(changed.status, 409 | 422), "{changed:?}"),
        _ => {
            assert!(matches!(cancelled.status, 409 | 412), "{cancelled:?}");
            assert_eq!(changed.status, 200, "{changed:?}");
            cancel(&now.etag()).await.expect_problem(412, "version-stale");
            cancel(&format!("\"other\", {}", changed.etag())).await.expect_no_content();
        }
    }
    assert_eq!(service.reservation(&id).await.json()["status"], "cancelled");
    // It is what was asked for, whatever version it had.
    for if_match in [&first.etag(), &now.etag(), "*"] {
        cancel(if_match).await.expect_no_content();
    }
    assert_eq!(upstream.requests("DELETE").len(), 1);
}

async fn only_an_answer_in_json_settles_a_cancellation(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("ANSWER_WITHIN", "2s").start().await;
    let first = reserved(case, &service).await;
    upstream.on_change([vec![Status(409)]]);
    service.delete(&first.id()).await.expect_problem(422, "booking-rejected");
    assert_eq!(service.reservation(&first.id()).await.json()["status"], "confirmed");
    upstream.on_change([vec![Page(404)]]);
    let reply = service.delete(&first.id()).await;
    assert!(matches!(reply.status, 409 | 503), "{reply:?}");
    assert_ne!(service.reservation(&first.id()).await.json()["status"], "cancelled");
    let busy = service.patch(&first.id(), &case.key(), &first.etag(), &json!({"quantity": 2})).await;
    busy.expect_problem(409, "reservation-busy");
    upstream.on_change([vec![Answer]]);
    eventually("the cancellation is settled", async || {
        (service.reservation(&first.id()).await.json()["status"] == "cancelled").then_some(())
    })
    .await;
    service.delete(&first.id()).await.expect_no_content();
    assert!(upstream.bookings()[0].cancelled);
}

async fn nothing_changes_what_is_over(case: &Case) {
    let (upstream, service) = case.started().await;
    let cancelled = reserved(case, &service).await;
    service.delete(&cancelled.id()).await.expect_no_content();
    let etag = service.reservation(&cancelled.id()).await.etag();
    let change = json!({"quantity": 2});
    let refused = service.patch(&cancelled.id(), &case.key(), &etag, &change).await;
    refused.expect_problem(422, "booking-rejected");
    let body = case.body();
    upstream.on_post(&body, [vec![Status(409)]]);
    let rejected = service.post(&case.key(), &body).await;
    let id = rejected.json()["instance"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let etag = service.reservation(&id).await.header("etag").unwrap_or("\"1\"").to_owned();
    service.patch(&id, &case.key(), &etag, &change).await.expect_problem(422, "booking-rejected");
    assert!(upstream.requests("PATCH").is_empty());
}

/// The process dies while its change is under way; the change takes effect there or not.
async fn a_change_cut_short_by_a_crash_is_finished_by_the_job(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "2s").set("BOOKING_TIMEOUT", "5s").start().await;
    let first = reserved(case, &service).await;
    let key = case.key();
    upstream.on_change([vec![Silence], vec![Answer]]);
    let change = json!({"quantity": 5});
    let _lost = service.patch(&first.id(), &key, &first.etag(), &change).sent().await.unwrap();
    eventually("the change is sent", async || upstream.requests("PATCH").first().cloned()).await;
    service.kill_9();
    service.start_again().await;
    eventually("the job finishes the change", async || (service.reservation(&first.id()).await.json()["quantity"] == 5).then_some(()))
        .await;
    let reply = service.patch(&first.id(), &key, &first.etag(), &change).await;
    assert_eq!((reply.status, reply.is_replay(), &reply.json()["quantity"]), (200, true, &json!(5)), "{reply:?}");
    assert_eq!(upstream.bookings()[0].details["quantity"], 5);
    let keys: std::collections::BTreeSet<_> =
        upstream.requests("PATCH").iter().map(|r| r.head.header("idempotency-key").map(str::to_owned)).collect();
    assert_eq!(keys.len(), 1, "the change was sent again under another key: {keys:?}");
}

async fn a_cancellation_cut_short_by_a_crash_is_finished_by_the_job(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "2s").set("BOOKING_TIMEOUT", "5s").start().await;
    let first = reserved(case, &service).await;
    upstream.on_change([vec![Silence], vec![Answer]]);
    let _lost = service.delete(&first.id()).sent().await.unwrap();
    eventually("the cancellation is sent", async || upstream.requests("DELETE").first().cloned()).await;
    service.kill_9();
    service.start_again().await;
    let busy = service.patch(&first.id(), &case.key(), &first.etag(), &json!({"quantity": 2})).await;
    assert!(busy.code().as_deref() == Some("reservation-busy") || upstream.bookings()[0].cancelled, "{busy:?}");
    eventually("the job finishes the cancellation", async || {
        (service.reservation(&first.id()).await.json()["status"] == "cancelled").then_some(())
    })
    .await;
    assert!(upstream.bookings()[0].cancelled);
    service.delete(&first.id()).await.expect_no_content();
}
