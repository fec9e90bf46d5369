//! A reservation is made: each thing that the booking system can say, first or after something unknown.

use std::time::Duration;

use entity::idempotency_key::State;
use jobs::booking::Nothing;
use jobs::rules::{Offer, Purpose};
use jobs::settle::Outcome;
use sea_orm::ConnectionTrait as _;

use super::booking::answer;
use super::world::{BOTH, JOB, LEASE_MS, LOOK_UP_ONLY, NEITHER, RECOGNISES_ONLY, SETTLES_AFTER_MS, World, answered, booked, now};

const REBOOK: Purpose = Purpose::Recovery { rebook: true };

#[tokio::test]
async fn what_is_booked_is_stored_with_its_reservation() {
    let mut world = World::new().await;
    let work = world.claim().await;
    let settler = world.settler(NEITHER);
    let outcome = settler.settle(now(work.clone()), Purpose::Request);
    world.script.says(&[(201, &booked(&work.record.reference))]).await;
    assert!(answered(&outcome.await.unwrap(), 201));
    assert_eq!(settler.outcomes().counts(), [(("createReservation", "answered"), 1)]);
    let State::Completed { answer, .. } = world.state(&work).await else { panic!("not completed") };
    let reservation = world.reservation(&work.record.reservation_id).await.unwrap();
    assert_eq!(answer.location, Some(format!("http://localhost/reservations/{}", reservation.id)));
    assert_eq!((reservation.booking_id.as_str(), reservation.version, reservation.details.quantity), ("BK-1", 1, 1));
    assert_eq!(world.script.asked(), ["POST"]);
}

#[tokio::test]
async fn a_refusal_is_stored_unless_a_look_up_shows_a_booking() {
    for (offer, looked, status, asked) in [
        (NEITHER, None, 422, &["POST"][..]),
        (RECOGNISES_ONLY, None, 422, &["POST"]),
        (BOTH, Some(404), 422, &["POST", "GET"]),
        (BOTH, Some(200), 201, &["POST", "GET"]),
    ] {
        let mut world = World::new().await;
        let work = world.claim().await;
        let booked = booked(&work.record.reference);
        let outcome = world.settler(offer).settle(now(work), Purpose::Request);
        world.script.says(&[(409, "{}")]).await;
        if let Some(looked) = looked {
            world.script.says(&[(looked, &booked)]).await;
        }
        assert!(answered(&outcome.await.unwrap(), status), "{offer:?} {looked:?}");
        assert_eq!(world.script.asked(), asked);
    }
}

#[tokio::test]
async fn a_refusal_whose_look_up_says_nothing_counts_as_an_unknown_send() {
    let mut world = World::new().await;
    let work = world.claim().await;
    // The caller waits: it is looked up again, until the look-up can be read.
    let outcome = world.settler(LOOK_UP_ONLY).settle(now(work), Purpose::Request);
    world.script.says(&[(409, "{}"), (500, "{}"), (200, "[]"), (404, "{}")]).await;
    assert!(answered(&outcome.await.unwrap(), 422));

    // Nobody waits for the job, which comes again.
    let mut world = World::new().await;
    let work = world.claim().await;
    let outcome = world.settler(LOOK_UP_ONLY).settle(now(work.clone()), JOB);
    world.script.says(&[(409, "{}"), (500, "{}")]).await;
    assert_eq!(outcome.await.unwrap(), Outcome::Pending);
    assert_eq!(world.script.asked(), ["POST", "GET"]);
    assert!(matches!(world.state(&work).await, State::OutcomeUnknown { .. }));
    assert!(world.record(&work).await.unwrap().maybe_sent_until_ms.is_some());
}

#[tokio::test]
async fn where_nothing_can_have_happened_the_key_is_free() {
    for (status, nothing) in [
        (429, Nothing::Busy { retry_after_s: 1 }),
        (401, Nothing::Misconfigured { status: 401 }),
        (403, Nothing::Misconfigured { status: 403 }),
        (404, Nothing::Misconfigured { status: 404 }),
        (405, Nothing::Misconfigured { status: 405 }),
    ] {
        let mut world = World::new().await;
        let work = world.claim().await;
        let outcome = world.settler(BOTH).settle(now(work.clone()), Purpose::Request);
        world.script.says(&[(status, "{}")]).await;
        assert_eq!(outcome.await.unwrap(), Outcome::Freed(nothing));
        assert_eq!(world.record(&work).await, None);
    }
}

#[tokio::test]
async fn after_an_unknown_send_nothing_frees_the_key_and_no_refusal_is_believed() {
    for said in [429, 409] {
        let mut world = World::new().await;
        let work = world.claim().await;
        let outcome = world.settler(BOTH).settle(now(work.clone()), Purpose::Request);
        let booked = booked(&work.record.reference);
        world.script.says(&[(500, "{}"), (404, "{}"), (said, "{}"), (404, "{}"), (200, &booked)]).await;
        assert!(answered(&outcome.await.unwrap(), 201));
        assert_eq!(world.script.asked(), ["POST", "GET", "POST", "GET", "POST"]);
    }
}

#[tokio::test]
async fn an_unknown_send_is_looked_up_or_sent_again_or_left() {
    for (offer, then, asked) in
        [(LOOK_UP_ONLY, Some(200), &["POST", "GET"][..]), (RECOGNISES_ONLY, Some(200), &["POST", "POST"]), (NEITHER, None, &["POST"])]
    {
        let mut world = World::new().await;
        let work = world.claim().await;
        let outcome = world.settler(offer).settle(now(work.clone()), Purpose::Request);
        let booked = booked(&work.record.reference);
        // Not an answer to what was asked.
        world.script.says(&[(201, "[]")]).await;
        if let Some(then) = then {
            world.script.says(&[(then, &booked)]).await;
        }
        let outcome = outcome.await.unwrap();
        assert_eq!(world.script.asked(), asked, "{offer:?}");
        if then.is_some() {
            assert!(answered(&outcome, 201), "{offer:?}");
        } else {
            assert_eq!(outcome, Outcome::Pending);
            // Its lease is ended, with the time of the send: the job goes on.
            let record = world.record(&work).await.unwrap();
            assert!(matches!(record.state, State::InProgress { ended_by_worker: true, .. }), "{record:?}");
            assert!(record.maybe_sent_until_ms.is_some_and(|at| (0..30_000).contains(&(record.now_ms - at))), "{record:?}");
        }
    }
}

#[tokio::test]
async fn a_worker_goes_on_until_its_caller_is_answered_at_the_latest() {
    let mut world = World::new().await;
    let work = world.claim().await;
    let settler = world.settler_with(LOOK_UP_ONLY, |settings| settings.answer_within = Duration::from_millis(400));
    let outcome = settler.settle(now(work.clone()), Purpose::Request);
    world.script.says(&[(500, "{}")]).await;
    let mut outcome = outcome;
    let ended = loop {
        tokio::select! {
            ended = &mut outcome => break ended.unwrap(),
            request = world.script.arrives() => answer(request, 500, "{}").await,
        }
    };
    assert_eq!(ended, Outcome::Pending);
    // Pauses of 50 to 100 ms, then 100 to 200 ms, then longer than what is left.
    let looks = world.script.asked().len() - 1;
    assert!((1..=3).contains(&looks), "{looks} look-ups");
}

/// Which offer, when the last unknown send began, for whom, what the look-up says; what comes of it.
#[tokio::test]
async fn a_take_over_believes_not_there_only_when_no_send_can_arrive() {
    enum Ends {
        Released,
        Sends,
        Waits,
    }
    let over = SETTLES_AFTER_MS + 1000;
    let cases: [(Offer, Option<i64>, Purpose, Ends); 8] = [
        (LOOK_UP_ONLY, Some(over), JOB, Ends::Released),
        (LOOK_UP_ONLY, Some(over), REBOOK, Ends::Sends),
        (LOOK_UP_ONLY, Some(over), Purpose::Request, Ends::Sends),
        (LOOK_UP_ONLY, Some(0), JOB, Ends::Waits),
        (LOOK_UP_ONLY, Some(0), REBOOK, Ends::Waits),
        (LOOK_UP_ONLY, Some(0), Purpose::Request, Ends::Waits),
        (BOTH, Some(0), JOB, Ends::Released),
        (LOOK_UP_ONLY, None, JOB, Ends::Released),
    ];
    for (offer, sent_ms_ago, purpose, ends) in cases {
        let mut world = World::new().await;
        let work = world.claim().await;
        let work = world.take_over(&work, sent_ms_ago).await;
        let booked = booked(&work.record.reference);
        let outcome = world.settler(offer).settle(now(work.clone()), purpose);
        world.script.says(&[(404, "{}")]).await;
        let what = format!("{offer:?} {sent_ms_ago:?} {purpose:?}");
        match ends {
            Ends::Sends => {
                world.script.says(&[(201, &booked)]).await;
                assert!(answered(&outcome.await.unwrap(), 201), "{what}");
                assert_eq!(world.script.asked(), ["GET", "POST"], "{what}");
            }
            Ends::Released => {
                assert_eq!(outcome.await.unwrap(), Outcome::Released, "{what}");
                let State::Released { next_look_at_ms, expires_at_ms } = world.state(&work).await else { panic!("{what}") };
                assert!(next_look_at_ms.is_some() && expires_at_ms.is_none(), "{what}: a second look comes first");
            }
            Ends::Waits => {
                assert_eq!(outcome.await.unwrap(), Outcome::Pending, "{what}");
                assert_eq!(world.script.asked(), ["GET"], "{what}");
            }
        }
    }
}

/// Where nothing can be looked up.
#[tokio::test]
async fn a_take_over_without_look_up_sends_what_is_recognised_or_was_never_sent() {
    for (offer, sent_ms_ago, purpose, sends) in [
        (RECOGNISES_ONLY, Some(0), JOB, true),
        (NEITHER, Some(0), Purpose::Request, false),
        (NEITHER, Some(SETTLES_AFTER_MS), REBOOK, false),
        (NEITHER, None, REBOOK, true),
        (NEITHER, None, Purpose::Request, true),
    ] {
        let mut world = World::new().await;
        let work = world.claim().await;
        let work = world.take_over(&work, sent_ms_ago).await;
        let outcome = world.settler(offer).settle(now(work.clone()), purpose);
        if sends {
            world.script.says(&[(201, &booked(&work.record.reference))]).await;
            assert!(answered(&outcome.await.unwrap(), 201));
        } else {
            assert_eq!(outcome.await.unwrap(), Outcome::Pending);
            assert_eq!(world.script.asked(), [""; 0]);
            // Only an operator can tell.
            assert_eq!(world.state(&work).await, State::OutcomeUnknown { next_look_at_ms: None });
        }
    }
    // Nothing was sent, and nobody waits: the release is final at once.
    let world = World::new().await;
    let work = world.claim().await;
    let work = world.take_over(&work, None).await;
    let outcome = world.settler(NEITHER).settle(now(work.clone()), JOB);
    assert_eq!(outcome.await.unwrap(), Outcome::Released);
    assert!(matches!(world.state(&work).await, State::Released { next_look_at_ms: None, expires_at_ms: Some(_) }));
}

#[tokio::test]
async fn an_answer_is_stored_as_soon_as_the_database_takes_it() {
    let mut world = World::new().await;
    let work = world.claim().await;
    let mut outcome = world.settler(NEITHER).settle(now(work.clone()), Purpose::Request);
    let request = world.script.arrives().await;
    let writer = world.beside().await;
    writer.execute_unprepared("BEGIN IMMEDIATE").await.unwrap();
    answer(request, 201, &booked(&work.record.reference)).await;
    // A try waits a second for the database.
    let early = tokio::time::timeout(Duration::from_millis(1500), &mut outcome).await;
    assert!(early.is_err(), "an answer that is not stored has left: {early:?}");
    writer.execute_unprepared("ROLLBACK").await.unwrap();
    assert!(answered(&outcome.await.unwrap(), 201));
}

/// Somebody else took the key over while the booking system was asked.
#[tokio::test]
async fn a_worker_that_lost_its_lease_stores_nothing() {
    let mut world = World::new().await;
    let work = world.claim().await;
    let outcome = world.settler(NEITHER).settle(now(work.clone()), Purpose::Request);
    let request = world.script.arrives().await;
    let theirs = format!("UPDATE idempotency_key SET lease_token = 'theirs', lease_until_ms = lease_until_ms + {LEASE_MS}");
    world.execute(&theirs).await;
    answer(request, 201, &booked(&work.record.reference)).await;
    assert_eq!(outcome.await.unwrap(), Outcome::LeaseLost);
    assert_eq!(world.reservation(&work.record.reservation_id).await, None);
    assert!(matches!(world.state(&work).await, State::InProgress { .. }));
}

/// Written by a later release, say.
#[tokio::test]
async fn a_request_that_cannot_be_read_is_left_to_an_operator() {
    let world = World::new().await;
    let mut work = world.claim().await;
    work.record.request = b"[]".to_vec();
    assert_eq!(world.settler(NEITHER).settle(now(work.clone()), Purpose::Request).await.unwrap(), Outcome::Pending);
    assert_eq!(world.script.asked(), [""; 0]);
    assert!(matches!(world.state(&work).await, State::OutcomeUnknown { .. }));
}
