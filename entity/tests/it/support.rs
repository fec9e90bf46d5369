//! A fresh, migrated database for each test: a SQLite file, or a database of its own on `TEST_DATABASE_URL`.

use std::time::Duration;

use entity::database::{Database, DatabaseSettings};
use entity::idempotency_key::Answer;
use entity::key_scope::{KeyDigest, Operation};
use entity::lifecycle::{self, Claimed, Effect, Guard, Lease, NewKey, NewReservation, Work};
use entity::reservation::{self, Details, Reservation};
use sea_orm::{ConnectionTrait, DatabaseConnection};
use uuid::Uuid;

pub const LONG_MS: i64 = 60_000;

/// The database under test, and a connection past it that sees and sets what it likes.
pub struct Fresh {
    pub db: Database,
    pub raw: DatabaseConnection,
    _folder: Option<tempfile::TempDir>,
}

impl Fresh {
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("test.db").display());
        Self::connect(url, Some(folder)).await
    }

    pub async fn postgres() -> Self {
        Self::connect(Self::postgres_database().await, None).await
    }

    /// The address of an empty database.
    pub async fn postgres_database() -> String {
        let server = std::env::var("TEST_DATABASE_URL")
            .expect("TEST_DATABASE_URL names no PostgreSQL server: run the tests with `make test` or `.ci/with-postgres cargo test`");
        let name = format!("t{}", Uuid::new_v4().simple());
        let admin = sea_orm::Database::connect(&server).await.unwrap();
        admin.execute_unprepared(&format!("CREATE DATABASE {name}")).await.unwrap();
        admin.close().await.unwrap();
        let (base, parameters) = server.split_once('?').map_or((server.as_str(), String::new()), |(b, p)| (b, format!("?{p}")));
        let base = base.rsplit_once('/').filter(|(b, _)| !b.ends_with('/')).map_or(base, |(b, _)| b);
        format!("{base}/{name}{parameters}")
    }

    async fn connect(url: String, folder: Option<tempfile::TempDir>) -> Self {
        let raw = url.clone();
        let db = Database::connect(&DatabaseSettings { url, pool: 4, acquire_timeout: Duration::from_secs(10) }).await.unwrap();
        db.migrate().await.unwrap();
        Self { db, raw: sea_orm::Database::connect(raw).await.unwrap(), _folder: folder }
    }
}

/// Makes `sqlite::name` and `postgres::name` of each `async fn name(fresh: Fresh)`.
#[macro_export]
macro_rules! on_both_databases {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() { super::$name($crate::support::Fresh::sqlite().await).await; })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() { super::$name($crate::support::Fresh::postgres().await).await; })*
        }
    };
}

pub fn details() -> Details {
    Details { item_code: "ROOM".into(), quantity: 1, reserved_by: "taro".into(), starts_at: None, ends_at: None, note: None }
}

pub fn new_key(key: &str) -> NewKey {
    let reference = Uuid::now_v7().to_string();
    NewKey {
        digest: KeyDigest::of("local", Operation::Create, key),
        account: "local".into(),
        operation: Operation::Create,
        fingerprint_version: 1,
        fingerprint: [7; 32],
        request: b"{}".to_vec(),
        reservation_id: reference.clone(),
        reference,
        token: Uuid::new_v4().to_string(),
        lease_ms: LONG_MS,
        guard: Guard::None,
    }
}

pub async fn claim(db: &Database, new: &NewKey) -> Claimed {
    let fingerprint = new.fingerprint;
    lifecycle::claim(db, new, &|version| (version == 1).then_some(fingerprint), false).await.unwrap()
}

pub async fn mine(db: &Database, new: &NewKey) -> Work {
    match claim(db, new).await {
        Claimed::Mine(work) => work,
        other => panic!("not ours: {other:?}"),
    }
}

pub fn answer(body: &str) -> Answer {
    Answer {
        status: 201,
        content_type: Some("application/json".into()),
        location: Some("/reservations/x".into()),
        etag: Some("\"e\"".into()),
        body: body.into(),
    }
}

pub fn booked(work: &Work) -> Effect {
    Effect::Create(NewReservation {
        id: work.record.reservation_id.clone(),
        account: work.record.account.clone(),
        details: details(),
        booking_id: "BK-1".into(),
        created_at_ms: work.record.created_at_ms,
    })
}

pub fn change_of(reservation: &Reservation, key: &str, guard: Guard) -> NewKey {
    let operation = if matches!(guard, Guard::Cancel { .. }) { Operation::Cancel } else { Operation::Change };
    NewKey {
        digest: KeyDigest::of("local", operation, key),
        operation,
        reservation_id: reservation.id.clone(),
        reference: Uuid::now_v7().to_string(),
        guard,
        ..new_key(key)
    }
}

pub fn to_version(version: i64) -> Guard {
    Guard::Change { version, change_to: b"{}".to_vec() }
}

pub async fn confirmed(fresh: &Fresh) -> Reservation {
    let work = mine(&fresh.db, &new_key("k")).await;
    lifecycle::finalize(&fresh.db, &work.lease, &answer("x"), &booked(&work), LONG_MS).await.unwrap();
    reservation::find(&fresh.db, "local", &work.record.reservation_id).await.unwrap().unwrap()
}

/// Does what another process would do just between two statements of ours.
pub fn meanwhile(raw: &DatabaseConnection, sql: &str) {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(raw.execute_unprepared(sql))).unwrap();
}

/// A lease that nobody has.
pub fn stolen(lease: &Lease) -> Lease {
    Lease { digest: lease.digest, token: Uuid::new_v4().to_string() }
}
