//! The instruments themselves: a test that breaks something must have broken it.

use super::support::prelude::*;
use sea_orm::ConnectionTrait;

tests!(both [blocked_writes_wait_until_the_release] postgres [a_lost_acknowledgement_was_committed_all_the_same]);

async fn blocked_writes_wait_until_the_release(case: &Case) {
    let writer = case.database.connect_as_the_service_does().await;
    writer.execute_unprepared("CREATE TABLE probe (n integer)").await.unwrap();
    let blocked = case.database.block_writes().await;
    let write = tokio::spawn(async move {
        writer.execute_unprepared("INSERT INTO probe VALUES (4711)").await.unwrap();
    });
    pass(500).await;
    assert!(!write.is_finished());
    assert_eq!(case.database.rows_with("4711").await, 0);
    blocked.release().await;
    write.await.unwrap();
    assert_eq!(case.database.rows_with("4711").await, 1);
}

async fn a_lost_acknowledgement_was_committed_all_the_same(case: &Case) {
    let link = case.database.link().await;
    let service = case.database.connect_as_the_service_does().await;
    service.execute_unprepared("CREATE TABLE probe (n integer)").await.unwrap();
    let insert = |n: i32| {
        let statement = sea_orm::Statement::from_sql_and_values(sea_orm::DbBackend::Postgres, "INSERT INTO probe VALUES ($1)", [n.into()]);
        service.execute_raw(statement)
    };
    insert(4711).await.unwrap();
    link.lose_acknowledgement_after(1);
    insert(4712).await.unwrap();
    assert!(insert(4713).await.is_err());
    link.has_lost_one().await;
    assert_eq!(case.database.rows_with("4713").await, 1);
    // Only that one: the next connection is an ordinary one.
    insert(4714).await.unwrap();
    assert_eq!(case.database.rows_with("471").await, 4);
}
