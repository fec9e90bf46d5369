//! Who may call at all.

use super::support::prelude::*;
use sha2::{Digest, Sha256};

tests!(both [
    without_a_valid_token_nothing_is_looked_at,
    a_created_token_works_and_is_nowhere_to_be_read,
    a_revoked_token_is_refused_and_stays_revoked,
    checks_come_in_their_order,
    a_rotation_under_load_is_noticed_by_nobody,
    a_role_gives_nothing_over_http,
] sqlite [an_open_server_answers_only_to_loopback_names, an_open_server_refuses_what_a_proxy_passed_on]);

/// B20
async fn without_a_valid_token_nothing_is_looked_at(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("API_TOKENS", "acme:acme-token-1").start().await;
    let (key, body) = (case.key(), case.body());
    for credentials in ["Bearer wrong", "Bearer ", "Basic YWNtZTphY21lLXRva2VuLTE=", "acme-token-1", "Bearer acme-token-1 x", ""] {
        let reply = service.post(&key, &body).header("Authorization", credentials).await;
        assert_eq!((reply.status, reply.code().as_deref()), (401, Some("unauthenticated")), "{credentials}: {reply:?}");
    }
    let twice = service.post(&key, &body).header("Authorization", "Bearer acme-token-1").header("Authorization", "Bearer wrong").await;
    twice.expect_problem(401, "unauthenticated");
    for target in ["/reservations", &format!("/idempotency-keys/{key}?operation=createReservation"), "/reservations/x"] {
        service.get(target).no_token().await.expect_problem(401, "unauthenticated");
    }
    assert_eq!(upstream.everything(), 0);
    let first = service.post(&key, &body).await;
    first.expect_created();
    service.post(&key, &body).no_token().await.expect_problem(401, "unauthenticated");
    service.post(&key, &body).await.expect_replay_of(&first);
    // What tells nothing about anybody needs no token.
    for target in ["/health/live", "/health/ready", "/openapi.json"] {
        assert_eq!(service.get(target).no_token().await.status, 200, "{target}");
    }
}

async fn a_created_token_works_and_is_nowhere_to_be_read(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("API_TOKENS", "acme:acme-token-1").start().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    first.expect_created();
    let created = case.api(&upstream).arguments(["token", "create", "--account", "acme"]).run().await;
    let token = created.expect_success().output.trim();
    assert!(token.len() >= 20 && !token.contains(char::is_whitespace), "not a token alone: {created:?}");
    let again = service.post(&key, &body).token(token).await;
    again.expect_replay_of(&first);
    assert_eq!(case.database.rows_with(token).await, 0, "the token is stored in clear");
    assert_eq!(case.database.rows_with("acme-token-1").await, 0, "a token of API_TOKENS is stored in clear");
    assert!(!service.log().contains("acme-token-1") && !service.log().contains(token), "a token is in the log");
}

/// B20
async fn a_revoked_token_is_refused_and_stays_revoked(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("API_TOKENS", "acme:acme-token-1,acme:acme-token-2").start().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).token("acme-token-1").await;
    first.expect_created();
    let list = case.api(&upstream).arguments(["token", "list"]).run().await;
    let digest = hex::encode(Sha256::digest("acme-token-1"));
    assert!(list.expect_success().output.contains(&digest[..8]) && !list.output.contains("acme-token"), "{list:?}");
    case.api(&upstream).arguments(["token", "revoke", &digest[..16]]).run().await.expect_success();
    eventually("the revoked token is refused", async || {
        (service.post(&key, &body).token("acme-token-1").await.status == 401).then_some(())
    })
    .await;
    // Nor can it change hands.
    let taken = case.api(&upstream).set("API_TOKENS", "other:acme-token-2").run().await;
    let complaint = &taken.expect_refusal().complaint;
    assert!(complaint.contains("API_TOKENS") && !complaint.contains("acme-token-2"), "{taken:?}");
    // Rotation: the other token of the account goes on, with the same keys.
    service.post(&key, &body).token("acme-token-2").await.expect_replay_of(&first);
    // The settings still name it; that adds nothing back.
    service.kill_9();
    service.start_again().await;
    service.post(&key, &body).token("acme-token-1").await.expect_problem(401, "unauthenticated");
}

/// Side by side in two processes: the new token is made, the callers change over, the old one is revoked; nobody is refused meanwhile.
async fn a_rotation_under_load_is_noticed_by_nobody(case: &Case) {
    let upstream = case.upstream().await;
    let setup = || case.api(&upstream).set("API_TOKENS", "acme:acme-token-1");
    let services = [setup().start().await, setup().start().await];
    let token = std::sync::Mutex::new("acme-token-1".to_owned());
    let stop = std::sync::atomic::AtomicBool::new(false);
    let load = together((0..4).map(|n| {
        let (token, stop, service) = (&token, &stop, &services[n % 2]);
        Box::pin(async move {
            let mut sent = 0;
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                let (now, key, body) = (token.lock().unwrap().clone(), case.key(), case.body());
                // The account is named, since the ledger tells keys apart by it.
                service.post(&key, &body).token(&now).await.expect_created();
                sent += 1;
            }
            sent
        })
    }));
    let rotate = async {
        for _ in 0..3 {
            let old = token.lock().unwrap().clone();
            let created = case.api(&upstream).arguments(["token", "create", "--account", "acme"]).run().await;
            let new = created.expect_success().output.trim().to_owned();
            *token.lock().unwrap() = new;
            let digest = hex::encode(Sha256::digest(&old));
            // Requests that left with the old token are answered before it is revoked.
            pass(1000).await;
            case.api(&upstream).arguments(["token", "revoke", &digest[..16]]).run().await.expect_success();
            for service in &services {
                eventually("the old token is refused", async || {
                    (service.get("/reservations?limit=1").token(&old).await.status == 401).then_some(())
                })
                .await;
            }
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
    };
    let (sent, ()) = tokio::join!(load, rotate);
    assert!(sent.iter().all(|n| *n > 0), "{sent:?}");
}

/// An operator is one of the commands, who needs the database; a token of an operator reads and changes what is its account's.
async fn a_role_gives_nothing_over_http(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("API_TOKENS", "acme:acme-token-1").start().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    let create = |account| case.api(&upstream).arguments(["token", "create", "--account", account, "--role", "operator"]).run();
    let (same, other) = (create("acme").await, create("ops").await);
    let (same, other) = (same.expect_success().output.trim(), other.expect_success().output.trim());
    service.post(&key, &body).token(same).await.expect_replay_of(&first);
    service.reservation(&first.id()).token(other).await.expect_problem(404, "not-found");
    service.delete(&first.id()).token(other).await.expect_problem(404, "not-found");
    let record = service.get(&format!("/idempotency-keys/{key}?operation=createReservation")).token(other).await;
    record.expect_problem(404, "not-found");
    assert_eq!(service.get("/reservations").token(other).await.json()["items"], json!([]));
    let list = case.api(&upstream).arguments(["token", "list"]).run().await;
    assert_eq!(list.expect_success().output.matches(" operator ").count(), 2, "{}", list.output);
}

/// B20
async fn checks_come_in_their_order(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("API_TOKENS", "acme:acme-token-1").start().await;
    let post = || service.request("POST", "/reservations");
    post().token("wrong").raw_key("\"open").body("{").await.expect_problem(401, "unauthenticated");
    post().raw_key("\"open").body("{").await.expect_problem(400, "key-malformed");
    post().body("{").await.expect_problem(400, "key-missing");
    let (key, body) = (case.key(), case.body());
    post().key(&key).body("{").await.expect_problem(400, "request-invalid");
    let first = service.post(&key, &body).await;
    first.expect_created();
    let patch = |key: &str| service.request("PATCH", &format!("/reservations/{}", first.id())).key(key);
    let change = case.key();
    patch(&change).json(&json!({"quantity": 0})).await.expect_problem(400, "request-invalid");
    patch(&change).json(&json!({"quantity": 2})).await.expect_problem(428, "if-match-missing");
    let done = patch(&change).header("If-Match", first.etag()).json(&json!({"quantity": 2})).await;
    assert_eq!(done.status, 200, "{done:?}");
    // The version is stale by now and later the reservation is cancelled: a replay is refused by neither.
    patch(&change).header("If-Match", first.etag()).json(&json!({"quantity": 2})).await.expect_replay_of(&done);
    service.delete(&first.id()).await.expect_no_content();
    patch(&change).header("If-Match", first.etag()).json(&json!({"quantity": 2})).await.expect_replay_of(&done);
    service.post(&key, &body).await.expect_replay_of(&first);
}

async fn an_open_server_answers_only_to_loopback_names(case: &Case) {
    let (upstream, service) = case.started().await;
    for host in ["attacker.example", "attacker.example:8000", "192.0.2.1", "127.0.0.1.attacker.example"] {
        service.post(&case.key(), &case.body()).header("Host", host).await.expect_problem(403, "forbidden");
    }
    assert_eq!(upstream.everything(), 0);
    for host in ["localhost", "127.0.0.1:8000", "[::1]:8000"] {
        service.post(&case.key(), &case.body()).header("Host", host).await.expect_created();
    }
}

/// A proxy on this machine connects from loopback for callers from anywhere.
async fn an_open_server_refuses_what_a_proxy_passed_on(case: &Case) {
    let (upstream, service) = case.started().await;
    let (key, body) = (case.key(), case.body());
    for (name, value) in [
        ("Forwarded", "for=192.0.2.60"),
        ("Via", "1.1 proxy"),
        ("X-Real-IP", "192.0.2.60"),
        ("CF-Connecting-IP", "192.0.2.60"),
        ("True-Client-IP", "192.0.2.60"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Host", ""),
    ] {
        let refused = service.post(&key, &body).header(name, value).await;
        refused.expect_problem(403, "forbidden");
        let detail = refused.json()["detail"].as_str().unwrap().to_lowercase();
        assert!(detail.contains(&name.to_lowercase()) && detail.contains("api token create"), "{detail}");
        service.get("/reservations").header(name, value).await.expect_problem(403, "forbidden");
    }
    assert_eq!((upstream.everything(), service.key_state(&key).await), (0, None), "a refused request claimed its key");
    // With a token such a request is as good as any other.
    let closed = case.api(&upstream).set("API_TOKENS", "acme:acme-token-1").start().await;
    closed.post(&key, &body).header("X-Forwarded-For", "192.0.2.60").await.expect_created();
}
