//! What a caller does on an ordinary day, and on a bad one.

use super::support::prelude::*;

tests!(both [
    a_request_without_a_key_is_refused_and_books_nothing,
    the_same_key_twice_gives_the_same_bytes_and_one_booking,
    another_body_under_the_key_is_refused_another_member_order_is_not,
    ten_at_once_under_one_key_book_once,
    ten_at_once_that_wait_all_get_the_one_answer,
    ten_keys_make_ten_reservations,
    an_expired_key_is_as_good_as_new_before_anything_deletes_it,
    failed_work_frees_the_key,
]);

async fn a_request_without_a_key_is_refused_and_books_nothing(case: &Case) {
    let (upstream, service) = case.started().await;
    let reply = service.request("POST", "/reservations").json(&case.body()).await;
    reply.expect_problem(400, "key-missing");
    assert_eq!(upstream.everything(), 0);
}

/// B21
async fn the_same_key_twice_gives_the_same_bytes_and_one_booking(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    let reservation = first.expect_created();
    for name in ["item_code", "quantity", "reserved_by"] {
        assert_eq!(reservation[name], body[name]);
    }
    for _ in 0..2 {
        service.post(&key, &body).await.expect_replay_of(&first);
    }
    assert_eq!(upstream.posts(&body).len(), 1);
    assert_eq!(upstream.bookings_of(&body)[0].booking_id, reservation["booking_id"].as_str().unwrap());
}

/// B09
async fn another_body_under_the_key_is_refused_another_member_order_is_not(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    first.expect_created();
    service.post(&key, &changed(&body, json!({"quantity": 2}))).await.expect_problem(422, "key-reused");
    let item = &body["item_code"];
    let reordered = format!("{{ \"reserved_by\": \"hanako\",\n \"item_code\": {item}, \"quantity\": 1 }}\n");
    service.request("POST", "/reservations").key(&key).body(reordered).await.expect_replay_of(&first);
    assert_eq!(upstream.bookings_of(&body).len(), 1);
}

/// B36
async fn ten_at_once_under_one_key_book_once(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "10s").set("BOOKING_TIMEOUT", "9s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("all are here"), Answer]]);
    let replies: Vec<_> = (0..10).map(|_| service.post(&key, &body).in_flight()).collect();
    upstream.post_arrives(&body).await;
    // The other nine are told at once; the one that books waits for the gate.
    eventually("nine are told to come again", async || (replies.iter().filter(|r| r.is_finished()).count() == 9).then_some(())).await;
    upstream.open_gate("all are here");
    let mut created = Vec::new();
    for reply in together(replies).await {
        let reply = reply.unwrap();
        if reply.status == 201 {
            created.push(reply);
            continue;
        }
        reply.expect_problem(409, "key-in-progress");
        assert!((1..=10).contains(&reply.retry_after()), "{reply:?}");
    }
    assert_eq!(created.len(), 1);
    created[0].expect_created();
    service.post(&key, &body).await.expect_replay_of(&created[0]);
    assert_eq!(upstream.posts(&body).len(), 1);
}

async fn ten_at_once_that_wait_all_get_the_one_answer(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("ON_DUPLICATE", "wait").set("LEASE", "10s").set("BOOKING_TIMEOUT", "9s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![After(500), Answer]]);
    let replies = together((0..10).map(|_| service.post(&key, &body))).await;
    assert_eq!(replies.iter().filter(|r| !r.is_replay()).count(), 1, "{replies:?}");
    assert!(replies.iter().all(|r| r.status == 201 && r.stored_part() == replies[0].stored_part()), "{replies:?}");
    assert_eq!(upstream.posts(&body).len(), 1);
}

async fn ten_keys_make_ten_reservations(case: &Case) {
    let (upstream, service) = case.started().await;
    let body = case.body();
    let replies = together((0..10).map(|_| service.post(&case.key(), &body))).await;
    let mut ids: Vec<_> = replies.iter().map(|r| r.expect_created()["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), upstream.bookings_of(&body).len()), (10, 10));
    case.expect_no_orphans(&upstream, &service).await;
}

/// B45
async fn an_expired_key_is_as_good_as_new_before_anything_deletes_it(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("KEY_RETENTION", "7s").set("LEASE", "6s").set("SCHEDULER", "off").start().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    first.expect_created();
    eventually("the key expires", async || service.key_state(&key).await.is_none().then_some(())).await;
    case.ledger.new_life(&key);
    // Another body, and two of it at once: exactly one is the new first.
    let other = changed(&body, json!({"quantity": 3}));
    upstream.on_post(&body, [vec![After(300), Answer]]);
    let replies = together([service.post(&key, &other).prefer("wait=5"), service.post(&key, &other).prefer("wait=5")]).await;
    assert_eq!(replies.iter().filter(|r| r.status == 201 && !r.is_replay()).count(), 1, "{replies:?}");
    assert_eq!(replies[0].stored_part(), replies[1].stored_part());
    assert_ne!(replies[0].id(), first.id());
    assert_eq!(replies[0].json()["quantity"], 3);
    assert_eq!(upstream.posts(&body).len(), 2);
    // What was reserved under the key outlives the key.
    assert_eq!(service.reservation(&first.id()).await.json()["status"], "confirmed");
}

/// B15, B16
async fn failed_work_frees_the_key(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "20s").start().await;
    let (key, body) = (case.key(), case.body());
    service.request("POST", "/reservations").key(&key).body("{\"item_code\":").await.expect_problem(400, "request-invalid");
    service.post(&key, &changed(&body, json!({"quantity": 0}))).await.expect_problem(400, "request-invalid");
    assert_eq!(service.key_state(&key).await, None);
    upstream.close();
    service.post(&key, &body).await.expect_problem(503, "booking-system-unavailable");
    assert_eq!(service.key_state(&key).await, None);
    upstream.open().await;
    // The key belongs to no request any more, so even another body may have it.
    service.post(&key, &changed(&body, json!({"quantity": 2}))).await.expect_created();
    assert_eq!(upstream.bookings_of(&body).len(), 1);
}
