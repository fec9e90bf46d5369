//! The caller's connection breaks; the work does not.

use super::support::prelude::*;
use super::support::wire::Wire;

use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

tests!(both [
    work_goes_on_when_the_caller_hangs_up,
    work_goes_on_whenever_in_the_call_the_caller_goes,
    a_proxy_that_gives_up_changes_nothing,
]);

/// B27
async fn work_goes_on_when_the_caller_hangs_up(case: &Case) {
    let upstream = case.upstream().await;
    // A lease that outlasts the test: the end must come from the first attempt, not from a recovery.
    let service = case.api(&upstream).set("LEASE", "60s").set("BOOKING_TIMEOUT", "20s").start().await;
    for reset in [false, true] {
        let (key, body) = (case.key(), case.body());
        let gate = if reset { "after the reset" } else { "after the farewell" };
        upstream.on_post(&body, [vec![Gate(gate), Answer]]);
        let wire = service.post(&key, &body).sent().await.unwrap();
        upstream.post_arrives(&body).await;
        if reset {
            end_by_reset(wire);
        } else {
            drop(wire);
        }
        pass(200).await;
        upstream.open_gate(gate);
        let reply = service.settle(&key, &body).await;
        assert_eq!((reply.status, reply.is_replay()), (201, true), "{reply:?}");
        assert_eq!(service.key_record(&key).await.unwrap()["attempt"], 1);
        assert_eq!(upstream.posts(&body).len(), 1);
    }
}

/// B27: a proxy between them waits a second, answers 504 with a page of its own and hangs up; the retry through it gets the answer.
async fn a_proxy_that_gives_up_changes_nothing(case: &Case) {
    let upstream = case.upstream().await;
    // A lease that outlasts the test: the end must come from the first attempt, not from a recovery.
    let service = case.api(&upstream).set("LEASE", "60s").set("BOOKING_TIMEOUT", "20s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("after the proxy gave up"), Answer]]);
    let proxy = impatient_proxy(service.port()).await;
    let through_the_proxy = service.post(&key, &body).through(proxy);
    let gone = through_the_proxy.clone().unwatched().await;
    assert_eq!((gone.status, gone.header("content-type")), (504, Some("text/html")), "{gone:?}");
    // As often as it likes: a running key is not begun again.
    let busy = through_the_proxy.clone().await;
    assert!((1..=60).contains(&busy.expect_problem(409, "key-in-progress").retry_after()));
    assert_eq!(through_the_proxy.clone().prefer("wait=5").unwatched().await.status, 504);
    upstream.open_gate("after the proxy gave up");
    let reply = through_the_proxy.until_final().await;
    assert_eq!((reply.status, reply.is_replay()), (201, true), "{reply:?}");
    assert_eq!(service.key_record(&key).await.unwrap()["attempt"], 1);
    assert_eq!((upstream.posts(&body).len(), upstream.bookings_of(&body).len()), (1, 1));
    service.reservation(&reply.id()).await.expect_same_reservation(&reply);
}

/// Passes a request on and its answer back, if that comes within a second. The port it listens on.
async fn impatient_proxy(to: u16) -> u16 {
    const PAGE: &str = "HTTP/1.1 504 Gateway Timeout\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>Gave up.</p>";
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                let carry = tokio::io::copy_bidirectional(&mut caller, &mut server);
                if tokio::time::timeout(Duration::from_secs(1), carry).await.is_err() {
                    drop(server);
                    caller.write_all(PAGE.as_bytes()).await.unwrap();
                }
            });
        }
    });
    port
}

/// B27
async fn work_goes_on_whenever_in_the_call_the_caller_goes(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "60s").set("BOOKING_TIMEOUT", "20s").start().await;
    let requests: Vec<_> = (0..24).map(|_| (case.key(), case.body())).collect();
    together(requests.iter().enumerate().map(|(n, (key, body))| {
        let service = &service;
        upstream.on_post(body, [vec![After(150), Answer]]);
        Box::pin(async move {
            let wire = service.post(key, body).sent().await.unwrap();
            // From before the claim to after the answer.
            pass(n as u64 * 12).await;
            end_by_reset(wire);
        })
    }))
    .await;
    for (key, body) in &requests {
        // One that was gone before it was read is a new request; one that was read was finished without it.
        let reply = service.settle(key, body).await;
        assert_eq!((reply.status, upstream.posts(body).len()), (201, 1));
    }
}

/// Ends the connection with a reset instead of a farewell.
fn end_by_reset(wire: Wire) {
    let _ = wire.stream.set_zero_linger();
}
