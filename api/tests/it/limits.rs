//! What one caller takes must not be missing to another.

use super::support::prelude::*;
use super::support::wire::Unframed;
use std::time::{Duration, Instant};

tests!(both [a_hundred_slow_senders_and_endless_ones_cost_nobody_else, the_rate_limit_counts_neither_replays_nor_refusals]);

/// B28
async fn a_hundred_slow_senders_and_endless_ones_cost_nobody_else(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("BODY_TIMEOUT", "6s").start().await;
    let post = |_| service.request("POST", "/reservations").key(&case.key()).header("Content-Type", "application/json");
    let mut alone = Vec::new();
    for _ in 0..100 {
        let started = Instant::now();
        service.post(&case.key(), &case.body()).await.expect_created();
        alone.push(started.elapsed());
        pass(10).await;
    }
    alone.sort();
    let idle_kib = service.peak_memory_kib().unwrap_or_default();

    let senders: Vec<_> = (0..100)
        .map(|n| {
            let request = post(n).header("Content-Length", "60000");
            tokio::spawn(async move {
                let mut wire = request.sent().await.unwrap();
                while wire.write(b" ").await.is_ok() {
                    if let Ok(message) = tokio::time::timeout(Duration::from_secs(1), wire.read(Unframed::UntilClose)).await {
                        return message.ok().map(Reply::new);
                    }
                }
                None
            })
        })
        .collect();
    let endless: Vec<_> = (0..20)
        .map(|n| {
            let request = post(n).header("Transfer-Encoding", "chunked");
            tokio::spawn(async move {
                let mut wire = request.sent().await.unwrap();
                let chunk = [b"4000\r\n".as_slice(), &[b' '; 0x4000], b"\r\n"].concat();
                while wire.write(&chunk).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                wire.read(Unframed::UntilClose).await.ok().map(Reply::new)
            })
        })
        .collect();

    let mut times = Vec::new();
    while !senders.iter().all(tokio::task::JoinHandle::is_finished) {
        let started = Instant::now();
        service.post(&case.key(), &case.body()).await.expect_created();
        times.push(started.elapsed());
        pass(10).await;
    }
    times.sort();
    for sender in senders {
        sender.await.unwrap().expect("an answer").expect_problem(408, "request-timeout");
    }
    for sender in endless {
        // It never reads while it writes, so the answer may be lost with the connection.
        if let Some(reply) = sender.await.unwrap() {
            // On a machine so slow that the limit is not reached within the time, the time is what ends it.
            match reply.status {
                408 => reply.expect_problem(408, "request-timeout"),
                _ => reply.expect_problem(413, "body-too-large"),
            };
        }
    }
    let peak_kib = service.peak_memory_kib().unwrap_or_default();
    eprintln!(
        "alone: median {:?}, 99 of 100 within {:?}; beside 100 senders of a byte a second and 20 of endless bodies: {} reservations, \
         median {:?}, 99 of 100 within {:?}; peak memory {} MiB, {} MiB before",
        alone[50],
        alone[98],
        times.len(),
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        peak_kib / 1024,
        idle_kib / 1024,
    );
    // 100 bodies of at most 64 KiB are 6 MiB; one endless body alone would be more than this within seconds.
    assert!(peak_kib < idle_kib + 64 * 1024, "{idle_kib} KiB before, {peak_kib} KiB at most");
}

/// B18
async fn the_rate_limit_counts_neither_replays_nor_refusals(case: &Case) {
    let upstream = case.upstream().await;
    let tokens = "acme:acme-token-1,other:other-token-1";
    let service = case.api(&upstream).set("RATE_LIMIT", "3/h").set("API_TOKENS", tokens).start().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    first.expect_created();
    for _ in 0..20 {
        service.post(&key, &body).await.expect_replay_of(&first);
        service.post(&key, &changed(&body, json!({"quantity": 2}))).await.expect_problem(422, "key-reused");
        service.request("POST", "/reservations").key(&case.key()).body("{").await.expect_problem(400, "request-invalid");
        // What is refused for the reservation's sake makes no key either.
        let change = json!({"quantity": 2});
        service.patch(&first.id(), &case.key(), "\"old\"", &change).await.expect_problem(412, "version-stale");
        service.patch(&case.key(), &case.key(), "*", &change).await.expect_problem(404, "not-found");
    }
    // Ten at once under one key make one key; one that was freed is counted again.
    let (at_once, item) = (case.key(), case.body());
    upstream.on_post(&item, [vec![Busy(429, "1")], vec![After(300), Answer]]);
    service.post(&at_once, &item).await.expect_problem(503, "booking-system-busy");
    let told: Vec<_> = together((0..10).map(|_| service.post(&at_once, &item))).await.iter().map(|reply| reply.status).collect();
    assert!(told.contains(&201) && told.iter().all(|status| matches!(status, 201 | 409)), "{told:?}");
    let limited = service.post(&case.key(), &case.body()).await;
    limited.expect_problem(429, "too-many-requests");
    assert!((600..=1201).contains(&limited.retry_after()), "{limited:?}");
    // Each account has its own; and after a restart, which forgets which keys are known, a replay is still none.
    service.post(&case.key(), &case.body()).token("other-token-1").await.expect_created();
    service.kill_9();
    service.start_again().await;
    for _ in 0..5 {
        service.post(&key, &body).await.expect_replay_of(&first);
    }
    for status in [201, 201, 201, 429] {
        assert_eq!(service.post(&case.key(), &case.body()).await.status, status);
    }
}
