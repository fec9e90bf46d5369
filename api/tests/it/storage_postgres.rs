//! Which PostgreSQL databases the service takes, and what a role needs on them.

use super::support::prelude::*;

tests!(postgres [
    a_database_that_is_not_utf8_is_refused_at_the_start,
    a_role_with_rights_on_rows_only_runs_a_migrated_database,
    a_role_that_may_not_make_the_schema_says_which_right_is_missing,
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
