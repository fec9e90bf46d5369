//! Whose key it is: account, method and route.

use super::support::prelude::*;
use sea_orm::ConnectionTrait;

tests!(both [
    accounts_know_nothing_of_each_other,
    tokens_of_one_account_share_its_keys,
    one_key_serves_every_route_and_every_reservation_apart,
    a_fingerprint_of_a_later_release_is_never_another_request,
    what_is_stored_is_what_the_golden_vectors_say,
]);

const TOKENS: &str = "acme:acme-token-1,acme:acme-token-2,other:other-token-1";

async fn two_accounts(case: &Case) -> (Upstream, Service) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("API_TOKENS", TOKENS).start().await;
    (upstream, service)
}

/// B06
async fn accounts_know_nothing_of_each_other(case: &Case) {
    let (upstream, service) = two_accounts(case).await;
    let (key, body, other_body) = (case.key(), case.body(), case.body());
    let first = service.post(&key, &body).await;
    first.expect_created();
    // The other account's key of the same name is another key: judged by its own record only.
    let theirs = service.post(&key, &other_body).token("other-token-1").await;
    assert_ne!(theirs.expect_created()["id"], first.json()["id"]);
    service.post(&key, &body).token("other-token-1").await.expect_problem(422, "key-reused");
    service.post(&key, &body).await.expect_replay_of(&first);

    service.reservation(&first.id()).token("other-token-1").await.expect_problem(404, "not-found");
    service.delete(&first.id()).token("other-token-1").await.expect_problem(404, "not-found");
    let patch = service.patch(&first.id(), &case.key(), &first.etag(), &json!({"quantity": 9})).token("other-token-1").await;
    patch.expect_problem(404, "not-found");
    let list = service.get("/reservations").token("other-token-1").await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    let fresh = case.key();
    service.post(&fresh, &case.body()).await.expect_created();
    let record = service.get(&format!("/idempotency-keys/{fresh}?operation=createReservation")).token("other-token-1").await;
    record.expect_problem(404, "not-found");
    assert_eq!((upstream.requests("PATCH").len(), upstream.requests("DELETE").len()), (0, 0));
}

async fn tokens_of_one_account_share_its_keys(case: &Case) {
    let (upstream, service) = two_accounts(case).await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).token("acme-token-1").await;
    first.expect_created();
    service.post(&key, &body).token("acme-token-2").await.expect_replay_of(&first);
    assert_eq!(service.reservation(&first.id()).token("acme-token-2").await.json(), first.json());
    assert_eq!(upstream.posts(&body).len(), 1);
}

/// B06
async fn one_key_serves_every_route_and_every_reservation_apart(case: &Case) {
    let (_upstream, service) = case.started().await;
    let key = case.key();
    let one = service.post(&key, &case.body()).await;
    let two = service.post(&case.key(), &case.body()).await;
    let patched = service.patch(&one.id(), &key, &one.etag(), &json!({"quantity": 4})).await;
    assert_eq!((patched.status, patched.is_replay(), &patched.json()["quantity"]), (200, false, &json!(4)), "{patched:?}");
    // The same key on another reservation: never the first one's answer. It is one route, so it is another request.
    let other = service.patch(&two.id(), &key, &two.etag(), &json!({"quantity": 4})).await;
    other.expect_problem(422, "key-reused");
    assert_eq!(other.json()["mismatch"], json!([]), "no member differs: {other:?}");
    let other = service.patch(&two.id(), &key, &two.etag(), &json!({"note": null})).await;
    assert_eq!(other.json()["mismatch"], json!(["/note", "/quantity"]), "{other:?}");
    assert_eq!(service.reservation(&two.id()).await.json()["quantity"], 1);
    service.patch(&one.id(), &key, &one.etag(), &json!({"quantity": 4})).await.expect_replay_of(&patched);
}

async fn a_fingerprint_of_a_later_release_is_never_another_request(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    first.expect_created();
    let database = case.database.connect().await;
    let set_version = |version: u16| format!("UPDATE idempotency_key SET fingerprint_version = {version}");
    database.execute_unprepared(&set_version(99)).await.unwrap();
    for other in [&body, &changed(&body, json!({"quantity": 2}))] {
        let reply = service.post(&key, other).await;
        reply.expect_problem(500, "internal");
        assert!(reply.retry_after() >= 1);
    }
    database.execute_unprepared(&set_version(1)).await.unwrap();
    database.close().await.unwrap();
    service.post(&key, &body).await.expect_replay_of(&first);
    assert_eq!(upstream.posts(&body).len(), 1);
}

/// The golden vectors are what earlier releases have stored: a key whose record holds them replays in this one.
async fn what_is_stored_is_what_the_golden_vectors_say(case: &Case) {
    let (_upstream, service) = case.started().await;
    let vectors: Vec<Value> = serde_json::from_str(include_str!("../golden/fingerprint_v1.json")).unwrap();
    let database = case.database.connect().await;
    let mut creations = 0;
    for vector in vectors.iter().filter(|vector| vector["route"] == "/reservations" && vector["method"] == "POST") {
        let key = case.key();
        let first = service.post(&key, &vector["body"]).await;
        first.expect_created();
        let id = first.id();
        let (backend, digits) = match case.engine {
            super::support::Engine::Sqlite => (sea_orm::DbBackend::Sqlite, "lower(hex(fingerprint))"),
            super::support::Engine::Postgres => (sea_orm::DbBackend::Postgres, "encode(fingerprint, 'hex')"),
        };
        let sql =
            format!("SELECT {digits} AS fingerprint, fingerprint_version AS version FROM idempotency_key WHERE reservation_id = '{id}'");
        let row = database.query_one_raw(sea_orm::Statement::from_string(backend, sql)).await.unwrap().unwrap();
        assert_eq!(row.try_get::<String>("", "fingerprint").unwrap(), vector["sha256"].as_str().unwrap(), "{vector}");
        creations += 1;
        service.post(&key, &vector["body"]).await.expect_replay_of(&first);
    }
    database.close().await.unwrap();
    assert!(creations >= 2, "{creations} golden creations");
}
