//! The caller's connection breaks; the work does not.

use super::support::prelude::*;

tests!(both [work_goes_on_when_the_caller_hangs_up, work_goes_on_whenever_in_the_call_the_caller_goes]);

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
            wire.reset();
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
            wire.reset();
        })
    }))
    .await;
    for (key, body) in &requests {
        // One that was gone before it was read is a new request; one that was read was finished without it.
        let reply = service.settle(key, body).await;
        assert_eq!((reply.status, upstream.posts(body).len()), (201, 1));
    }
}
