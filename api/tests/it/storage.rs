//! The database is slow, busy, away, or does not say whether it did what it was asked.

use super::support::Engine;
use super::support::prelude::*;
use super::support::service::Setup;
use sea_orm::ConnectionTrait;
use std::time::{Duration, Instant};

tests!(both [
    without_storage_nothing_is_booked,
    a_busy_database_only_makes_things_slower,
    an_answer_that_cannot_be_written_yet_is_written_later,
    a_caller_whose_answer_cannot_be_stored_is_told_at_the_end_of_the_lease,
    no_connection_is_held_while_the_booking_system_thinks,
    stored_answers_keep_their_bytes,
    who_cannot_write_is_not_ready,
] sqlite [
    memory_alone_is_one_database_or_none,
] postgres [
    a_claim_whose_acknowledgement_is_lost_books_once,
    a_finalize_whose_acknowledgement_is_lost_is_read_back,
    a_cut_connection_is_replaced,
    a_standby_is_not_ready,
    a_caller_whose_lease_was_lost_hears_the_one_answer_or_none,
    what_is_under_way_is_not_told_as_nothing_done,
]);

/// B37: every statement that reads works, and none that writes.
async fn a_standby_is_not_ready(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    let read_only = async |on: &str| {
        let connection = case.database.connect().await;
        let database =
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = READ_ONLY', current_database()); END $$";
        connection.execute_unprepared("SET default_transaction_read_only = off").await.unwrap();
        connection.execute_unprepared(&database.replace("READ_ONLY", on)).await.unwrap();
        let others =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        connection.execute_unprepared(others).await.unwrap();
        connection.close().await.unwrap();
    };
    read_only("on").await;
    eventually("it is not ready", async || (service.get("/health/ready").await.status == 503).then_some(())).await;
    service.post(&key, &body).await.expect_problem(503, "storage-unavailable");
    assert!(upstream.posts(&body).is_empty());
    read_only("off").await;
    eventually("it is ready again", async || (service.get("/health/ready").await.status == 200).then_some(())).await;
    assert_eq!(service.settle(&key, &body).await.status, 201);
}

/// B37, B48
async fn without_storage_nothing_is_booked(case: &Case) {
    let upstream = case.upstream().await;
    if case.engine == Engine::Postgres {
        case.database.link().await;
    }
    let service = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "1s").set("LEASE", "5s").start().await;
    service.post(&case.key(), &case.body()).await.expect_created();
    let (key, body) = (case.key(), case.body());
    let blocked = match case.engine {
        Engine::Sqlite => Some(case.database.block_writes().await),
        Engine::Postgres => {
            case.database.link().await.down();
            None
        }
    };
    for _ in 0..2 {
        let told = service.post(&key, &body).await;
        told.expect_problem(503, "storage-unavailable");
        assert!(told.json()["detail"].as_str().unwrap().contains("sent nothing"), "{told:?}");
    }
    if case.engine == Engine::Postgres {
        // Who only reads is told nothing about bookings.
        let told = service.get("/reservations").await;
        told.expect_problem(503, "storage-unavailable");
        assert!(!told.json()["detail"].as_str().unwrap().contains("booking system"), "{told:?}");
    }
    assert!(upstream.posts(&body).is_empty());
    assert_eq!(service.get("/health/live").await.status, 200);
    match blocked {
        Some(blocked) => blocked.release().await,
        None => case.database.link().await.up().await,
    }
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, upstream.posts(&body).len()), (201, 1));
}

/// B37: who would be shown the reservation while its change goes on cannot be, and is not told that nothing was sent.
async fn what_is_under_way_is_not_told_as_nothing_done(case: &Case) {
    let upstream = case.upstream().await;
    let link = case.database.link().await;
    let setup = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "1s").set("LEASE", "30s").set("BOOKING_TIMEOUT", "20s");
    let service = setup.start().await;
    let made = service.post(&case.key(), &case.body()).await;
    made.expect_created();
    upstream.on_change([vec![Gate("go on"), Answer]]);
    let change = service.patch(&made.id(), &case.key(), &made.etag(), &json!({"quantity": 2}));
    let first = change.clone().prefer("wait=2").in_flight();
    eventually("the change arrives", async || upstream.requests("PATCH").into_iter().next()).await;
    link.down();
    let told = first.await.unwrap();
    told.expect_problem(503, "outcome-pending");
    link.up().await;
    upstream.open_gate("go on");
    let changed = change.until_final().await;
    assert_eq!((changed.status, &changed.json()["quantity"]), (200, &json!(2)));
    assert_eq!(upstream.requests("PATCH").len(), 1);
}

/// B48
async fn a_busy_database_only_makes_things_slower(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "20s").set("LEASE", "20s").start().await;
    let bodies: Vec<_> = (0..50).map(|_| (case.key(), case.body())).collect();
    let blocked = case.database.block_writes().await;
    let replies: Vec<_> = bodies.iter().map(|(key, body)| service.post(key, body).in_flight()).collect();
    pass(2000).await;
    blocked.release().await;
    for reply in together(replies).await {
        reply.unwrap().expect_created();
    }
}

/// B34: the booking exists, and for longer than a lease nothing can be written.
async fn an_answer_that_cannot_be_written_yet_is_written_later(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "1s").set("LEASE", "2s").set("ANSWER_WITHIN", "2s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("answer now"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    let blocked = case.database.block_writes().await;
    upstream.open_gate("answer now");
    let booking = upstream.is_booked(&body).await;
    pass(4000).await;
    let early = service.post(&key, &body).await;
    assert!(matches!(early.status, 409 | 503), "{early:?}");
    blocked.release().await;
    let first = first.await.unwrap();
    assert!(first.status == 201 || first.status == 503, "{first:?}");
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, reply.id()), (201, booking.reference));
    assert!(first.status != 201 || first.stored_part() == reply.stored_part());
    assert_eq!(upstream.bookings_of(&body).len(), 1);
    case.expect_no_orphans(&upstream, &service).await;
}

/// B34: the storage is away from before the answer until after the lease. The caller hears when the lease is over, and not only when it
/// would be answered at the latest, that the outcome is pending; a retry gets the true answer.
async fn a_caller_whose_answer_cannot_be_stored_is_told_at_the_end_of_the_lease(case: &Case) {
    let upstream = case.upstream().await;
    if case.engine == Engine::Postgres {
        case.database.link().await;
    }
    let setup = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "1s").set("LEASE", "3s").set("BOOKING_TIMEOUT", "20s");
    let service = setup.set("ANSWER_WITHIN", "60s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("answer now"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    let blocked = match case.engine {
        Engine::Sqlite => Some(case.database.block_writes().await),
        Engine::Postgres => {
            case.database.link().await.down();
            None
        }
    };
    let began = Instant::now();
    upstream.open_gate("answer now");
    let booking = upstream.is_booked(&body).await;
    let told = first.await.unwrap();
    told.expect_problem(503, "outcome-pending");
    assert!(told.retry_after() <= 3 && told.header("location").is_none(), "{told:?}");
    // A lease, and a look whether somebody else knows the answer.
    assert!(began.elapsed() < Duration::from_secs(20), "told after {:?}", began.elapsed());
    service.post(&key, &body).await.expect_problem(503, "storage-unavailable");
    match blocked {
        Some(blocked) => blocked.release().await,
        None => case.database.link().await.up().await,
    }
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, reply.id()), (201, booking.reference));
    assert_eq!((upstream.bookings_of(&body).len(), upstream.posts(&body).len()), (1, 1));
    service.reservation(&reply.id()).await.expect_same_reservation(&reply);
}

/// B34: while the first process cannot reach the storage its lease lapses, and another one takes over and finishes. The first caller is
/// told the one answer or that it is pending, never another one.
async fn a_caller_whose_lease_was_lost_hears_the_one_answer_or_none(case: &Case) {
    let upstream = case.upstream().await;
    let settings = |setup: Setup| {
        setup.set("LEASE", "3s").set("BOOKING_TIMEOUT", "20s").set("ANSWER_WITHIN", "60s").set("DATABASE_ACQUIRE_TIMEOUT", "1s")
    };
    let other = settings(case.api(&upstream)).start().await;
    let link = case.database.link().await;
    let service = settings(case.api(&upstream)).set("SCHEDULER", "off").start().await;
    for away_until_the_answer in [false, true] {
        let (key, body) = (case.key(), case.body());
        let gate = if away_until_the_answer { "away" } else { "back before" };
        upstream.on_post(&body, [vec![Gate(gate), Answer], vec![Answer]]);
        let first = service.post(&key, &body).in_flight();
        upstream.post_arrives(&body).await;
        link.down();
        let true_answer = other.settle(&key, &body).await;
        assert_eq!(true_answer.status, 201);
        if !away_until_the_answer {
            // The next renewal finds out whose the key is.
            link.up().await;
            let told = first.await.unwrap();
            told.expect_replay_of(&true_answer);
            upstream.open_gate(gate);
        } else {
            upstream.open_gate(gate);
            first.await.unwrap().expect_problem(503, "outcome-pending");
            link.up().await;
        }
        service.post(&key, &body).until_final().await.expect_replay_of(&true_answer);
        assert_eq!(upstream.bookings_of(&body).len(), 1);
    }
    case.expect_no_orphans(&upstream, &service).await;
}

/// B52
async fn no_connection_is_held_while_the_booking_system_thinks(case: &Case) {
    let upstream = case.upstream().await;
    let setup = case.api(&upstream).set("DATABASE_POOL", "2").set("LEASE", "30s").set("BOOKING_TIMEOUT", "25s");
    let service = setup.start().await;
    let known = (case.key(), case.body());
    let first = service.post(&known.0, &known.1).await;
    first.expect_created();
    let bodies: Vec<_> = (0..100).map(|_| (case.key(), case.body())).collect();
    for (_, body) in &bodies {
        upstream.on_post(body, [vec![Gate("go on"), Answer]]);
    }
    let waiting: Vec<_> = bodies.iter().map(|(key, body)| service.post(key, body).in_flight()).collect();
    eventually("all calls are under way", async || bodies.iter().all(|(_, b)| !upstream.posts(b).is_empty()).then_some(())).await;
    // All of them wait at the gate; whoever needs the database gets it.
    for _ in 0..5 {
        service.post(&known.0, &known.1).await.expect_replay_of(&first);
        assert_eq!(service.reservation(&first.id()).await.status, 200);
    }
    assert_eq!(service.get("/health/ready").await.status, 200);
    if case.engine == Engine::Postgres {
        assert_eq!(case.database.idle_in_transaction().await, 0);
    }
    upstream.open_gate("go on");
    for reply in together(waiting).await {
        reply.unwrap().expect_created();
    }
}

/// B23
async fn stored_answers_keep_their_bytes(case: &Case) {
    let upstream = case.upstream().await;
    let one = case.api(&upstream).start().await;
    let key = case.key();
    let body = json!({"item_code": "\u{4e88}/\"\\-1", "quantity": 2147483647, "reserved_by": "e\u{301}\u{1f600}", "note": "\t<&>\u{2028}\u{7f} 1.10"});
    let first = one.post(&key, &body).await;
    let reservation = first.expect_created();
    for (name, value) in body.as_object().unwrap() {
        assert_eq!(&reservation[name], value);
    }
    one.post(&key, &body).await.expect_replay_of(&first);
    one.post(&key, &body).header("Accept-Encoding", "gzip, br").await.expect_replay_of(&first);
    let two = case.api(&upstream).start().await;
    two.post(&key, &body).await.expect_replay_of(&first);
    one.kill_9();
    one.start_again().await;
    one.post(&key, &body).await.expect_replay_of(&first);
}

/// B37: a write that waits, and one that fails (a full disk, a standby): reads go on, but nothing could be claimed.
async fn who_cannot_write_is_not_ready(case: &Case) {
    let upstream = case.upstream().await;
    if case.engine == Engine::Postgres {
        case.database.link().await;
    }
    let service = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "1s").start().await;
    let first = service.post(&case.key(), &case.body()).await;
    first.expect_created();
    let becomes = async |status: u16| {
        eventually("readiness follows", async || {
            let reply = service.get("/health/ready").await;
            assert!(reply.status == 200 || reply.code().as_deref() == Some("storage-unavailable"), "{reply:?}");
            (reply.status == status).then_some(())
        })
        .await;
    };
    let blocked = case.database.block_writes().await;
    becomes(503).await;
    // More probes than there are connections do not take them away from those who only read.
    together((0..40).map(|_| service.get("/health/ready"))).await;
    service.reservation(&first.id()).await.expect_same_reservation(&first);
    blocked.release().await;
    becomes(200).await;

    let database = case.database.connect().await;
    let (broken, repaired) = match case.engine {
        Engine::Sqlite => (
            "CREATE TRIGGER full BEFORE INSERT ON job_run BEGIN SELECT RAISE(ROLLBACK, 'the disk is full'); END".to_owned(),
            "DROP TRIGGER full".to_owned(),
        ),
        Engine::Postgres => {
            let name = case.database.url().rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
            let set = format!("ALTER DATABASE {name} SET default_transaction_read_only");
            (format!("{set} = on"), format!("SET default_transaction_read_only = off; {set} = off"))
        }
    };
    // PostgreSQL asks for it when a session begins.
    let renew = async || {
        if case.engine == Engine::Postgres {
            case.database.link().await.cut()
        }
    };
    database.execute_unprepared(&broken).await.unwrap();
    renew().await;
    becomes(503).await;
    database.execute_unprepared(&repaired).await.unwrap();
    renew().await;
    becomes(200).await;
    database.close().await.unwrap();
    assert_eq!(service.get("/health/ready").await.json()["jobs"].to_string().matches("write-check").count(), 0);
}

/// B50
async fn memory_alone_is_one_database_or_none(case: &Case) {
    let upstream = case.upstream().await;
    let setup = case.api(&upstream).set("DATABASE_URL", "sqlite::memory:").set("DATABASE_POOL", "8");
    let service = setup.spawn();
    let started = eventually("it starts or refuses", async || {
        if service.has_ended() {
            return Some(false);
        }
        let ready = service.get("/health/ready").unwatched().attempt().await;
        ready.is_ok_and(|r| r.status == 200).then_some(true)
    })
    .await;
    if !started {
        assert_ne!(service.ends().await, Some(0));
        return;
    }
    let bodies: Vec<_> = (0..20).map(|_| (case.key(), case.body())).collect();
    let firsts = together(bodies.iter().map(|(key, body)| service.post(key, body))).await;
    let again = together(bodies.iter().map(|(key, body)| service.post(key, body))).await;
    for (first, again) in firsts.iter().zip(&again) {
        first.expect_created();
        again.expect_replay_of(first);
    }
}

/// The claim is committed, and the process never hears of it.
async fn a_claim_whose_acknowledgement_is_lost_books_once(case: &Case) {
    let upstream = case.upstream().await;
    let link = case.database.link().await;
    let service = case.api(&upstream).set("SCHEDULER", "off").set("LEASE", "2s").start().await;
    let (key, body) = (case.key(), case.body());
    link.lose_acknowledgement_after(0);
    let first = service.post(&key, &body).in_flight();
    link.has_lost_one().await;
    let first = first.await.unwrap();
    assert!(matches!(first.status, 201 | 503), "{first:?}");
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, upstream.bookings_of(&body).len()), (201, 1));
    assert!(first.status != 201 || first.stored_part() == reply.stored_part());
    case.expect_no_orphans(&upstream, &service).await;
}

/// The answer is committed, and the process never hears of it: it may say 201 only after having read it.
async fn a_finalize_whose_acknowledgement_is_lost_is_read_back(case: &Case) {
    let upstream = case.upstream().await;
    let link = case.database.link().await;
    // A lease so long that no renewal comes in between: the next write is the finalize.
    let service = case.api(&upstream).set("SCHEDULER", "off").set("LEASE", "60s").set("BOOKING_TIMEOUT", "10s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("answer now"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    link.lose_acknowledgement_after(0);
    upstream.open_gate("answer now");
    link.has_lost_one().await;
    let first = first.await.unwrap();
    assert!(matches!(first.status, 201 | 503), "{first:?}");
    let reply = service.post(&key, &body).await;
    assert_eq!((reply.status, reply.is_replay()), (201, true), "{reply:?}");
    assert!(first.status != 201 || first.stored_part() == reply.stored_part());
    assert_eq!(upstream.posts(&body).len(), 1);
}

async fn a_cut_connection_is_replaced(case: &Case) {
    let upstream = case.upstream().await;
    let link = case.database.link().await;
    let service = case.api(&upstream).set("LEASE", "5s").set("BOOKING_TIMEOUT", "5s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("answer now"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    link.cut();
    upstream.open_gate("answer now");
    let first = first.await.unwrap();
    assert!(matches!(first.status, 201 | 503), "{first:?}");
    assert_eq!(service.settle(&key, &body).await.status, 201);
    assert_eq!(upstream.bookings_of(&body).len(), 1);
    // A database that answers nothing at all for a while is no other case.
    link.hold();
    let held = (case.key(), case.body());
    let waiting = service.post(&held.0, &held.1).in_flight();
    pass(1000).await;
    link.let_go();
    let waiting = waiting.await.unwrap();
    assert!(matches!(waiting.status, 201 | 503), "{waiting:?}");
    assert_eq!(service.settle(&held.0, &held.1).await.status, 201);
}
