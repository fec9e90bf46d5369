//! What comes between the check and the act: nothing is believed that was read too early, and nothing is sent too late.

use std::time::Duration;

use jobs::boot_clock::BootInstant;
use jobs::rules::Purpose;
use jobs::settle::{Assignment, Outcome};
use sea_orm::ConnectionTrait as _;

use super::booking::answer;
use super::world::{BOTH, LOOK_UP_ONLY, SETTLES_AFTER_MS, World, answered, booked, now};

/// "Not there" was read while a send could still arrive, and is told when none can any more. It is as old as its question.
#[tokio::test]
async fn what_a_look_up_says_is_as_old_as_the_moment_it_was_asked() {
    let mut world = World::new().await;
    let work = world.taken_over(SETTLES_AFTER_MS - 1500).await;
    let outcome = world.settler(LOOK_UP_ONLY).settle(now(work), Purpose::Recovery { rebook: false });
    let look_up = world.script.arrives().await;
    tokio::time::sleep(Duration::from_millis(2000)).await;
    answer(look_up, 404, "{}").await;
    assert_eq!(outcome.await.unwrap(), Outcome::Pending);
    assert_eq!(world.script.asked(), ["GET"]);
}

/// What was too young to be believed at the take-over is old enough a moment later.
#[tokio::test]
async fn an_attempt_grows_older_while_it_works() {
    let mut world = World::new().await;
    let work = world.taken_over(SETTLES_AFTER_MS - 1000).await;
    let reference = work.record.reference.clone();
    let outcome = world.settler(LOOK_UP_ONLY).settle(now(work), Purpose::Request);
    let look_up = world.script.arrives().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    answer(look_up, 500, "{}").await;
    world.script.says(&[(404, "{}"), (201, &booked(&reference))]).await;
    assert!(answered(&outcome.await.unwrap(), 201));
    assert_eq!(world.script.asked(), ["GET", "GET", "POST"]);
}

/// "Not there" is believed at once while the booking system recognises the key. When it is told, the key is forgotten, and a send
/// would be another booking beside the first that may still arrive.
#[tokio::test]
async fn a_key_that_was_forgotten_during_the_look_up_is_not_sent_again() {
    let mut world = World::new().await;
    let work = world.taken_over(100).await;
    let outcome = world.forgetful(BOTH, SETTLES_AFTER_MS + 1500).settle(now(work), Purpose::Recovery { rebook: true });
    let look_up = world.script.arrives().await;
    tokio::time::sleep(Duration::from_millis(2000)).await;
    answer(look_up, 404, "{}").await;
    assert_eq!(outcome.await.unwrap(), Outcome::Pending);
    assert_eq!(world.script.asked(), ["GET"]);
}

/// The same, forgotten long before: "not there" is not even believed.
#[tokio::test]
async fn a_key_that_was_forgotten_before_the_look_up_is_not_sent_again() {
    let mut world = World::new().await;
    let work = world.claim().await;
    world.execute("UPDATE idempotency_key SET created_at_ms = created_at_ms - 3600000").await;
    let work = world.take_over(&work, Some(100)).await;
    let outcome = world.forgetful(BOTH, SETTLES_AFTER_MS + 600_000).settle(now(work), Purpose::Recovery { rebook: true });
    world.script.says(&[(404, "{}")]).await;
    assert_eq!(outcome.await.unwrap(), Outcome::Pending);
    assert_eq!(world.script.asked(), ["GET"]);
}

/// The same, with the key still recognised: it is sent.
#[tokio::test]
async fn a_key_that_is_recognised_is_sent_again() {
    let mut world = World::new().await;
    let work = world.taken_over(100).await;
    let reference = work.record.reference.clone();
    let outcome = world.settler(BOTH).settle(now(work), Purpose::Recovery { rebook: true });
    answer(world.script.arrives().await, 404, "{}").await;
    answer(world.script.arrives().await, 201, &booked(&reference)).await;
    assert!(matches!(outcome.await.unwrap(), Outcome::Answered(answer) if answer.status == 201));
    assert_eq!(world.script.asked(), ["GET", "POST"]);
}

/// Its lease is over, and its database does not say whose the key is now: somebody else may be sending.
#[tokio::test]
async fn a_worker_whose_lease_is_over_sends_nothing() {
    let world = World::new().await;
    let work = world.claim().await;
    let writer = world.beside().await;
    writer.execute_unprepared("BEGIN IMMEDIATE").await.unwrap();
    let settler = world.settler(LOOK_UP_ONLY);
    let counted_from = BootInstant::now();
    // What is left of a lease is less than it takes to connect.
    let mut late = work;
    if let entity::idempotency_key::State::InProgress { lease_until_ms, .. } = &mut late.record.state {
        *lease_until_ms = late.record.now_ms + 900;
    }
    let outcome = settler.settle(Assignment { work: late, counted_from }, Purpose::Request);
    assert_eq!(outcome.await.unwrap(), Outcome::Pending);
    assert_eq!(world.script.asked(), [""; 0]);
}
