//! The booking system for trying out: misbehaves on demand, and every key ends true all the same.

use super::support::prelude::*;
use super::support::service::free_port;

tests!(both [each_item_misbehaves_as_it_says_and_ends_true] sqlite [
    the_sandbox_alone_serves_another_process,
    bookings_outlive_a_restart,
]);

async fn beside_it(case: &Case) -> Service {
    let setup = case.program("api").set("SANDBOX_LISTEN", format!("127.0.0.1:{}", free_port()));
    setup.set("LEASE", "3s").set("BOOKING_TIMEOUT", "2s").set("ABSENT_AFTER", "1s").start().await
}

fn item(code: &str) -> Value {
    json!({"item_code": code, "quantity": 1, "reserved_by": "hanako"})
}

async fn each_item_misbehaves_as_it_says_and_ends_true(case: &Case) {
    let service = beside_it(case).await;
    service.post(&case.key(), &case.body()).await.expect_created();
    let troubled = ["TIMEOUT", "DROP", "ERROR", "GARBAGE", "SLOW-1"].map(|code| (case.key(), item(code)));
    let replies = together(troubled.iter().map(|(key, body)| Box::pin(service.settle(key, body)))).await;
    for ((key, body), reply) in troubled.iter().zip(&replies) {
        assert_eq!((reply.status, &reply.json()["status"]), (201, &json!("confirmed")), "{body}: {reply:?}");
        service.post(key, body).await.expect_replay_of(reply);
    }
    let key = case.key();
    let refused = service.post(&key, &item("SOLD-OUT")).await;
    refused.expect_problem(422, "booking-rejected");
    service.post(&key, &item("SOLD-OUT")).await.expect_replay_of(&refused);
    let key = case.key();
    service.post(&key, &item("BUSY")).await.expect_problem(503, "booking-system-busy");
    assert_eq!(service.key_state(&key).await, None);
    let first = service.post(&case.key(), &case.body()).await;
    let changed = service.patch(&first.id(), &case.key(), &first.etag(), &json!({"quantity": 2})).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    service.delete(&first.id()).await.expect_no_content();
}

async fn the_sandbox_alone_serves_another_process(case: &Case) {
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let _sandbox = case.program("api").set("SANDBOX_LISTEN", &address).arguments(["sandbox"]).spawn();
    let service = case.program("api").set("BOOKING_URL", format!("http://{address}")).start().await;
    let (key, body) = (case.key(), case.body());
    let reply = service.settle(&key, &body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    // No web page reaches it under a name of its own, either.
    let bookings = service.get("/bookings").through(port).unwatched();
    assert_eq!(bookings.clone().await.status, 200);
    assert_eq!(bookings.header("Host", "attacker.example").await.status, 403);
}

async fn bookings_outlive_a_restart(case: &Case) {
    let service = beside_it(case).await;
    let (key, body) = (case.key(), item("TIMEOUT"));
    let _lost = service.post(&key, &body).sent().await.unwrap();
    eventually("the key is claimed", async || service.key_state(&key).await).await;
    pass(500).await;
    service.kill_9();
    service.start_again().await;
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, &reply.json()["status"]), (201, &json!("confirmed")), "{reply:?}");
}
