//! The scheduled jobs in bad times: runs that take long, a process that stood still, lost sessions, bad rows, locks that are held.

use super::jobs::{abandoned, are_completed};
use super::support::Engine;
use super::support::prelude::*;

tests!(both [
    a_long_run_is_not_overtaken_and_a_pause_ends_in_no_burst,
    a_scheduler_that_starts_beside_a_dead_one_does_its_work,
    a_delete_that_is_refused_stops_nothing_else_and_is_made_up_for,
    unreadable_rows_do_not_keep_the_others_waiting,
    while_a_lock_is_held_the_service_goes_on_and_tells_that_no_run_succeeds,
] postgres [
    a_sweeper_whose_sessions_are_ended_goes_on,
]);

const RELEASE: &str = "release-stale-leases";
const CLEANUP: &str = "delete-expired-keys";

/// Begins (true) and ends (false) of the runs of a job, each with its second, as the process wrote them down.
fn runs(service: &Service, job: &str) -> Vec<(bool, f64)> {
    let at = |line: &str| chrono::DateTime::parse_from_rfc3339(line.split(' ').next()?).ok().map(|at| at.timestamp_micros() as f64 / 1e6);
    let log = service.log();
    let of_job = log.lines().filter(|line| line.contains("jobs::scheduler") && line.contains(job));
    of_job
        .filter_map(|line| match line {
            begins if begins.contains("run begins") => Some((true, at(begins)?)),
            ends if ends.contains("run ended") || ends.contains("the run failed") => Some((false, at(ends)?)),
            _ => None,
        })
        .collect()
}

fn begun(service: &Service, job: &str) -> usize {
    runs(service, job).iter().filter(|(begins, _)| *begins).count()
}

/// How long ago a job last succeeded, as the service tells.
async fn age_ms(service: &Service, job: &str) -> Option<i64> {
    // Also while the service is not ready, because it cannot write.
    let metrics = service.get("/metrics").await.text();
    let line = metrics.lines().find(|line| line.contains("job_last_success_age_seconds") && line.contains(job))?;
    Some((line.rsplit(' ').next()?.parse::<f64>().ok()? * 1000.0) as i64)
}

/// B38
async fn a_long_run_is_not_overtaken_and_a_pause_ends_in_no_burst(case: &Case) {
    let upstream = case.upstream().await;
    let jobs = case.jobs(&upstream).set("RUST_LOG", "jobs=debug").set("DATABASE_ACQUIRE_TIMEOUT", "30s").spawn();
    eventually("both jobs run", async || (begun(&jobs, RELEASE) > 1 && begun(&jobs, CLEANUP) > 1).then_some(())).await;
    let blocked = case.database.block_writes().await;
    eventually("several runs fall due while one waits", async || (jobs.log().matches("still running").count() >= 6).then_some(())).await;
    if case.engine == Engine::Postgres {
        let waiting = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting = case.database.number(waiting).await;
        assert!((1..=2).contains(&waiting), "{waiting} sessions of two jobs wait");
    }
    blocked.release().await;
    let before = begun(&jobs, RELEASE);
    eventually("the runs go on", async || (begun(&jobs, RELEASE) > before + 1).then_some(())).await;

    jobs.pause();
    pass(5000).await;
    let before = begun(&jobs, RELEASE);
    jobs.resume();
    eventually("the runs go on after the pause", async || (begun(&jobs, RELEASE) > before + 3).then_some(())).await;
    let begins: Vec<f64> = runs(&jobs, RELEASE).iter().filter(|(begins, _)| *begins).map(|(_, at)| *at).skip(before).collect();
    // Five runs were missed. What falls into one second is one run, two where they were not quite a second apart.
    assert!(begins.windows(3).all(|three| three[2] - three[0] > 1.0), "a burst made good for the pause: {begins:?}");
    for job in [RELEASE, CLEANUP] {
        let runs = runs(&jobs, job);
        assert!(runs.windows(2).all(|two| two[0].0 != two[1].0), "{job} overlapped itself: {runs:?}");
    }
}

/// B39: what a dead process held is in the rows alone.
async fn a_scheduler_that_starts_beside_a_dead_one_does_its_work(case: &Case) {
    let upstream = case.upstream().await;
    let keys = abandoned(case, &upstream, 4).await;
    upstream.on_lookup([vec![Silence]]);
    let dead = case.jobs(&upstream).set("LEASE", "2s").set("BOOKING_TIMEOUT", "20s").set("ANSWER_WITHIN", "20s").spawn();
    eventually("it is in the middle of its run", async || (upstream.requests("GET").len() >= 4).then_some(())).await;
    dead.kill_9();
    upstream.on_lookup([vec![Answer]]);
    let service = case.api(&upstream).start().await;
    are_completed(&service, &keys).await;
    case.expect_no_orphans(&upstream, &service).await;
}

/// B39: only its sessions die; it had been asking.
async fn a_sweeper_whose_sessions_are_ended_goes_on(case: &Case) {
    let upstream = case.upstream().await;
    let keys = abandoned(case, &upstream, 4).await;
    upstream.on_lookup([vec![Gate("answer now"), Answer]]);
    let url = case.database.url();
    let url = format!("{url}{}application_name=sweeper", if url.contains('?') { '&' } else { '?' });
    let setup = case.jobs(&upstream).set("DATABASE_URL", url).set("BOOKING_TIMEOUT", "20s").set("ANSWER_WITHIN", "20s");
    let _jobs = setup.spawn();
    eventually("it is in the middle of its run", async || (upstream.requests("GET").len() >= 4).then_some(())).await;
    case.database.end_sessions(Some("sweeper")).await;
    upstream.open_gate("answer now");
    let service = case.api(&upstream).set("SCHEDULER", "off").start().await;
    are_completed(&service, &keys).await;
    let sessions = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sweeper'";
    assert!(case.database.number(sessions).await > 0, "it has come back under another name");
}

/// B40 (a)
async fn a_delete_that_is_refused_stops_nothing_else_and_is_made_up_for(case: &Case) {
    let upstream = case.upstream().await;
    let url = match case.engine {
        Engine::Postgres => case.database.url_of_its_owner().await,
        Engine::Sqlite => case.database.url(),
    };
    let setup = case.api(&upstream).set("DATABASE_URL", url).set("LEASE", "1s").set("BOOKING_TIMEOUT", "1s");
    let service = setup.set("KEY_RETENTION", "2s").start().await;
    let name = case.database.name();
    let (refuse, allow) = match case.engine {
        // The owner, too, may lose what it may do.
        Engine::Postgres => (format!("REVOKE DELETE ON idempotency_key FROM {name}"), format!("GRANT DELETE ON idempotency_key TO {name}")),
        Engine::Sqlite => (
            "CREATE TRIGGER refuse BEFORE DELETE ON idempotency_key BEGIN SELECT RAISE(ABORT, 'refused'); END".to_owned(),
            "DROP TRIGGER refuse".to_owned(),
        ),
    };
    eventually("the cleanup has run", async || age_ms(&service, CLEANUP).await).await;
    case.database.execute(&refuse).await;
    let expired = service.post(&case.key(), &case.body()).await;
    expired.expect_created();
    let row = format!("SELECT count(*) AS n FROM idempotency_key WHERE reference = '{}'", expired.id());
    // It fails run after run, which is told; the other job and the callers notice nothing.
    eventually("the cleanup fails", async || (age_ms(&service, CLEANUP).await? > 4000).then_some(())).await;
    assert_eq!(case.database.number(&row).await, 1);
    let keys = abandoned(case, &upstream, 2).await;
    for (_, body) in &keys {
        let reference = upstream.bookings_of(body)[0].reference.clone();
        eventually("the other job works", async || (service.reservation(&reference).await.status == 200).then_some(())).await;
    }
    assert!(age_ms(&service, RELEASE).await.unwrap() < age_ms(&service, CLEANUP).await.unwrap());
    service.post(&case.key(), &case.body()).await.expect_created();
    case.database.execute(&allow).await;
    eventually("the cleanup makes up for it", async || (case.database.number(&row).await == 0).then_some(())).await;
    eventually("and tells so", async || (age_ms(&service, CLEANUP).await? < 4000).then_some(())).await;
}

/// B40 (b): more bad rows than are taken at once, and all of them due before the good ones.
async fn unreadable_rows_do_not_keep_the_others_waiting(case: &Case) {
    let upstream = case.upstream().await;
    let keys = abandoned(case, &upstream, 7).await;
    let references: Vec<_> = keys.iter().map(|(_, body)| upstream.bookings_of(body)[0].reference.clone()).collect();
    let (bad, good) = references.split_at(4);
    let (off, fingerprint) = match case.engine {
        Engine::Sqlite => ("PRAGMA ignore_check_constraints = ON".to_owned(), "x'00'"),
        Engine::Postgres => {
            let names = ["operation", "change", "reference", "digest"].map(|name| format!("DROP CONSTRAINT idempotency_key_{name}"));
            (format!("ALTER TABLE idempotency_key {}", names.join(", ")), r"'\x00'")
        }
    };
    let spoilt = |change: &str, references: &[String]| {
        format!("UPDATE idempotency_key SET lease_until_ms = 1000, {change} WHERE reference IN ('{}')", references.join("', '"))
    };
    let (names, digests) = (spoilt("operation = 'nonsense'", &bad[..2]), spoilt(&format!("fingerprint = {fingerprint}"), &bad[2..]));
    case.database.execute(&format!("{off}; {names}; {digests}")).await;
    let service = case.api(&upstream).set("RECOVERY_CALLS", "2").start().await;
    are_completed(&service, &keys[4..]).await;
    for reference in good {
        assert_eq!(service.reservation(reference).await.json()["status"], "confirmed");
    }
    for reference in bad {
        assert!(service.log().contains(reference), "nobody is told of {reference}");
    }
    service.post(&keys[0].0, &keys[0].1).await.expect_problem(500, "internal");
}

/// B40 (c)
async fn while_a_lock_is_held_the_service_goes_on_and_tells_that_no_run_succeeds(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "1s").start().await;
    let reservation = service.post(&case.key(), &case.body()).await;
    reservation.expect_created();
    eventually("both jobs have run", async || age_ms(&service, RELEASE).await.and(age_ms(&service, CLEANUP).await)).await;
    let keys = abandoned(case, &upstream, 2).await;
    let blocked = case.database.block_writes().await;
    eventually("no run succeeds", async || (age_ms(&service, RELEASE).await? > 5000).then_some(())).await;
    assert_eq!(service.get("/health/live").await.status, 200);
    assert_eq!(service.reservation(&reservation.id()).await.status, 200);
    let metrics = service.get("/metrics").await.text();
    let age = metrics.lines().find(|line| line.contains("job_last_success_age_seconds") && line.contains(RELEASE)).unwrap();
    assert!(age.rsplit(' ').next().unwrap().parse::<f64>().unwrap() >= 5.0, "{age}");
    blocked.release().await;
    are_completed(&service, &keys).await;
    eventually("the runs succeed again", async || (age_ms(&service, RELEASE).await? < 5000).then_some(())).await;
}
