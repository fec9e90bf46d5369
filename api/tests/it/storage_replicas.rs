//! Several processes on one database.

use super::support::prelude::*;
use sea_orm::ConnectionTrait;
use std::sync::atomic::{AtomicBool, Ordering};

tests!(both [
    two_hundred_at_once_under_one_key_over_two_processes,
    processes_that_start_at_once_share_one_schema,
    killed_in_mid_migration_nothing_is_half_done,
    one_that_dies_while_it_migrates_leaves_a_whole_schema_or_none,
    an_upgrade_under_load_is_noticed_by_nobody,
    a_key_claimed_here_is_in_progress_there,
]);

/// B25. `ROUNDS=50` for a longer run.
async fn two_hundred_at_once_under_one_key_over_two_processes(case: &Case) {
    let upstream = case.upstream().await;
    let setup = || case.api(&upstream).set("LEASE", "30s").set("BOOKING_TIMEOUT", "20s");
    let (one, two) = (setup().start().await, setup().start().await);
    let rounds = std::env::var("ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let (mut replays, mut conflicts) = (0, 0);
    for _ in 0..rounds {
        let (key, body) = (case.key(), case.body());
        let replies = together((0..200).map(|n| if n % 2 == 0 { one.post(&key, &body) } else { two.post(&key, &body) })).await;
        let fresh: Vec<_> = replies.iter().filter(|r| r.status == 201 && !r.is_replay()).collect();
        assert_eq!(fresh.len(), 1, "{} first answers", fresh.len());
        for reply in &replies {
            match reply.status {
                201 => {
                    assert_eq!(reply.stored_part(), fresh[0].stored_part());
                    replays += u32::from(reply.is_replay());
                }
                _ => {
                    reply.expect_problem(409, "key-in-progress");
                    conflicts += 1;
                }
            }
        }
        assert_eq!(upstream.posts(&body).len(), 1);
        // No connection was left in a broken transaction.
        let bodies: Vec<_> = (0..20).map(|_| (case.key(), case.body())).collect();
        for reply in together(bodies.iter().map(|(key, body)| two.post(key, body))).await {
            reply.expect_created();
        }
    }
    eprintln!("{rounds} rounds of 200: one first answer and one booking each, {conflicts} times 409, {replays} replays");
}

/// B51
async fn processes_that_start_at_once_share_one_schema(case: &Case) {
    let upstream = case.upstream().await;
    let by_hand = || async {
        case.program("migration").arguments(["up"]).run().await.expect_success();
        case.jobs(&upstream).arguments(["keys", "list"]).run().await.expect_success();
    };
    let (services, ()) = tokio::join!(together((0..5).map(|_| Box::pin(case.api(&upstream).start()))), async {
        tokio::join!(by_hand(), by_hand(), by_hand());
    });
    let (key, body) = (case.key(), case.body());
    let first = services[0].post(&key, &body).await;
    first.expect_created();
    for service in &services[1..] {
        service.post(&key, &body).await.expect_replay_of(&first);
    }
    // The schema by hand has nothing left to do, and says what there is.
    let status = case.program("migration").arguments(["status"]).run().await;
    assert!(!status.expect_success().output.contains("pending"), "{}", status.output);
    case.program("migration").arguments(["up"]).run().await.expect_success();
}

/// B51
async fn killed_in_mid_migration_nothing_is_half_done(case: &Case) {
    let upstream = case.upstream().await;
    let migration = |url: &str| case.program("migration").set("DATABASE_URL", url).arguments(["up"]);
    let began = std::time::Instant::now();
    migration(&case.database.another("whole").await).run().await.expect_success();
    let whole = began.elapsed();
    let mut cut_short = 0;
    for round in 0..12 {
        let url = case.database.another(&format!("round{round}")).await;
        let migration = migration(&url).spawn();
        // From before the connection to after the commit.
        tokio::time::sleep(whole * round / 16).await;
        migration.kill_9();
        let status = || case.program("migration").set("DATABASE_URL", &url).arguments(["status"]).run();
        let seen = status().await;
        let (applied, pending) = (seen.expect_success().output.contains("applied"), seen.output.contains("pending"));
        assert!(!(applied && pending), "{}", seen.output);
        cut_short += u32::from(pending);
        case.jobs(&upstream).set("DATABASE_URL", &url).arguments(["keys", "list"]).run().await.expect_success();
        assert!(!status().await.expect_success().output.contains("pending"));
    }
    eprintln!("{cut_short} of 12 migrations were cut short");
}

/// B51: five on an empty database, one of them killed at some moment of its start.
async fn one_that_dies_while_it_migrates_leaves_a_whole_schema_or_none(case: &Case) {
    for round in 0..6 {
        let fresh = Case::new(case.engine).await;
        let upstream = fresh.upstream().await;
        let doomed = fresh.api(&upstream).spawn();
        let services: Vec<_> = (0..4).map(|_| fresh.api(&upstream).spawn()).collect();
        pass(round * 30).await;
        doomed.kill_9();
        for service in &services {
            service.is_ready().await;
        }
        doomed.start_again().await;
        let (key, body) = (fresh.key(), fresh.body());
        let first = doomed.post(&key, &body).await;
        first.expect_created();
        for service in &services {
            service.post(&key, &body).await.expect_replay_of(&first);
        }
        let status = fresh.program("migration").arguments(["status"]).run().await;
        let lines: Vec<_> = status.expect_success().output.lines().collect();
        assert!(lines.len() >= 6 && lines.iter().all(|line| line.starts_with("applied ")), "{}", status.output);
        let rows = fresh.database.rows_with("m20261202_00000").await;
        assert_eq!(rows, lines.len() as i64, "a migration was noted twice, or not at all");
        fresh.judge_and_remove().await;
    }
}

/// B51: the schema lacks its last change, and one process works on it; two of the next release start at once.
async fn an_upgrade_under_load_is_noticed_by_nobody(case: &Case) {
    let (upstream, old) = case.started().await;
    let database = case.database.connect().await;
    for sql in ["DROP TABLE operator_action", "DELETE FROM seaql_migrations WHERE version = 'm20261202_000006_create_operator_action'"] {
        database.execute_unprepared(sql).await.unwrap();
    }
    database.close().await.unwrap();
    let status = case.program("migration").arguments(["status"]).run().await;
    assert_eq!(status.expect_success().output.matches("pending ").count(), 1, "{}", status.output);
    let stop = AtomicBool::new(false);
    let load = async {
        let mut sent = 0;
        while !stop.load(Ordering::SeqCst) {
            let (key, body) = (case.key(), case.body());
            let first = old.post(&key, &body).await;
            first.expect_created();
            old.post(&key, &body).await.expect_replay_of(&first);
            sent += 1;
        }
        sent
    };
    let upgrade = async {
        let new = together((0..2).map(|_| Box::pin(case.api(&upstream).start()))).await;
        new[0].post(&case.key(), &case.body()).await.expect_created();
        stop.store(true, Ordering::SeqCst);
    };
    let (sent, ()) = tokio::join!(load, upgrade);
    assert!(sent > 0);
    let status = case.program("migration").arguments(["status"]).run().await;
    assert_eq!(status.expect_success().output.matches("pending ").count(), 0, "{}", status.output);
}

async fn a_key_claimed_here_is_in_progress_there(case: &Case) {
    let upstream = case.upstream().await;
    let setup = || case.api(&upstream).set("LEASE", "20s").set("BOOKING_TIMEOUT", "15s");
    let (one, two) = (setup().start().await, setup().start().await);
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("go on"), Answer]]);
    let first = one.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    two.post(&key, &body).await.expect_problem(409, "key-in-progress");
    two.post(&key, &changed(&body, json!({"quantity": 2}))).await.expect_problem(422, "key-reused");
    let waiting = two.post(&key, &body).prefer("wait=10").in_flight();
    pass(300).await;
    upstream.open_gate("go on");
    let first = first.await.unwrap();
    first.expect_created();
    waiting.await.unwrap().expect_replay_of(&first);
    assert_eq!(upstream.posts(&body).len(), 1);
}
