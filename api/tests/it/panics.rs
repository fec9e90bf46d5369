//! A panic costs the one request or run in which it happens.

use super::support::prelude::*;

tests!(both [
    a_panic_before_the_work_is_an_answer,
    a_panic_during_the_work_is_a_lapsed_lease,
    a_panic_in_a_job_costs_one_run,
]);

/// B53
async fn a_panic_before_the_work_is_an_answer(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("PANIC_AT", "list reservations:before").start().await;
    for _ in 0..3 {
        service.get("/reservations").await.expect_problem(500, "internal");
    }
    service.post(&case.key(), &case.body()).await.expect_created();
}

/// The caller is told what is known, and whoever comes next finds the booking.
async fn a_panic_during_the_work_is_a_lapsed_lease(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "2s").set("PANIC_AT", "book:after").start().await;
    let (key, body) = (case.key(), case.body());
    service.post(&key, &body).await.expect_problem(503, "outcome-pending");
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, upstream.posts(&body).len()), (201, 1));
}

/// B40
async fn a_panic_in_a_job_costs_one_run(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("PANIC_AT", "take over:before").start().await;
    eventually("the release job has panicked more than once", async || {
        (service.log().matches("told to panic at take over").count() > 2).then_some(())
    })
    .await;
    service.post(&case.key(), &case.body()).await.expect_created();
    eventually("the other job succeeds all the same", async || {
        let ready = service.get("/health/ready").await.json();
        let succeeded: Vec<_> = ready["jobs"].as_array()?.iter().filter_map(|job| job["job"].as_str()).collect();
        assert!(!succeeded.contains(&"release-stale-leases"), "{ready}");
        succeeded.contains(&"delete-expired-keys").then_some(())
    })
    .await;
    drop(service);
    // The next process does what is left.
    case.api(&upstream).start().await.post(&case.key(), &case.body()).await.expect_created();
}
