//! The first answer, and what a key in each state answers.

use super::support::prelude::*;

tests!(both [
    the_first_answer_and_what_the_booking_system_was_asked,
    a_key_in_progress_answers_409_to_its_request_and_422_to_any_other,
    a_lapsed_key_is_taken_over_by_the_next_retry,
    what_is_absent_there_is_released_and_runs_again_under_its_reference,
    what_nobody_can_tell_is_said_and_never_sent_twice,
    a_caller_who_waits_too_long_is_told_that_it_is_pending,
]);

fn is_uuid_v7(id: &str) -> bool {
    uuid::Uuid::parse_str(id).is_ok_and(|id| id.get_version_num() == 7) && id.len() == 36
}

/// B41
async fn the_first_answer_and_what_the_booking_system_was_asked(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("BOOKING_TOKEN", "token-for-there").set("TZ", "America/New_York").start().await;
    let body = json!({
        "item_code": "SEAT-7", "quantity": 3, "reserved_by": "\u{592a}\u{90ce}", "note": "\"window\"/a",
        "starts_at": "2031-05-06T10:00:00+09:00", "ends_at": "2031-05-06T12:30:00+09:00",
    });
    let first = service.post(&case.key(), &body).await;
    let reservation = first.expect_created();
    let id = first.id();
    assert!(is_uuid_v7(&id), "{id}");
    for name in ["item_code", "quantity", "reserved_by", "note"] {
        assert_eq!(reservation[name], body[name]);
    }
    for name in ["starts_at", "ends_at", "created_at", "updated_at"] {
        let time = reservation[name].as_str().unwrap();
        assert!(time.ends_with('Z') && time.contains('T'), "{name}: {time}");
    }
    assert!(reservation["starts_at"].as_str().unwrap().starts_with("2031-05-06T01:00:00"), "{reservation}");
    assert!(first.header("location").unwrap().ends_with(&format!("/reservations/{id}")));
    assert!(first.etag().starts_with('"') && first.etag().ends_with('"') && first.etag().len() > 2);
    assert_eq!(first.header("content-type").unwrap().split(';').next(), Some("application/json"));

    let sent = &upstream.posts(&body)[0];
    assert_eq!(sent.path, "/bookings");
    assert_eq!(sent.head.header("idempotency-key"), Some(format!("\"{id}\"").as_str()));
    assert!(sent.head.header("authorization").unwrap().contains("token-for-there"));
    assert_eq!(sent.head.header("traceparent").unwrap().len(), 55);
    assert_eq!(sent.body["reference"], id.as_str());
    for name in ["item_code", "quantity", "reserved_by", "note"] {
        assert_eq!(sent.body[name], body[name]);
    }

    let read = service.get(first.header("location").unwrap()).await;
    assert_eq!((read.status, read.json(), read.etag()), (200, reservation, first.etag()));

    // 200 there means the same as 201.
    let body = case.body();
    upstream.on_post(&body, [vec![Answer200]]);
    service.post(&case.key(), &body).await.expect_created();
}

/// B24
async fn a_key_in_progress_answers_409_to_its_request_and_422_to_any_other(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "7s").set("BOOKING_TIMEOUT", "9s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("go on"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    let reference = upstream.post_arrives(&body).await.body["reference"].clone();
    let again = service.post(&key, &body).await;
    again.expect_problem(409, "key-in-progress");
    assert!((1..=7).contains(&again.retry_after()), "{again:?}");
    let other = service.post(&key, &changed(&body, json!({"quantity": 2}))).await;
    other.expect_problem(422, "key-reused");
    assert!(other.header("retry-after").is_none(), "{other:?}");
    let record = service.key_record(&key).await.unwrap();
    assert_eq!((&record["state"], &record["attempt"], &record["reservation_id"]), (&json!("in_progress"), &json!(1), &reference));
    assert!(record["lease_remaining_ms"].as_i64().is_some_and(|ms| (0..=7000).contains(&ms)), "{record}");
    assert_eq!(service.reservation(reference.as_str().unwrap()).await.json()["status"], "pending");
    upstream.open_gate("go on");
    let first = first.await.unwrap();
    assert_eq!(first.expect_created()["id"], reference);
    service.post(&key, &body).await.expect_replay_of(&first);
    let record = service.key_record(&key).await.unwrap();
    assert_eq!((&record["state"], record["completed_at"].is_string(), record["expires_at"].is_string()), (&json!("completed"), true, true));
    assert_eq!(upstream.posts(&body).len(), 1);
}

/// B29
async fn a_lapsed_key_is_taken_over_by_the_next_retry(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("SCHEDULER", "off").set("LEASE", "2s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Silence], vec![Answer]]);
    let _lost = service.post(&key, &body).sent().await.unwrap();
    let booking = upstream.is_booked(&body).await;
    service.kill_9();
    service.start_again().await;
    let early = service.post(&key, &body).await;
    early.expect_problem(409, "key-in-progress");
    assert!((1..=2).contains(&early.retry_after()), "{early:?}");
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.id(), reply.json()["booking_id"].as_str()), (booking.reference.clone(), Some(booking.booking_id.as_str())));
    assert!(upstream.requests("GET").iter().any(|r| r.path == format!("/bookings/{}", booking.reference)), "nobody looked it up");
    assert!(service.key_record(&key).await.unwrap()["attempt"].as_i64().unwrap() >= 2);
}

async fn what_is_absent_there_is_released_and_runs_again_under_its_reference(case: &Case) {
    let upstream = case.upstream_that(false, true).await;
    let service = case.api(&upstream).set("LEASE", "1s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Silence], vec![Answer]]);
    let _lost = service.post(&key, &body).sent().await.unwrap();
    let reference = upstream.post_arrives(&body).await.body["reference"].as_str().unwrap().to_owned();
    service.kill_9();
    service.start_again().await;
    eventually("the key is released", async || (service.key_state(&key).await? == "released").then_some(())).await;
    assert_eq!(service.reservation(&reference).await.json()["status"], "released");
    service.post(&key, &changed(&body, json!({"quantity": 2}))).await.expect_problem(422, "key-reused");
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, reply.id()), (201, reference.clone()));
    assert_eq!(upstream.posts(&body).len(), 2);
    assert!(upstream.posts(&body).iter().all(|p| p.body["reference"] == reference.as_str()));
}

/// B32
async fn what_nobody_can_tell_is_said_and_never_sent_twice(case: &Case) {
    let upstream = case.upstream_that(false, false).await;
    let service = case.api(&upstream).set("LEASE", "1s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Status(504)], vec![Answer]]);
    service.post(&key, &body).await.expect_problem(503, "outcome-pending");
    eventually("the outcome is unknown", async || (service.key_state(&key).await? == "outcome_unknown").then_some(())).await;
    for _ in 0..3 {
        service.post(&key, &body).await.expect_problem(409, "outcome-unknown");
        pass(500).await;
    }
    service.post(&key, &changed(&body, json!({"quantity": 2}))).await.expect_problem(422, "key-reused");
    assert_eq!(service.reservation(&upstream.bookings()[0].reference).await.json()["status"], "pending");
    assert_eq!((upstream.posts(&body).len(), upstream.requests("GET").len()), (1, 0));
}

async fn a_caller_who_waits_too_long_is_told_that_it_is_pending(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "20s").set("BOOKING_TIMEOUT", "1s").set("ANSWER_WITHIN", "1s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Silence]]);
    upstream.on_lookup([vec![Silence], vec![Answer]]);
    service.post(&key, &body).await.expect_problem(503, "outcome-pending");
    let reply = service.settle(&key, &body).await;
    assert_eq!(reply.id(), upstream.bookings()[0].reference);
}
