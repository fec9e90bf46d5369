//! Time zones and changed clocks: schedules, leases and retentions are counted in UTC and in lengths, and shown so.

use super::support::Engine;
use super::support::prelude::*;
use std::path::{Path, PathBuf};

tests!(both [a_time_zone_changes_nothing] sqlite [no_run_is_lost_or_doubled_when_clocks_change]);

const HOUR: f64 = 3600.0;

fn seconds(rfc3339: &str) -> f64 {
    assert!(rfc3339.ends_with('Z'), "not in UTC: {rfc3339}");
    chrono::DateTime::parse_from_rfc3339(rfc3339).unwrap().timestamp_micros() as f64 / 1e6
}

/// What the key's record says of its retention, in seconds.
async fn retention(service: &Service, key: &str) -> f64 {
    let record = service.key_record(key).await.unwrap();
    let at = |name: &str| seconds(record[name].as_str().unwrap());
    at("expires_at") - at("completed_at")
}

/// B41: the zone of the process, and on PostgreSQL another one of the database.
async fn a_time_zone_changes_nothing(case: &Case) {
    if case.engine == Engine::Postgres {
        case.database.administrate(&format!("ALTER DATABASE {} SET timezone = 'Asia/Kolkata'", case.database.name())).await;
    }
    let upstream = case.upstream().await;
    for zone in ["America/New_York", "Asia/Tokyo"] {
        let service = case.api(&upstream).set("TZ", zone).set("KEY_RETENTION", "24h").start().await;
        let (key, body) = (case.key(), case.body());
        let first = service.post(&key, &body).await;
        let made = seconds(first.expect_created()["created_at"].as_str().unwrap());
        let date = chrono::DateTime::parse_from_rfc2822(first.header("date").unwrap()).unwrap().timestamp() as f64;
        assert!((made - date).abs() < HOUR / 4.0, "{zone}: made at {made}, answered at {date}");
        assert_eq!(retention(&service, &key).await, 24.0 * HOUR, "{zone}");
        eventually("the jobs run", async || (service.get("/health/ready").await.json()["jobs"].as_array()?.len() == 2).then_some(())).await;
        for line in service.log().lines() {
            seconds(line.split(' ').next().unwrap_or_default());
        }
    }
}

/// The library that gives a process a clock of its own, where it is installed (Debian: faketime).
fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path().join("faketime"));
    let found =
        folders.chain(["/usr/lib/faketime".into(), "/usr/local/lib/faketime".into()]).map(|folder| folder.join("libfaketimeMT.so.1"));
    found.into_iter().find(|library| Path::exists(library))
}

/// B41: both changes of a year in New York, and the same nights in Tokyo, where nothing changes; an hour passes in six seconds. Without the
/// library there are no such nights, and the schedules run by the clock there is.
async fn no_run_is_lost_or_doubled_when_clocks_change(case: &Case) {
    const SPEED: f64 = 600.0;
    let upstream = case.upstream().await;
    let library = faketime();
    if library.is_none() {
        eprintln!("no libfaketime here: the clocks do not change");
    }
    let process = |zone: &str, night: &str, file: &str, schedule: &str| {
        let url = format!("sqlite://{}?mode=rwc", case.folder().join(file).display());
        let setup = case.api(&upstream).set("DATABASE_URL", url).set("TZ", zone).set("RUST_LOG", "jobs=debug").set("KEY_RETENTION", "24h");
        let setup = setup.set("LEASE", "10h").set("RELEASE_SCHEDULE", schedule).set("CLEANUP_SCHEDULE", "0 * * * * *");
        match &library {
            None => setup.set("RELEASE_SCHEDULE", "* * * * * *"),
            Some(library) => setup
                .set("LD_PRELOAD", library.display())
                .set("FAKETIME", format!("@{night} x{SPEED}"))
                .set("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        }
    };
    let nights = [
        ("America/New_York", "2026-03-08 00:40:00", "spring.db"),
        ("America/New_York", "2026-11-01 00:40:00", "autumn.db"),
        ("Asia/Tokyo", "2026-03-08 00:40:00", "tokyo.db"),
    ];
    let processes = together(nights.map(|(zone, night, file)| Box::pin(process(zone, night, file, "0 0 * * * *").start()))).await;
    let keys = [case.key(), case.key(), case.key()];
    for (service, key) in processes.iter().zip(&keys) {
        service.post(key, &case.body()).await.expect_created();
    }
    for (service, key) in processes.iter().zip(&keys) {
        let runs = |job: &str| -> Vec<f64> {
            let log = service.log();
            let begins = log.lines().filter(|line| line.contains("run begins") && line.contains(job));
            begins.map(|line| seconds(line.split(' ').next().unwrap_or_default())).collect()
        };
        let hourly = eventually("three hourly runs", async || Some(runs("release-stale-leases")).filter(|runs| runs.len() >= 3)).await;
        let (least, most) = if library.is_some() { (0.5 * HOUR, 1.5 * HOUR) } else { (0.0, HOUR) };
        assert!(hourly.windows(2).all(|two| (least..most).contains(&(two[1] - two[0]))), "a run was lost or doubled: {hourly:?}");
        if library.is_some() {
            // The other job fell due every minute and ran as often as it could: no hour without.
            let minutely = runs("delete-expired-keys");
            assert!(minutely.windows(2).all(|two| (0.0..HOUR).contains(&(two[1] - two[0]))), "an hour without a run: {minutely:?}");
        }
        assert_eq!(retention(service, key).await, 24.0 * HOUR);
    }
}
