use entity::database::DatabaseSettings;
use entity::idempotency_key::State;
use entity::key_scope::{KeyDigest, Operation};
use entity::lifecycle::{self, Claimed, Guard, NewKey};
use sea_orm::ConnectionTrait as _;

use super::*;

const LEASE: Duration = Duration::from_secs(3);

/// A key under a lease, in a file of its own.
struct Held {
    db: Database,
    file: String,
    assignment: Assignment,
    _folder: tempfile::TempDir,
}

async fn held() -> Held {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("test.db").display().to_string();
    let settings = DatabaseSettings { url: format!("sqlite://{file}?mode=rwc"), pool: 2, acquire_timeout: Duration::from_secs(10) };
    let db = Database::connect(&settings).await.expect("a database");
    db.migrate().await.expect("a schema");
    let new = NewKey {
        digest: KeyDigest::of("local", Operation::Create, "k"),
        account: "local".into(),
        operation: Operation::Create,
        fingerprint_version: 1,
        fingerprint: [7; 32],
        request: b"{}".to_vec(),
        reservation_id: "r".into(),
        reference: "r".into(),
        token: "t".into(),
        lease_ms: millis(LEASE),
        guard: Guard::None,
    };
    let counted_from = BootInstant::now();
    let claimed = lifecycle::claim(&db, &new, &|_| Some([7; 32]), false).await.expect("an answer");
    let Claimed::Mine(work) = claimed else { panic!("not ours: {claimed:?}") };
    Held { db, file, assignment: Assignment { work, counted_from }, _folder: folder }
}

async fn renewed(clock: &LeaseClock) {
    let renewed = clock.renewed.notified();
    tokio::time::timeout(LEASE * 5, renewed).await.expect("the lease is renewed");
}

/// The database counts the new lease from some moment while the statement is under way, and the worker must not believe in a later one.
#[tokio::test]
async fn a_renewal_counts_from_before_it_was_sent() {
    let held = held().await;
    let writer = sea_orm::Database::connect(format!("sqlite://{}", held.file)).await.expect("a connection");
    writer.execute_unprepared("BEGIN IMMEDIATE").await.expect("a lock");
    let clock = LeaseClock::start(&held.db, &held.assignment, LEASE);
    // The renewal is sent after a third of the lease, and waits for the lock.
    tokio::time::sleep(LEASE * 5 / 6).await;
    let (released, renewed) = tokio::join!(writer.execute_unprepared("ROLLBACK"), renewed(&clock));
    let (_, ()) = (released.expect("the lock is released"), renewed);
    assert!(clock.left() < LEASE * 5 / 6, "{:?} left", clock.left());
    clock.close();
}

#[tokio::test]
async fn a_living_worker_keeps_its_lease() {
    let held = held().await;
    let clock = LeaseClock::start(&held.db, &held.assignment, LEASE);
    assert!(clock.left() <= LEASE);
    renewed(&clock).await;
    assert!(clock.left() > LEASE * 2 / 3, "{:?} left", clock.left());
    assert!(clock.has_left(LEASE / 2).await);
    let record = lifecycle::find(&held.db, &held.assignment.work.lease.digest).await.expect("an answer").expect("a record");
    let State::InProgress { lease_until_ms, .. } = held.assignment.work.record.state else { panic!("not in progress") };
    assert!(matches!(record.state, State::InProgress { lease_until_ms: later, .. } if later > lease_until_ms));
    // It ends with its worker.
    drop(clock.close_on_drop());
    tokio::time::sleep(LEASE / 2).await;
    assert_eq!(lifecycle::find(&held.db, &record.digest).await.expect("an answer").map(|r| r.state), Some(record.state));
}

/// A worker that has begun to store its outcome is told by the store, and is not interrupted.
#[tokio::test]
async fn a_lost_lease_is_told_unless_the_worker_stores_already() {
    let held = held().await;
    let mut theirs = Assignment { work: held.assignment.work.clone(), counted_from: held.assignment.counted_from };
    theirs.work.lease.token = "another".into();
    let (clock, storing) = (LeaseClock::start(&held.db, &theirs, LEASE), LeaseClock::start(&held.db, &theirs, LEASE));
    assert!(storing.close());
    tokio::time::timeout(LEASE * 5, clock.lost()).await.expect("it is told");
    assert!(!clock.close());
    assert!(storing.close() && !storing.lost.is_cancelled());
}
