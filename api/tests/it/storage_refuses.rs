//! The database is there and takes nothing: it is read-only, full, or has no connection left. Nothing is booked, and nothing needs a restart.

use super::support::prelude::*;

tests!(sqlite [
    on_a_full_disk_nothing_is_booked_and_nothing_is_lost,
    a_file_that_was_moved_away_keeps_nothing_and_its_successor_all,
    a_file_that_is_read_only_is_refused_at_the_start,
] postgres [
    a_read_only_database_books_nothing,
    a_database_without_a_connection_left_books_nothing,
]);

/// What is refused is refused with 503 and sent nowhere; afterwards it is an ordinary request.
async fn nothing_is_booked(service: &Service, upstream: &Upstream, key: &str, body: &Value) {
    for _ in 0..2 {
        service.post(key, body).await.expect_problem(503, "storage-unavailable");
    }
    assert!(upstream.posts(body).is_empty());
    assert_eq!(service.get("/health/live").await.status, 200);
}

async fn is_an_ordinary_request(service: &Service, upstream: &Upstream, key: &str, body: &Value) {
    let reply = service.settle(key, body).await;
    assert_eq!((reply.status, upstream.posts(body).len()), (201, 1), "{reply:?}");
    service.post(key, body).await.expect_replay_of(&reply);
}

/// B37
async fn a_read_only_database_books_nothing(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "1s").set("LEASE", "5s").start().await;
    service.post(&case.key(), &case.body()).await.expect_created();
    let (key, body, name) = (case.key(), case.body(), case.database.name());
    case.database.administrate(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    case.database.end_sessions(None).await;
    nothing_is_booked(&service, &upstream, &key, &body).await;
    case.database.administrate(&format!("ALTER DATABASE {name} RESET default_transaction_read_only")).await;
    case.database.end_sessions(None).await;
    is_an_ordinary_request(&service, &upstream, &key, &body).await;
}

/// B37
async fn a_database_without_a_connection_left_books_nothing(case: &Case) {
    let upstream = case.upstream().await;
    let url = case.database.url_of_its_owner().await;
    let setup = case.api(&upstream).set("DATABASE_URL", url).set("DATABASE_ACQUIRE_TIMEOUT", "1s").set("LEASE", "5s");
    let service = setup.start().await;
    service.post(&case.key(), &case.body()).await.expect_created();
    let (key, body, name) = (case.key(), case.body(), case.database.name());
    case.database.administrate(&format!("ALTER ROLE {name} CONNECTION LIMIT 0")).await;
    case.database.end_sessions(None).await;
    nothing_is_booked(&service, &upstream, &key, &body).await;
    case.database.administrate(&format!("ALTER ROLE {name} CONNECTION LIMIT -1")).await;
    is_an_ordinary_request(&service, &upstream, &key, &body).await;
}

/// B37, B34: before the claim, and between the booking and the finalize.
async fn on_a_full_disk_nothing_is_booked_and_nothing_is_lost(case: &Case) {
    let upstream = case.upstream().await;
    let setup = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "1s").set("LEASE", "2s").set("ANSWER_WITHIN", "2s");
    let service = setup.start().await;
    service.post(&case.key(), &case.body()).await.expect_created();
    let (key, body) = (case.key(), case.body());
    service.disk_is_full(true);
    nothing_is_booked(&service, &upstream, &key, &body).await;
    service.disk_is_full(false);
    is_an_ordinary_request(&service, &upstream, &key, &body).await;

    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Gate("answer now"), Answer]]);
    let first = service.post(&key, &body).in_flight();
    upstream.post_arrives(&body).await;
    service.disk_is_full(true);
    upstream.open_gate("answer now");
    let booking = upstream.is_booked(&body).await;
    // Longer than the lease.
    first.await.unwrap().expect_problem(503, "outcome-pending");
    pass(2500).await;
    service.disk_is_full(false);
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, reply.id(), upstream.bookings_of(&body).len()), (201, booking.reference, 1), "{reply:?}");
    case.expect_no_orphans(&upstream, &service).await;
}

/// A backup restored under a running server, in two steps: what goes to the file that nobody will open again would be lost.
async fn a_file_that_was_moved_away_keeps_nothing_and_its_successor_all(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("DATABASE_ACQUIRE_TIMEOUT", "1s").set("LEASE", "5s").start().await;
    let (first_key, first_body) = (case.key(), case.body());
    let first = service.post(&first_key, &first_body).await;
    first.expect_created();
    let file = |suffix: &str| case.folder().join(format!("reservations.db{suffix}"));
    case.database.execute(&format!("VACUUM INTO '{}'", file(".backup").display())).await;
    for suffix in ["", "-wal", "-shm"] {
        std::fs::rename(file(suffix), file(&format!(".old{suffix}"))).unwrap();
    }
    let (key, body) = (case.key(), case.body());
    nothing_is_booked(&service, &upstream, &key, &body).await;
    eventually("it is not ready", async || (service.get("/health/ready").await.status == 503).then_some(())).await;

    std::fs::rename(file(".backup"), file("")).unwrap();
    is_an_ordinary_request(&service, &upstream, &key, &body).await;
    service.kill_9();
    service.start_again().await;
    for (key, body) in [(&first_key, &first_body), (&key, &body)] {
        assert!(service.post(key, body).await.is_replay());
        assert_eq!(upstream.bookings_of(body).len(), 1);
    }
}

/// B37
async fn a_file_that_is_read_only_is_refused_at_the_start(case: &Case) {
    let (upstream, service) = case.started().await;
    service.post(&case.key(), &case.body()).await.expect_created();
    service.terminate();
    assert_eq!(service.ends().await, Some(0), "{}", service.log());
    let file = case.folder().join("reservations.db");
    let read_only = |yes: bool| {
        let mut permissions = std::fs::metadata(&file).unwrap().permissions();
        permissions.set_readonly(yes);
        std::fs::set_permissions(&file, permissions).unwrap();
    };
    read_only(true);
    // A file's permissions mean nothing to root, unless it gives that up.
    let as_anybody = "if [ \"$(id -u)\" = 0 ]; then exec setpriv --inh-caps=-all --bounding-set=-all \"$@\"; else exec \"$@\"; fi";
    let refused = case.api(&upstream).through(as_anybody).run().await;
    assert!(refused.expect_refusal().complaint.contains("readonly") || refused.complaint.contains("read-only"), "{refused:?}");
    read_only(false);
    service.start_again().await;
    service.post(&case.key(), &case.body()).await.expect_created();
}
