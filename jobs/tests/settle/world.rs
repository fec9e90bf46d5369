//! A database in a file, a booking system, and keys in all the situations in which a worker may meet them.

use std::time::Duration;

use entity::database::{Database, DatabaseSettings};
use entity::idempotency_key::{Record, State};
use entity::key_scope::{KeyDigest, Operation};
use entity::lifecycle::{self, Claimed, Effect, Guard, NewKey, NewReservation, Work};
use entity::reservation::{self, Details, Reservation};
use jobs::answer;
use jobs::booking::http::{HttpBookingSystem, HttpSettings};
use jobs::boot_clock::BootInstant;
use jobs::journal::Journal;
use jobs::rules::{Bounds, Offer, Purpose};
use jobs::settle::{Assignment, Outcome, SettleSettings, Settler};
use sea_orm::{ConnectionTrait as _, DatabaseConnection};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::booking::Script;

pub const BOTH: Offer = Offer { idempotent: true, lookup: true };
pub const LOOK_UP_ONLY: Offer = Offer { idempotent: false, lookup: true };
pub const RECOGNISES_ONLY: Offer = Offer { idempotent: true, lookup: false };
pub const NEITHER: Offer = Offer { idempotent: false, lookup: false };
pub const JOB: Purpose = Purpose::Recovery { rebook: false };

/// A send is believed to be over after their sum.
const BOOKING_TIMEOUT_MS: i64 = 10_000;
const ABSENT_AFTER_MS: i64 = 10_000;
pub const SETTLES_AFTER_MS: i64 = BOOKING_TIMEOUT_MS + ABSENT_AFTER_MS;
pub const LEASE_MS: i64 = 60_000;
pub const RETENTION: Duration = Duration::from_secs(3600);

pub struct World {
    pub db: Database,
    pub script: Script,
    file: String,
    _folder: tempfile::TempDir,
}

impl World {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db").display().to_string();
        let url = format!("sqlite://{file}?mode=rwc");
        let db = Database::connect(&DatabaseSettings { url, pool: 4, acquire_timeout: Duration::from_secs(1) }).await.unwrap();
        db.migrate().await.unwrap();
        Self { db, script: Script::listen().await, file, _folder: folder }
    }

    /// A connection past the service's own.
    pub async fn beside(&self) -> DatabaseConnection {
        let mut options = sea_orm::ConnectOptions::new(format!("sqlite://{}", self.file));
        options.max_connections(1);
        sea_orm::Database::connect(options).await.unwrap()
    }

    pub async fn execute(&self, sql: &str) {
        self.beside().await.execute_unprepared(sql).await.unwrap();
    }

    pub fn settler(&self, offer: Offer) -> Settler {
        self.settler_with(offer, |_| {})
    }

    /// `remembered_ms`: for so long from its first send on the booking system recognises a key.
    pub fn forgetful(&self, offer: Offer, remembered_ms: i64) -> Settler {
        self.settler_with(offer, |settings| settings.bounds.booking_key_retention_ms = remembered_ms)
    }

    pub fn settler_with(&self, offer: Offer, change: impl FnOnce(&mut SettleSettings)) -> Settler {
        let http = HttpSettings {
            url: self.script.url.parse().unwrap(),
            token: None,
            timeout: Duration::from_millis(BOOKING_TIMEOUT_MS.unsigned_abs()),
            connect_timeout: Duration::from_secs(1),
            keep_connections: false,
        };
        let mut settings = SettleSettings {
            offer,
            bounds: Bounds {
                booking_timeout_ms: BOOKING_TIMEOUT_MS,
                absent_after_ms: ABSENT_AFTER_MS,
                booking_key_retention_ms: 86_400_000,
            },
            connect_timeout: Duration::from_secs(1),
            lease: Duration::from_millis(LEASE_MS.unsigned_abs()),
            retention: RETENTION,
            answer_within: Duration::from_secs(30),
            public_base: "http://localhost".into(),
            rebook: false,
        };
        change(&mut settings);
        let journal = Journal::start(self.db.clone(), "test".into());
        Settler::new(self.db.clone(), HttpBookingSystem::new(&http).unwrap(), settings, journal, TaskTracker::new())
    }

    pub async fn claim(&self) -> Work {
        self.claim_of(new_key("k")).await
    }

    pub async fn claim_of(&self, new: NewKey) -> Work {
        match lifecycle::claim(&self.db, &new, &|_| Some([7; 32]), false).await.unwrap() {
            Claimed::Mine(work) => work,
            other => panic!("not ours: {other:?}"),
        }
    }

    /// A key whose worker stopped, having sent so long ago without learning what became of it; taken over.
    pub async fn taken_over(&self, sent_ms_ago: i64) -> Work {
        let work = self.claim().await;
        self.take_over(&work, Some(sent_ms_ago)).await
    }

    /// As [`World::taken_over`]; nothing was sent where there is no age.
    pub async fn take_over(&self, work: &Work, sent_ms_ago: Option<i64>) -> Work {
        lifecycle::end_lease(&self.db, &work.lease, sent_ms_ago).await.unwrap();
        lifecycle::take_over_stale(&self.db, &Uuid::new_v4().to_string(), LEASE_MS, 1).await.unwrap().remove(0)
    }

    /// A reservation for one, and how it is booked.
    pub async fn confirmed(&self) -> Reservation {
        let work = self.claim_of(new_key("booked")).await;
        let effect = Effect::Create(NewReservation {
            id: work.record.reservation_id.clone(),
            account: "local".into(),
            details: details(1),
            booking_id: "BK-1".into(),
            created_at_ms: work.record.created_at_ms,
        });
        lifecycle::finalize(&self.db, &work.lease, &answer::cancelled(), &effect, 60_000).await.unwrap();
        self.reservation(&work.record.reservation_id).await.unwrap()
    }

    /// The claim of a change of its quantity.
    pub async fn change(&self, before: &Reservation, quantity: i32) -> Work {
        let change_to = serde_json::to_vec(&details(quantity)).unwrap();
        let guard = Guard::Change { version: before.version, change_to };
        self.claim_of(NewKey { reservation_id: before.id.clone(), operation: Operation::Change, guard, ..new_key("change") }).await
    }

    pub async fn cancellation(&self, before: &Reservation) -> Work {
        let guard = Guard::Cancel { version: None };
        self.claim_of(NewKey { reservation_id: before.id.clone(), operation: Operation::Cancel, guard, ..new_key("cancel") }).await
    }

    pub async fn reservation(&self, id: &str) -> Option<Reservation> {
        reservation::find(&self.db, "local", id).await.unwrap()
    }

    pub async fn record(&self, work: &Work) -> Option<Record> {
        lifecycle::find(&self.db, &work.lease.digest).await.unwrap()
    }

    pub async fn state(&self, work: &Work) -> State {
        self.record(work).await.unwrap().state
    }
}

pub fn details(quantity: i32) -> Details {
    Details { item_code: "ROOM-101".into(), quantity, reserved_by: "taro".into(), starts_at: None, ends_at: None, note: None }
}

pub fn new_key(key: &str) -> NewKey {
    let reference = Uuid::now_v7().to_string();
    NewKey {
        digest: KeyDigest::of("local", Operation::Create, key),
        account: "local".into(),
        operation: Operation::Create,
        fingerprint_version: 1,
        fingerprint: [7; 32],
        request: serde_json::to_vec(&details(1)).unwrap(),
        reservation_id: reference.clone(),
        reference,
        token: Uuid::new_v4().to_string(),
        lease_ms: LEASE_MS,
        guard: Guard::None,
    }
}

/// A booking as the booking system shows it.
pub fn booked(reference: &str) -> String {
    format!(r#"{{"booking_id":"BK-1","reference":"{reference}","quantity":1}}"#)
}

pub fn now(work: Work) -> Assignment {
    Assignment { work, counted_from: BootInstant::now() }
}

/// Whether this answer was stored.
pub fn answered(outcome: &Outcome, status: u16) -> bool {
    matches!(outcome, Outcome::Answered(answer) if answer.status == status)
}
