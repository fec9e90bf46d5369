//! The two scheduled jobs: as one run, as a process of their own, several at once, and after bad times.

use super::support::prelude::*;

tests!(both [
    cleanup_deletes_what_has_expired_and_nothing_else,
    without_a_booking_url_only_the_cleanup_runs,
    many_release_jobs_at_once_settle_each_key_once,
    the_jobs_run_as_a_process_of_their_own,
    one_scheduler_dies_the_other_goes_on,
    a_scheduler_outlives_bad_times_of_the_database,
    a_scheduler_that_stood_still_goes_on,
]);

/// A key whose worker is gone although the booking exists.
pub(super) async fn abandoned(case: &Case, upstream: &Upstream, how_many: usize) -> Vec<(String, Value)> {
    let setup = case.api(upstream).set("SCHEDULER", "off").set("LEASE", "1s").set("BOOKING_TIMEOUT", "15s");
    let service = setup.start().await;
    let keys: Vec<_> = (0..how_many).map(|_| (case.key(), case.body())).collect();
    let mut lost = Vec::new();
    for (key, body) in &keys {
        upstream.on_post(body, [vec![Book, Silence], vec![Answer]]);
        lost.push(service.post(key, body).sent().await.unwrap());
    }
    for (_, body) in &keys {
        upstream.is_booked(body).await;
    }
    service.kill_9();
    keys
}

pub(super) async fn are_completed(service: &Service, keys: &[(String, Value)]) {
    for (key, _) in keys {
        eventually("the key is completed", async || (service.key_state(key).await? == "completed").then_some(())).await;
    }
}

/// B43, B45
async fn cleanup_deletes_what_has_expired_and_nothing_else(case: &Case) {
    let upstream = case.upstream_that(false, false).await;
    let setup = || case.api(&upstream).set("SCHEDULER", "off").set("LEASE", "1s");
    let short_lived = setup().set("KEY_RETENTION", "2s").start().await;
    let long_lived = setup().start().await;
    let expired = short_lived.post(&case.key(), &case.body()).await;
    let (kept_key, kept_body) = (case.key(), case.body());
    let kept = long_lived.post(&kept_key, &kept_body).await;
    let unknown = (case.key(), case.body());
    upstream.on_post(&unknown.1, [vec![Book, Status(500)]]);
    short_lived.post(&unknown.0, &unknown.1).await.expect_problem(503, "outcome-pending");
    pass(2500).await;
    let rows = |id: String| async move { case.database.rows_with(&id).await };
    let (before, kept_before) = (rows(expired.id()).await, rows(kept.id()).await);
    let setup = case.jobs(&upstream).set("KEY_RETENTION", "2s").set("LEASE", "1s").arguments(["--once", "--job", "cleanup"]);
    setup.run().await.expect_success();
    assert!(rows(expired.id()).await < before, "the expired key's row is still there");
    assert_eq!(rows(kept.id()).await, kept_before);
    // The reservation itself is permanent.
    assert_eq!(long_lived.reservation(&expired.id()).await.json()["status"], "confirmed");
    long_lived.post(&kept_key, &kept_body).await.expect_replay_of(&kept);
    let state = long_lived.key_state(&unknown.0).await;
    assert!(matches!(state.as_deref(), Some("in_progress" | "outcome_unknown")), "{state:?}");
}

async fn without_a_booking_url_only_the_cleanup_runs(case: &Case) {
    let (upstream, service) = case.started().await;
    service.post(&case.key(), &case.body()).await.expect_created();
    let jobs = || case.jobs(&upstream).unset("BOOKING_URL");
    let refused = jobs().arguments(["--once", "--job", "release"]).run().await;
    assert!(refused.expect_refusal().complaint.contains("BOOKING_URL"), "{refused:?}");
    let refused = jobs().run().await;
    assert!(refused.expect_refusal().complaint.contains("BOOKING_URL"), "{refused:?}");
    jobs().arguments(["--once", "--job", "cleanup"]).run().await.expect_success();
    jobs().arguments(["keys", "list"]).run().await.expect_success();
}

/// B38
async fn many_release_jobs_at_once_settle_each_key_once(case: &Case) {
    let upstream = case.upstream().await;
    let keys = abandoned(case, &upstream, 12).await;
    upstream.on_lookup([vec![After(300), Answer]]);
    pass(1200).await;
    let runs = together((0..4).map(|_| Box::pin(case.jobs(&upstream).set("BOOKING_TIMEOUT", "5s").arguments(["--once"]).run()))).await;
    for ended in &runs {
        ended.expect_success();
    }
    let service = case.api(&upstream).set("SCHEDULER", "off").start().await;
    are_completed(&service, &keys).await;
    for (key, body) in &keys {
        let asked = upstream.requests("GET").iter().filter(|r| r.path.ends_with(&upstream.bookings_of(body)[0].reference)).count();
        assert_eq!(asked, 1, "a key was looked up by several jobs at once");
        let reply = service.post(key, body).await;
        assert_eq!((reply.status, reply.is_replay()), (201, true), "{reply:?}");
    }
    case.expect_no_orphans(&upstream, &service).await;
}

async fn the_jobs_run_as_a_process_of_their_own(case: &Case) {
    let upstream = case.upstream().await;
    let keys = abandoned(case, &upstream, 3).await;
    let jobs = case.jobs(&upstream).spawn();
    let service = case.api(&upstream).set("SCHEDULER", "off").start().await;
    are_completed(&service, &keys).await;
    jobs.terminate();
    assert_eq!(jobs.ends().await, Some(0), "{}", jobs.log());
}

/// B39
async fn one_scheduler_dies_the_other_goes_on(case: &Case) {
    let upstream = case.upstream().await;
    let keys = abandoned(case, &upstream, 6).await;
    // The first to take the keys over hangs in its look-ups and is killed there.
    upstream.on_lookup((0..6).map(|_| vec![Silence]).chain([vec![Answer]]));
    let one = case.jobs(&upstream).set("LEASE", "2s").set("BOOKING_TIMEOUT", "20s").set("ANSWER_WITHIN", "20s").spawn();
    eventually("the first job asks", async || upstream.requests("GET").first().cloned()).await;
    let two = case.api(&upstream).start().await;
    one.kill_9();
    upstream.on_lookup([vec![Answer]]);
    are_completed(&two, &keys).await;
    case.expect_no_orphans(&upstream, &two).await;
}

/// B40
async fn a_scheduler_outlives_bad_times_of_the_database(case: &Case) {
    let upstream = case.upstream().await;
    let keys = abandoned(case, &upstream, 2).await;
    if case.engine == super::support::Engine::Postgres {
        case.database.link().await;
    }
    let service = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "500ms").start().await;
    let later = {
        // Nothing can be written for a few runs of both jobs; on PostgreSQL nothing can even be reached.
        let blocked = case.database.block_writes().await;
        let link = match case.engine {
            super::support::Engine::Postgres => Some(case.database.link().await),
            super::support::Engine::Sqlite => None,
        };
        if let Some(link) = link {
            link.down();
        }
        pass(3500).await;
        assert_eq!(service.get("/health/live").await.status, 200);
        blocked.release().await;
        if let Some(link) = link {
            link.up().await;
        }
        abandoned(case, &upstream, 2).await
    };
    are_completed(&service, &keys).await;
    are_completed(&service, &later).await;
}

/// B38
async fn a_scheduler_that_stood_still_goes_on(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).start().await;
    service.pause();
    let keys = abandoned(case, &upstream, 2).await;
    pass(3000).await;
    service.resume();
    are_completed(&service, &keys).await;
    for (_, body) in &keys {
        let reference = &upstream.bookings_of(body)[0].reference;
        assert_eq!(upstream.requests("GET").iter().filter(|r| r.path.ends_with(reference)).count(), 1, "a burst of runs caught up");
    }
}
