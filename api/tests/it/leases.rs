//! Whose a key is: how long a dead worker keeps it, how long a living one fights for its answer, and what a herd of callers is told.

use super::support::Engine;
use super::support::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

tests!(both [
    a_dead_worker_keeps_its_key_for_the_rest_of_its_lease_and_no_longer,
    a_claim_that_took_most_of_its_lease_is_renewed_before_the_call,
    a_claim_that_comes_through_after_its_caller_was_refused_sends_nothing,
    an_answer_is_stored_as_soon_as_the_database_lets_it,
    a_completed_key_without_an_answer_is_flagged_and_harms_nobody_else,
    a_herd_on_one_key_is_spread_and_costs_nobody_else,
]);

/// B29: killed (a) after the claim and before the call, (b) after the booking and before the finalize.
async fn a_dead_worker_keeps_its_key_for_the_rest_of_its_lease_and_no_longer(case: &Case) {
    const LEASE_MS: i64 = 4000;
    for booked in [false, true] {
        let upstream = case.upstream().await;
        let setup = case.api(&upstream).set("LEASE", format!("{LEASE_MS}ms")).set("BOOKING_TIMEOUT", "10s").set("ANSWER_WITHIN", "20s");
        let service = setup.set("SCHEDULER", "off").start().await;
        let (key, body) = (case.key(), case.body());
        if booked {
            upstream.on_post(&body, [vec![Book, Silence], vec![Answer]]);
        } else {
            upstream.go_deaf();
        }
        let _lost = service.post(&key, &body).sent().await.unwrap();
        match booked {
            true => drop(upstream.is_booked(&body).await),
            false => eventually("the service calls", async || (upstream.connections() > 0).then_some(())).await,
        }
        service.kill_9();
        upstream.hear_again();
        service.start_again().await;
        // Until its lease has lapsed a retry is told to come back, never later than that.
        let mut told = 0;
        let lapsed = loop {
            let left_ms = service.key_record(&key).await.unwrap()["lease_remaining_ms"].as_i64().unwrap();
            assert!((0..=LEASE_MS).contains(&left_ms), "a dead worker's lease has {left_ms} ms left");
            let reply = service.post(&key, &body).await;
            match reply.status {
                409 => {
                    reply.expect_problem(409, "key-in-progress");
                    assert!(left_ms > 0, "nobody has the key, and a retry is refused");
                    assert!((1..=left_ms.div_euclid(1000) + 1).contains(&(reply.retry_after() as i64)), "{left_ms} ms left: {reply:?}");
                    told += 1;
                }
                _ => break reply,
            }
            pass(200).await;
        };
        assert!(told > 0, "the restart took longer than the lease: nothing was shown");
        let reply = if lapsed.is_final() { lapsed } else { service.settle(&key, &body).await };
        assert_eq!((reply.status, upstream.bookings_of(&body).len()), (201, 1), "{reply:?}");
        case.expect_no_orphans(&upstream, &service).await;
    }
}

/// The database lets the claim wait until too little of the lease is left to send: that is no reason to refuse the caller.
async fn a_claim_that_took_most_of_its_lease_is_renewed_before_the_call(case: &Case) {
    let upstream = case.upstream().await;
    let setup = case.api(&upstream).set("LEASE", "6s").set("BOOKING_CONNECT_TIMEOUT", "3s").set("BOOKING_TIMEOUT", "5s");
    let service = setup.set("DATABASE_ACQUIRE_TIMEOUT", "20s").start().await;
    let (key, body) = (case.key(), case.body());
    let blocked = case.database.block_writes().await;
    let first = service.post(&key, &body).in_flight();
    pass(4000).await;
    blocked.release().await;
    let first = first.await.unwrap();
    first.expect_created();
    assert_eq!(service.key_record(&key).await.unwrap()["attempt"], 1);
    assert_eq!(upstream.posts(&body).len(), 1);
}

/// "This request sent nothing" stays true, also when the database lets the claim through a moment later.
async fn a_claim_that_comes_through_after_its_caller_was_refused_sends_nothing(case: &Case) {
    let upstream = case.upstream().await;
    let setup = case.api(&upstream).set("LEASE", "60s").set("DATABASE_ACQUIRE_TIMEOUT", "1s").set("SCHEDULER", "off");
    let service = setup.start().await;
    // Whether a claim comes through late is for the database to say; whatever the order, nothing may be sent.
    for _ in 0..5 {
        let (ahead, key, body) = (case.key(), case.key(), case.body());
        let blocked = case.database.block_writes().await;
        // On SQLite one statement waits for the lock at a time, so the second claim still waits when its caller is told.
        let first = service.post(&ahead, &case.body()).in_flight();
        pass(500).await;
        service.post(&key, &body).await.expect_problem(503, "storage-unavailable");
        blocked.release().await;
        first.await.unwrap().expect_problem(503, "storage-unavailable");
        pass(500).await;
        let came_through = service.key_record(&key).await.is_some();
        assert!(upstream.posts(&body).is_empty(), "sent, though its caller was told that nothing was");
        let reply = service.settle(&key, &body).await;
        assert_eq!((reply.status, upstream.posts(&body).len()), (201, 1), "{reply:?}");
        if came_through {
            // The claim that was refused counts as an attempt: its lease was ended, and the retry took over.
            assert_eq!(service.key_record(&key).await.unwrap()["attempt"], 2);
            return;
        }
    }
    panic!("no claim came through late");
}

/// B34: for a while nothing can be written, but not for as long as the lease: the first caller gets the answer, from the first attempt.
async fn an_answer_is_stored_as_soon_as_the_database_lets_it(case: &Case) {
    let upstream = case.upstream().await;
    let setup = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "500ms").set("LEASE", "60s").set("BOOKING_TIMEOUT", "20s");
    let service = setup.set("ANSWER_WITHIN", "50s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("answer now"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    let blocked = case.database.block_writes().await;
    upstream.open_gate("answer now");
    upstream.is_booked(&body).await;
    // Many times what a request waits for the database.
    pass(3000).await;
    assert!(!first.is_finished(), "an answer left before it was stored");
    blocked.release().await;
    let first = first.await.unwrap();
    first.expect_created();
    assert_eq!(service.key_record(&key).await.unwrap()["attempt"], 1);
    service.post(&key, &body).await.expect_replay_of(&first);
    assert_eq!(upstream.posts(&body).len(), 1);
}

/// B34: the schema refuses such a row; where somebody has switched that off, it is neither "in progress" nor an empty success.
async fn a_completed_key_without_an_answer_is_flagged_and_harms_nobody_else(case: &Case) {
    let (upstream, service) = case.started().await;
    let rows: Vec<_> = (0..3).map(|_| (case.key(), case.body())).collect();
    let mut firsts = Vec::new();
    for (key, body) in &rows {
        firsts.push(service.post(key, body).await);
    }
    let row = |n: usize| format!("WHERE reference = '{}'", firsts[n].id());
    let nothing = "answer_status = NULL, answer_content_type = NULL, answer_location = NULL, answer_etag = NULL, answer_body = NULL";
    let (empty, off) = match case.engine {
        Engine::Sqlite => ("answer_body = x''", "PRAGMA ignore_check_constraints = ON"),
        Engine::Postgres => ("answer_body = ''", "ALTER TABLE idempotency_key DROP CONSTRAINT idempotency_key_answer"),
    };
    for change in [nothing, empty] {
        assert!(case.database.refuses(&format!("UPDATE idempotency_key SET {change} {}", row(0))).await, "{change}");
    }
    let spoil = |change: &str, n| format!("UPDATE idempotency_key SET {change} {}", row(n));
    case.database.execute(&format!("{off}; {}; {}", spoil(nothing, 0), spoil(empty, 1))).await;
    let other = case.api(&upstream).start().await;
    for process in [&service, &other] {
        for (key, body) in &rows[..2] {
            process.post(key, body).await.expect_problem(500, "internal");
        }
        process.post(&rows[2].0, &rows[2].1).await.expect_replay_of(&firsts[2]);
    }
    assert!(service.log().contains("unreadable"), "nobody is told");
    let list = case.jobs(&upstream).arguments(["keys", "list"]).run().await;
    assert!(list.expect_success().output.contains(&firsts[2].id()), "{list:?}");
    assert!(list.complaint.contains(&firsts[0].id()), "the tool does not name the row: {list:?}");
    assert_eq!(upstream.everything(), 3, "something was sent again");
}

/// B36
async fn a_herd_on_one_key_is_spread_and_costs_nobody_else(case: &Case) {
    const HERD: usize = 500;
    let upstream = case.upstream().await;
    let setup = case.api(&upstream).set("LEASE", "60s").set("BOOKING_TIMEOUT", "50s").set("ANSWER_WITHIN", "50s");
    // A refusal for want of a connection would be no matter of a slow machine.
    let service = setup.set("DATABASE_ACQUIRE_TIMEOUT", "30s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("go on"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    let begun = Instant::now();
    let herd: Vec<_> = (1..HERD)
        .map(|_| {
            let request = service.post(&key, &body);
            tokio::spawn(async move {
                let mut returns = Vec::new();
                loop {
                    let reply = request.clone().attempt().await.expect("an answer");
                    if reply.status == 201 {
                        return (reply, returns);
                    }
                    reply.expect_problem(409, "key-in-progress");
                    assert!((1..=60).contains(&reply.retry_after()), "{reply:?}");
                    returns.push(reply.retry_after());
                    tokio::time::sleep(Duration::from_secs(reply.retry_after())).await;
                }
            })
        })
        .collect();
    // Meanwhile others are served, and never for want of a connection refused.
    for reply in together((0..20).map(|_| service.post(&case.key(), &case.body()))).await {
        reply.expect_created();
    }
    pass(Duration::from_millis(5000).saturating_sub(begun.elapsed()).as_millis() as u64).await;
    upstream.open_gate("go on");
    let first = first.await.unwrap();
    first.expect_created();
    let mut told = BTreeMap::<u64, usize>::new();
    for member in herd {
        let (reply, returns) = member.await.unwrap();
        reply.expect_replay_of(&first);
        if let Some(first_wait) = returns.first() {
            *told.entry(*first_wait).or_default() += 1;
        }
    }
    // They came together; no second may see more than three in ten of them again.
    let all: usize = told.values().sum();
    assert!(all > HERD * 9 / 10, "only {all} were told to come back");
    assert!(told.values().all(|n| n * 10 <= all * 3), "they come back in waves: {told:?}");
    assert_eq!(upstream.posts(&body).len(), 1);
}
