//! PostgreSQL: no unique index and no page depends on the rules of the operating system for sorting text, which change with its C library.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use entity::database::{Database, DatabaseSettings};
use entity::lifecycle::{self, Claimed};
use entity::{job_run, reservation};
use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseConnection, Statement};

use crate::support::{Fresh, LONG_MS, answer, booked, mine, new_key};

/// The migrations of the release before the change.
const BEFORE: u32 = 6;

/// Unique indexes over text that is not compared by its bytes.
const OTHER_COLLATIONS: &str = "SELECT format('%s.%s', i.indexrelid::regclass, a.attname) AS name FROM pg_index i \
     JOIN pg_attribute a ON a.attrelid = i.indexrelid JOIN pg_collation c ON c.oid = a.attcollation \
     JOIN pg_class t ON t.oid = i.indrelid WHERE t.relnamespace = 'public'::regnamespace AND i.indisunique AND c.collname <> 'C'";

async fn names(raw: &DatabaseConnection, sql: &str) -> Vec<String> {
    let rows = raw.query_all_raw(Statement::from_string(DatabaseBackend::Postgres, sql)).await.unwrap();
    rows.iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
}

async fn number(raw: &DatabaseConnection, sql: &str) -> i64 {
    raw.query_one_raw(Statement::from_string(DatabaseBackend::Postgres, sql)).await.unwrap().unwrap().try_get_by_index(0).unwrap()
}

/// A key that is completed, with its reservation.
async fn book(db: &Database, key: &str) -> String {
    let work = mine(db, &new_key(key)).await;
    lifecycle::finalize(db, &work.lease, &answer("x"), &booked(&work), LONG_MS).await.unwrap();
    work.record.reservation_id
}

/// F04: the earlier release has filled the database, and one of its processes goes on with prepared statements while the next one migrates.
#[tokio::test]
async fn an_upgrade_leaves_no_unique_index_over_text_to_the_operating_system() {
    let url = Fresh::postgres_database().await;
    let raw = sea_orm::Database::connect(&url).await.unwrap();
    migration::up_to(&raw, BEFORE).await.unwrap();
    let db = Database::connect(&DatabaseSettings { url: url.clone(), pool: 4, acquire_timeout: Duration::from_secs(10) }).await.unwrap();
    let mut booked = Vec::new();
    for number in 0..100 {
        booked.push(book(&db, &format!("k{number}")).await);
        reservation::find(&db, "local", &booked[0]).await.unwrap().unwrap();
    }
    job_run::succeeded(&db, "before", "w").await.unwrap();
    assert_eq!(names(&raw, OTHER_COLLATIONS).await.len(), 5, "the schema of the earlier release");

    // Somebody reads all of it for a while, as a dump does.
    let dump = sea_orm::Database::connect(&url).await.unwrap();
    dump.execute_unprepared("BEGIN; LOCK TABLE idempotency_key, reservation IN ACCESS SHARE MODE").await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let load = {
        let (db, over) = (db.clone(), Arc::clone(&over));
        tokio::spawn(async move {
            let mut booked = Vec::new();
            while !over.load(Ordering::SeqCst) || booked.is_empty() {
                booked.push(book(&db, &format!("load{}", booked.len())).await);
                reservation::find(&db, "local", &booked[0]).await.unwrap().unwrap();
                lifecycle::find_by_reference(&db, &booked[0]).await.unwrap().unwrap();
            }
            booked
        })
    };
    let upgrade = async { migration::up(&raw, migration::session::Sessions::Own).await.unwrap() };
    let dumped = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        dump.execute_unprepared("COMMIT").await.unwrap();
    };
    tokio::join!(upgrade, dumped);
    tokio::time::sleep(Duration::from_millis(200)).await;
    over.store(true, Ordering::SeqCst);
    booked.extend(load.await.unwrap());

    assert_eq!(names(&raw, OTHER_COLLATIONS).await, Vec::<String>::new());
    assert_eq!(number(&raw, "SELECT count(*) FROM reservation").await, booked.len() as i64);
    // Nothing is there twice, and nothing was forgotten.
    for id in &booked {
        assert!(reservation::find(&db, "local", id).await.unwrap().is_some());
        assert!(lifecycle::find_by_reference(&db, id).await.unwrap().is_some());
    }
    let again = lifecycle::NewKey { reference: booked[0].clone(), reservation_id: booked[0].clone(), ..new_key("another") };
    let claimed = lifecycle::claim(&db, &again, &|_| Some([7; 32]), false).await;
    assert!(!matches!(claimed, Ok(Claimed::Mine(_))), "a reference twice");
    for copy in [
        "INSERT INTO reservation SELECT * FROM reservation LIMIT 1",
        "INSERT INTO job_run SELECT * FROM job_run LIMIT 1",
        "INSERT INTO seaql_migrations SELECT * FROM seaql_migrations LIMIT 1",
        "UPDATE reservation SET id = NULL",
    ] {
        assert!(raw.execute_unprepared(copy).await.is_err(), "{copy}");
    }
    job_run::succeeded(&db, "before", "w").await.unwrap();
    assert_eq!(job_run::all(&db).await.unwrap().len(), 1);

    // Pages are in the order of the bytes, and read along an index.
    booked.sort();
    booked.reverse();
    let mut seen: Vec<String> = Vec::new();
    while let page = reservation::list(&db, "local", None, seen.last().map(String::as_str), 30).await.unwrap()
        && !page.is_empty()
    {
        seen.extend(page.into_iter().map(|reservation| reservation.id));
    }
    assert_eq!(seen, booked);
    raw.execute_unprepared("ANALYZE").await.unwrap();
    for (sql, index) in [
        (
            "SELECT id FROM reservation WHERE account = 'nobody' COLLATE \"C\" AND id < 'z' COLLATE \"C\" ORDER BY id COLLATE \"C\" DESC LIMIT 9",
            "reservation_account_c_idx",
        ),
        ("SELECT account FROM reservation WHERE id = 'x'", "reservation_id_hash_idx"),
        ("SELECT account FROM idempotency_key WHERE reference = 'x'", "idempotency_key_reference_hash_idx"),
    ] {
        let plan = names(&raw, &format!("EXPLAIN {sql}")).await.join("\n");
        assert!(plan.contains(index) && !plan.contains("Sort"), "{plan}");
    }
}
