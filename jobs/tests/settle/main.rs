//! A worker on a real database and beside a booking system that does what a script says: the script holds answers back and so decides
//! what comes first. What the SQL does is tried in `entity/tests/it`, what callers see in `api/tests/it`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod booking;

use std::time::Duration;

use booking::{Script, answer};
use entity::database::{Database, DatabaseSettings};
use entity::key_scope::{KeyDigest, Operation};
use entity::lifecycle::{self, Claimed, Guard, NewKey, Work};
use jobs::booking::http::{HttpBookingSystem, HttpSettings};
use jobs::boot_clock::BootInstant;
use jobs::journal::Journal;
use jobs::rules::{Bounds, Offer, Purpose};
use jobs::settle::{Assignment, Outcome, SettleSettings, Settler};
use sea_orm::ConnectionTrait as _;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

const LOOK_UP_ONLY: Offer = Offer { idempotent: false, lookup: true };
const BOTH: Offer = Offer { idempotent: true, lookup: true };
/// A send is believed to be over after their sum.
const BOOKING_TIMEOUT_MS: i64 = 10_000;
const ABSENT_AFTER_MS: i64 = 10_000;
const SETTLES_AFTER_MS: i64 = BOOKING_TIMEOUT_MS + ABSENT_AFTER_MS;
const LEASE_MS: i64 = 60_000;

struct World {
    db: Database,
    script: Script,
    file: String,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db").display().to_string();
        let url = format!("sqlite://{file}?mode=rwc");
        let db = Database::connect(&DatabaseSettings { url, pool: 4, acquire_timeout: Duration::from_secs(1) }).await.unwrap();
        db.migrate().await.unwrap();
        Self { db, script: Script::listen().await, file, _folder: folder }
    }

    /// `remembered_ms`: for so long from its first send on the booking system recognises a key.
    fn settler(&self, offer: Offer, remembered_ms: i64) -> Settler {
        let http = HttpSettings {
            url: self.script.url.parse().unwrap(),
            token: None,
            timeout: Duration::from_millis(BOOKING_TIMEOUT_MS.unsigned_abs()),
            connect_timeout: Duration::from_secs(1),
            keep_connections: false,
        };
        let settings = SettleSettings {
            offer,
            bounds: Bounds {
                booking_timeout_ms: BOOKING_TIMEOUT_MS,
                absent_after_ms: ABSENT_AFTER_MS,
                booking_key_retention_ms: remembered_ms,
            },
            connect_timeout: Duration::from_secs(1),
            lease: Duration::from_millis(LEASE_MS.unsigned_abs()),
            retention: Duration::from_secs(3600),
            answer_within: Duration::from_secs(30),
            public_base: "http://localhost".into(),
            rebook: false,
        };
        let journal = Journal::start(self.db.clone(), "test".into());
        Settler::new(self.db.clone(), HttpBookingSystem::new(&http).unwrap(), settings, journal, TaskTracker::new())
    }

    async fn claim(&self) -> Work {
        let reference = Uuid::now_v7().to_string();
        let new = NewKey {
            digest: KeyDigest::of("local", Operation::Create, "k"),
            account: "local".into(),
            operation: Operation::Create,
            fingerprint_version: 1,
            fingerprint: [7; 32],
            request: br#"{"item_code":"ROOM-101","quantity":1,"reserved_by":"taro"}"#.to_vec(),
            reservation_id: reference.clone(),
            reference,
            token: Uuid::new_v4().to_string(),
            lease_ms: LEASE_MS,
            guard: Guard::None,
        };
        match lifecycle::claim(&self.db, &new, &|_| Some([7; 32]), false).await.unwrap() {
            Claimed::Mine(work) => work,
            other => panic!("not ours: {other:?}"),
        }
    }

    /// A key whose worker stopped, having sent so long ago without learning what became of it; taken over.
    async fn taken_over(&self, sent_ms_ago: i64) -> Work {
        let work = self.claim().await;
        lifecycle::end_lease(&self.db, &work.lease, Some(sent_ms_ago)).await.unwrap();
        lifecycle::take_over_stale(&self.db, &Uuid::new_v4().to_string(), LEASE_MS, 1).await.unwrap().remove(0)
    }
}

fn now(work: Work) -> Assignment {
    Assignment { work, counted_from: BootInstant::now() }
}

/// "Not there" was read while a send could still arrive, and is told when none can any more. It is as old as its question.
#[tokio::test]
async fn what_a_look_up_says_is_as_old_as_the_moment_it_was_asked() {
    let mut world = World::new().await;
    let work = world.taken_over(SETTLES_AFTER_MS - 1500).await;
    let outcome = world.settler(LOOK_UP_ONLY, 0).settle(now(work), Purpose::Recovery { rebook: false });
    let look_up = world.script.arrives().await;
    tokio::time::sleep(Duration::from_millis(2000)).await;
    answer(look_up, 404, "{}").await;
    assert_eq!(outcome.await.unwrap(), Outcome::Pending);
    assert_eq!(world.script.asked(), ["GET"]);
}

/// "Not there" is believed at once while the booking system recognises the key. When it is told, the key is forgotten, and a send
/// would be another booking beside the first that may still arrive.
#[tokio::test]
async fn a_key_that_was_forgotten_during_the_look_up_is_not_sent_again() {
    let mut world = World::new().await;
    let work = world.taken_over(100).await;
    let outcome = world.settler(BOTH, SETTLES_AFTER_MS + 1500).settle(now(work), Purpose::Recovery { rebook: true });
    let look_up = world.script.arrives().await;
    tokio::time::sleep(Duration::from_millis(2000)).await;
    answer(look_up, 404, "{}").await;
    assert_eq!(outcome.await.unwrap(), Outcome::Pending);
    assert_eq!(world.script.asked(), ["GET"]);
}

/// The same, with the key still recognised: it is sent.
#[tokio::test]
async fn a_key_that_is_recognised_is_sent_again() {
    let mut world = World::new().await;
    let work = world.taken_over(100).await;
    let reference = work.record.reference.clone();
    let outcome = world.settler(BOTH, 1_000_000).settle(now(work), Purpose::Recovery { rebook: true });
    answer(world.script.arrives().await, 404, "{}").await;
    answer(world.script.arrives().await, 201, &format!(r#"{{"booking_id":"BK-1","reference":"{reference}"}}"#)).await;
    assert!(matches!(outcome.await.unwrap(), Outcome::Answered(answer) if answer.status == 201));
    assert_eq!(world.script.asked(), ["GET", "POST"]);
}

/// Its lease is over, and its database does not say whose the key is now: somebody else may be sending.
#[tokio::test]
async fn a_worker_whose_lease_is_over_sends_nothing() {
    let world = World::new().await;
    let work = world.claim().await;
    let writer = sea_orm::Database::connect(format!("sqlite://{}", world.file)).await.unwrap();
    writer.execute_unprepared("BEGIN IMMEDIATE").await.unwrap();
    let settler = world.settler(LOOK_UP_ONLY, 0);
    let counted_from = BootInstant::now();
    // What is left of a lease is less than it takes to connect.
    let mut late = work;
    if let entity::idempotency_key::State::InProgress { lease_until_ms, .. } = &mut late.record.state {
        *lease_until_ms = late.record.now_ms + 900;
    }
    let outcome = settler.settle(Assignment { work: late, counted_from }, Purpose::Request);
    assert_eq!(outcome.await.unwrap(), Outcome::Pending);
    assert_eq!(world.script.asked(), [""; 0]);
}
