//! Which PostgreSQL databases the service takes, and what a role needs on them.

use super::support::prelude::*;

tests!(postgres [
    a_database_that_is_not_utf8_is_refused_at_the_start,
    a_role_with_rights_on_rows_only_runs_a_migrated_database,
    a_role_that_may_not_make_the_schema_says_which_right_is_missing,
    sessions_that_only_read_are_replaced_once_the_address_leads_to_a_primary,
]);

/// F09: it would book, and then have no letter for the answer.
async fn a_database_that_is_not_utf8_is_refused_at_the_start(case: &Case) {
    let upstream = case.upstream().await;
    for encoding in ["LATIN1", "SQL_ASCII"] {
        case.database.recreate(&format!("ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'")).await;
        for start in [case.api(&upstream), case.jobs(&upstream), case.program("migration").arguments(["up"])] {
            let ended = start.run().await;
            let complaint = ended.expect_refusal().complaint.trim();
            let last = complaint.lines().last().unwrap_or_default();
            assert!(last.contains(encoding) && last.contains("UTF8"), "{ended:?}");
        }
        assert_eq!(case.database.number("SELECT count(*) AS n FROM pg_tables WHERE schemaname = 'public'").await, 0);
    }
    case.database.recreate("ENCODING 'UTF8'").await;
    let service = case.api(&upstream).start().await;
    service.post(&case.key(), &case.body()).await.expect_created();
}

/// F05: not even the table of migrations may be written.
async fn a_role_with_rights_on_rows_only_runs_a_migrated_database(case: &Case) {
    let upstream = case.upstream().await;
    case.program("migration").arguments(["up"]).run().await.expect_success();
    let url = case.database.url_of_a_role().await;
    let role = case.database.role();
    case.database.execute(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")).await;
    case.database.execute(&format!("REVOKE INSERT, UPDATE, DELETE ON seaql_migrations FROM {role}")).await;

    let service = case.api(&upstream).set("DATABASE_URL", &url).start().await;
    let (key, body) = (case.key(), case.body());
    let made = service.post(&key, &body).await;
    made.expect_created();
    let changed = service.patch(&made.id(), &case.key(), &made.etag(), &json!({"quantity": 2})).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    service.post(&key, &body).await.expect_replay_of(&made);
    for arguments in [&["--once"][..], &["keys", "list"]] {
        case.jobs(&upstream).set("DATABASE_URL", &url).arguments(arguments.iter().copied()).run().await.expect_success();
    }
    case.program("migration").set("DATABASE_URL", &url).arguments(["status"]).run().await.expect_success();

    // The same role on a schema that lacks its last change: nothing is half done, and another role can do it.
    case.database.execute("DROP TABLE operator_action").await;
    case.database.execute("DELETE FROM seaql_migrations WHERE version = 'm20261202_000006_create_operator_action'").await;
    let ended = case.jobs(&upstream).set("DATABASE_URL", &url).arguments(["--once"]).run().await;
    assert_eq!(ended.expect_refusal().complaint.trim().lines().count(), 1, "{ended:?}");
    assert!(ended.complaint.contains("CREATE on schema public") && ended.complaint.contains("`migration up`"), "{ended:?}");
    case.program("migration").arguments(["up"]).run().await.expect_success();

    // And with less than it needs.
    case.database.execute(&format!("REVOKE UPDATE ON idempotency_key FROM {role}")).await;
    let ended = case.jobs(&upstream).set("DATABASE_URL", &url).arguments(["--once"]).run().await;
    assert_eq!(ended.expect_refusal().complaint.trim().lines().count(), 1, "{ended:?}");
    assert!(ended.complaint.contains("idempotency_key") && ended.complaint.contains("UPDATE"), "{ended:?}");
}

/// F05: an empty database.
async fn a_role_that_may_not_make_the_schema_says_which_right_is_missing(case: &Case) {
    let upstream = case.upstream().await;
    let url = case.database.url_of_a_role().await;
    for (schema, right) in [("public", "CREATE on schema public"), ("nowhere", "no schema has been selected")] {
        let url = format!("{url}?options=-c%20search_path%3D{schema}");
        for start in [case.api(&upstream), case.jobs(&upstream), case.program("migration").arguments(["up"])] {
            let ended = start.set("DATABASE_URL", &url).run().await;
            assert_eq!(ended.expect_refusal().complaint.trim().lines().count(), 1, "{ended:?}");
            assert!(ended.complaint.contains(right) && ended.complaint.contains("`migration up`"), "{ended:?}");
        }
    }
    assert_eq!(case.database.number("SELECT count(*) AS n FROM pg_tables WHERE schemaname = 'public'").await, 0);
}

/// F11: sessions survive a failover on a server that only reads now. While nothing can be written, stored answers are served and nothing
/// is sent; the first request after the address leads to a primary is answered, and so are all others.
async fn sessions_that_only_read_are_replaced_once_the_address_leads_to_a_primary(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    first.expect_created();
    let for_new_sessions = async |read_only: &str| {
        let name = case.database.name();
        case.database.administrate(&format!("ALTER DATABASE {name} SET default_transaction_read_only = {read_only}")).await;
    };
    for_new_sessions("on").await;
    case.database.end_sessions(None).await;
    for _ in 0..3 {
        // They fill the pool.
        together((0..16).map(|_| service.get("/reservations"))).await;
        let refused = case.body();
        service.post(&case.key(), &refused).await.expect_problem(503, "storage-unavailable");
        assert!(upstream.posts(&refused).is_empty());
    }
    service.post(&key, &body).await.expect_replay_of(&first);
    together((0..16).map(|_| service.get("/reservations"))).await;

    for_new_sessions("off").await;
    let bodies: Vec<_> = (0..32).map(|_| (case.key(), case.body())).collect();
    service.post(&bodies[0].0, &bodies[0].1).await.expect_created();
    for reply in together(bodies[1..].iter().map(|(key, body)| service.post(key, body))).await {
        reply.expect_created();
    }
    service.is_ready().await;
}
