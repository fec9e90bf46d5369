//! SQLite: what was not committed was not done. A full disk fails at the commit, after a statement has shown its row, and may end the
//! transaction behind the library's back; here triggers do the same on any machine.

use entity::lifecycle::{self, Claimed, Finalized};
use entity::reservation;
use sea_orm::ConnectionTrait;

use crate::support::{Fresh, LONG_MS, answer, booked, mine, new_key, stolen};

#[tokio::test]
async fn a_claim_whose_commit_fails_is_no_claim() {
    let fresh = Fresh::sqlite().await;
    // The insert shows its row, and its commit fails: the child names a parent that is not there.
    for sql in [
        "CREATE TABLE parent (id integer PRIMARY KEY)",
        "CREATE TABLE child (id integer REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)",
        "CREATE TRIGGER fail AFTER INSERT ON idempotency_key BEGIN INSERT INTO child VALUES (1); END",
    ] {
        fresh.raw.execute_unprepared(sql).await.unwrap();
    }
    let new = new_key("k");
    let claimed = lifecycle::claim(&fresh.db, &new, &|_| Some(new.fingerprint), false).await;
    assert!(claimed.is_err(), "{claimed:?}");
    assert_eq!(lifecycle::find(&fresh.db, &new.digest).await.unwrap(), None);

    fresh.raw.execute_unprepared("DROP TRIGGER fail").await.unwrap();
    assert!(matches!(lifecycle::claim(&fresh.db, &new, &|_| Some(new.fingerprint), false).await, Ok(Claimed::Mine(_))));
    assert!(lifecycle::find(&fresh.db, &new.digest).await.unwrap().is_some());
}

#[tokio::test]
async fn after_a_transaction_that_ended_by_itself_commits_are_commits() {
    let fresh = Fresh::sqlite().await;
    let db = &fresh.db;
    let work = mine(db, &new_key("k")).await;
    let end = "CREATE TRIGGER fail BEFORE INSERT ON reservation BEGIN SELECT RAISE(ROLLBACK, 'the disk is full'); END";
    fresh.raw.execute_unprepared(end).await.unwrap();
    assert!(lifecycle::finalize(db, &work.lease, &answer("x"), &booked(&work), LONG_MS).await.is_err());
    fresh.raw.execute_unprepared("DROP TRIGGER fail").await.unwrap();

    // An ordinary rollback, and then work that says it is done: it must be there for everybody.
    let lost = lifecycle::finalize(db, &stolen(&work.lease), &answer("y"), &booked(&work), LONG_MS).await;
    assert_eq!(lost.unwrap(), Finalized::LeaseLost);
    let done = lifecycle::finalize(db, &work.lease, &answer("x"), &booked(&work), LONG_MS).await;
    assert_eq!(done.unwrap(), Finalized::Done);
    assert!(reservation::find(db, "local", &work.record.reservation_id).await.unwrap().is_some(), "said to be done, and not there");
    let seen =
        fresh.raw.query_one_raw(sea_orm::Statement::from_string(sea_orm::DatabaseBackend::Sqlite, "SELECT count(*) AS n FROM reservation"));
    assert_eq!(seen.await.unwrap().unwrap().try_get::<i64>("", "n").unwrap(), 1);
}

/// A commit that is acknowledged survives a power failure only where SQLite waits for the disk (2 is FULL): an answer that is gone then
/// would be booked once more.
#[tokio::test]
async fn a_commit_waits_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("test.db").display());
    let opened = migration::connect::open(sea_orm::ConnectOptions::new(url), std::time::Duration::from_secs(5)).await.unwrap();
    let pragma = async |name: &str| {
        let sql = format!("PRAGMA {name}");
        let row = opened.query_one_raw(sea_orm::Statement::from_string(sea_orm::DatabaseBackend::Sqlite, sql)).await.unwrap().unwrap();
        row.try_get_by_index::<i64>(0).unwrap()
    };
    assert_eq!((pragma("synchronous").await, pragma("foreign_keys").await), (2, 1));
}
