//! A reservation is changed or cancelled: sent again as often as it takes, and stored only as what happened.

use entity::idempotency_key::State;
use entity::reservation::Status;
use jobs::booking::Nothing;
use jobs::rules::Purpose;
use jobs::settle::Outcome;

use super::world::{BOTH, JOB, LOOK_UP_ONLY, NEITHER, SETTLES_AFTER_MS, World, answered, booked, now};

fn shows(reference: &str, quantity: i32) -> String {
    format!(r#"{{"booking_id":"BK-1","reference":"{reference}","quantity":{quantity}}}"#)
}

#[tokio::test]
async fn a_change_that_was_made_is_stored_with_its_reservation() {
    for (offer, first, busy) in [(NEITHER, None, false), (NEITHER, Some(500), true), (BOTH, Some(500), false)] {
        let mut world = World::new().await;
        let before = world.confirmed().await;
        let work = world.change(&before, 7).await;
        let outcome = world.settler(offer).settle(now(work), Purpose::Request);
        if let Some(first) = first {
            world.script.says(&[(first, "{}")]).await;
        }
        world.script.says(&[(200, "{}")]).await;
        assert!(answered(&outcome.await.unwrap(), 200));
        let after = world.reservation(&before.id).await.unwrap();
        assert_eq!((after.details.quantity, after.version), (7, 2));
        // A first send that comes late could undo the next change, where it is not recognised.
        assert_eq!(after.busy_for_ms.is_some(), busy, "{offer:?} {first:?}");
        if let Some(busy_for_ms) = after.busy_for_ms {
            assert!((SETTLES_AFTER_MS - 5000..=SETTLES_AFTER_MS).contains(&busy_for_ms), "{busy_for_ms}");
        }
    }
}

#[tokio::test]
async fn a_refused_change_is_what_the_booking_shows() {
    for (shown, status, quantity) in [(1, 422, 1), (7, 200, 7)] {
        let mut world = World::new().await;
        let before = world.confirmed().await;
        let work = world.change(&before, 7).await;
        let outcome = world.settler(LOOK_UP_ONLY).settle(now(work), Purpose::Request);
        world.script.says(&[(409, "{}"), (200, &shows(&before.id, shown))]).await;
        assert!(answered(&outcome.await.unwrap(), status), "{shown}");
        assert_eq!(world.reservation(&before.id).await.unwrap().details.quantity, quantity);
    }
}

/// The values are shown rounded, or not at all, or are somebody else's.
#[tokio::test]
async fn a_refusal_of_which_the_booking_says_nothing_is_believed_only_of_the_first_send() {
    for (sent_ms_ago, is_refused) in [(None, true), (Some(SETTLES_AFTER_MS + 1000), false)] {
        let mut world = World::new().await;
        let before = world.confirmed().await;
        let work = world.change(&before, 7).await;
        let work = world.take_over(&work, sent_ms_ago).await;
        let outcome = world.settler(LOOK_UP_ONLY).settle(now(work.clone()), JOB);
        world.script.says(&[(409, "{}"), (200, &shows(&before.id, 4))]).await;
        let outcome = outcome.await.unwrap();
        if is_refused {
            assert!(answered(&outcome, 422));
        } else {
            assert_eq!(outcome, Outcome::Pending);
            assert!(matches!(world.state(&work).await, State::OutcomeUnknown { next_look_at_ms: Some(_) }));
        }
        assert_eq!(world.reservation(&before.id).await.unwrap().version, 1);
    }
}

#[tokio::test]
async fn a_refusal_while_an_earlier_send_may_arrive_is_sent_again() {
    let mut world = World::new().await;
    let before = world.confirmed().await;
    let work = world.change(&before, 7).await;
    let outcome = world.settler(NEITHER).settle(now(work), Purpose::Request);
    world.script.says(&[(500, "{}"), (409, "{}"), (429, "{}"), (200, "{}")]).await;
    assert!(answered(&outcome.await.unwrap(), 200));
    assert_eq!(world.script.asked(), ["PATCH"; 4]);
}

#[tokio::test]
async fn a_refusal_that_nobody_can_look_up_is_stored_and_one_that_cannot_be_read_is_sent_again() {
    let mut world = World::new().await;
    let before = world.confirmed().await;
    let work = world.change(&before, 7).await;
    let outcome = world.settler(NEITHER).settle(now(work), Purpose::Request);
    world.script.says(&[(422, "{}")]).await;
    assert!(answered(&outcome.await.unwrap(), 422));

    let mut world = World::new().await;
    let before = world.confirmed().await;
    let work = world.change(&before, 7).await;
    let outcome = world.settler(LOOK_UP_ONLY).settle(now(work.clone()), JOB);
    world.script.says(&[(422, "{}"), (500, "{}")]).await;
    assert_eq!(outcome.await.unwrap(), Outcome::Pending);
    assert!(world.record(&work).await.unwrap().maybe_sent_until_ms.is_some(), "the refusal may hide a copy that was carried out");
}

#[tokio::test]
async fn a_change_of_what_is_not_there_is_refused() {
    let mut world = World::new().await;
    let before = world.confirmed().await;
    let work = world.change(&before, 7).await;
    let outcome = world.settler(LOOK_UP_ONLY).settle(now(work), Purpose::Request);
    world.script.says(&[(404, "{}"), (404, "{}")]).await;
    assert!(answered(&outcome.await.unwrap(), 422));
    assert_eq!(world.reservation(&before.id).await.unwrap().details.quantity, 1);
}

#[tokio::test]
async fn where_nothing_can_have_happened_a_change_is_free() {
    let mut world = World::new().await;
    let before = world.confirmed().await;
    let work = world.change(&before, 7).await;
    let outcome = world.settler(BOTH).settle(now(work.clone()), Purpose::Request);
    world.script.says(&[(429, "{}")]).await;
    assert_eq!(outcome.await.unwrap(), Outcome::Freed(Nothing::Busy { retry_after_s: 1 }));
    assert_eq!(world.record(&work).await, None);
}

/// The job sends once a run; the next look comes later.
#[tokio::test]
async fn the_job_sends_an_unknown_change_once_and_comes_again() {
    for first in [true, false] {
        let mut world = World::new().await;
        let before = world.confirmed().await;
        let work = world.change(&before, 7).await;
        let work = world.take_over(&work, (!first).then_some(0)).await;
        let outcome = world.settler(NEITHER).settle(now(work.clone()), JOB);
        world.script.says(&[(500, "{}")]).await;
        assert_eq!(outcome.await.unwrap(), Outcome::Pending);
        assert_eq!(world.script.asked(), ["PATCH"]);
        assert!(matches!(world.state(&work).await, State::OutcomeUnknown { next_look_at_ms: Some(_) }));
    }
}

#[tokio::test]
async fn a_cancellation_is_stored_when_the_booking_is_gone() {
    for answers in [&[(204, "")][..], &[(404, "{}")], &[(409, "{}"), (404, "{}")]] {
        let mut world = World::new().await;
        let before = world.confirmed().await;
        let work = world.cancellation(&before).await;
        let outcome = world.settler(LOOK_UP_ONLY).settle(now(work), Purpose::Request);
        world.script.says(answers).await;
        assert!(answered(&outcome.await.unwrap(), 204), "{answers:?}");
        let after = world.reservation(&before.id).await.unwrap();
        assert_eq!((after.status, after.version), (Status::Cancelled, 2));
    }
}

/// Its answer is for this caller alone: the next one asks anew.
#[tokio::test]
async fn a_refused_cancellation_is_not_stored() {
    let mut world = World::new().await;
    let before = world.confirmed().await;
    let work = world.cancellation(&before).await;
    let outcome = world.settler(LOOK_UP_ONLY).settle(now(work.clone()), Purpose::Request);
    world.script.says(&[(409, "{}"), (200, &booked(&before.id))]).await;
    assert!(matches!(outcome.await.unwrap(), Outcome::Refused(answer) if answer.status == 422));
    assert_eq!(world.reservation(&before.id).await.unwrap().status, Status::Confirmed);
    assert!(world.record(&work).await.unwrap().is_expired());
}

#[tokio::test]
async fn a_change_under_a_lost_lease_changes_nothing_here() {
    let mut world = World::new().await;
    let before = world.confirmed().await;
    let work = world.change(&before, 7).await;
    let outcome = world.settler(NEITHER).settle(now(work), Purpose::Request);
    let request = world.script.arrives().await;
    world.execute("UPDATE idempotency_key SET lease_token = 'theirs' WHERE operation = 'changeReservation'").await;
    super::booking::answer(request, 200, "{}").await;
    assert_eq!(outcome.await.unwrap(), Outcome::LeaseLost);
    assert_eq!(world.reservation(&before.id).await.unwrap(), before);
}
