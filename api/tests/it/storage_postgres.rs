//! Which PostgreSQL databases the service takes, and what a role needs on them.

use super::support::prelude::*;

tests!(postgres [
    a_database_that_is_not_utf8_is_refused_at_the_start,
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
