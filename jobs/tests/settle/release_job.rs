//! A run of the release job: what it takes, how much at once, and what it reports.

use std::time::Duration;

use entity::idempotency_key::State;
use entity::lifecycle;
use jobs::release_stale_leases::{ReleaseReport, ReleaseStaleLeases};
use jobs::settle::Settler;
use tokio_util::sync::CancellationToken;

use super::booking::answer;
use super::world::{LOOK_UP_ONLY, NEITHER, SETTLES_AFTER_MS, World, booked, new_key};

fn job(settler: Settler, calls: usize) -> ReleaseStaleLeases {
    ReleaseStaleLeases { settler, calls, time_limit: Duration::from_secs(60) }
}

/// A key whose worker stopped long ago.
async fn lapsed(world: &World, name: &str) -> lifecycle::Work {
    let work = world.claim_of(new_key(name)).await;
    lifecycle::end_lease(&world.db, &work.lease, Some(SETTLES_AFTER_MS + 1000)).await.unwrap();
    work
}

#[tokio::test]
async fn a_run_settles_all_that_is_due_and_counts_it() {
    let mut world = World::new().await;
    let (there, absent) = (lapsed(&world, "there").await, lapsed(&world, "absent").await);
    let unknown = world.claim_of(new_key("unknown")).await;
    lifecycle::give_up(&world.db, &unknown.lease, Some(0), Some(0)).await.unwrap();
    let released = world.claim_of(new_key("released")).await;
    lifecycle::release(&world.db, &released.lease, Some(0), Some(0), 60_000).await.unwrap();
    let lives = world.claim_of(new_key("lives")).await;
    let run = tokio::spawn({
        let job = job(world.settler(LOOK_UP_ONLY), 1);
        async move { job.run_once(&CancellationToken::new()).await }
    });
    // One at a time, longest due first within each kind; a second look finds a late booking.
    for found in [Some(&there), None, None, Some(&released)] {
        let (status, body) = found.map_or((404, "{}".into()), |work| (200, booked(&work.record.reference)));
        answer(world.script.arrives().await, status, &body).await;
    }
    let report = run.await.unwrap().unwrap();
    let expected = ReleaseReport { taken_over: 2, looked_again: 1, second_looks: 1, completed: 2, released: 1, freed: 0, unknown: 1 };
    assert_eq!(report, expected, "{:?}", world.script.asked());
    assert!(matches!(world.state(&there).await, State::Completed { .. }));
    assert!(matches!(world.state(&absent).await, State::Released { .. }));
    assert!(matches!(world.state(&unknown).await, State::OutcomeUnknown { .. }));
    assert!(matches!(world.state(&released).await, State::Completed { .. }));
    assert!(world.reservation(&released.record.reservation_id).await.is_some());
    assert!(matches!(world.state(&lives).await, State::InProgress { .. }));
    let again = job(world.settler(LOOK_UP_ONLY), 1).run_once(&CancellationToken::new()).await.unwrap();
    assert_eq!(again, ReleaseReport::default());
}

#[tokio::test]
async fn a_run_makes_so_many_calls_at_once_and_no_more() {
    let mut world = World::new().await;
    for n in 0..5 {
        lapsed(&world, &n.to_string()).await;
    }
    let run = tokio::spawn({
        let job = job(world.settler(LOOK_UP_ONLY), 3);
        async move { job.run_once(&CancellationToken::new()).await }
    });
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(world.script.arrives().await);
    }
    assert!(tokio::time::timeout(Duration::from_millis(1500), world.script.arrives()).await.is_err(), "a fourth call at once");
    for request in held {
        answer(request, 404, "{}").await;
    }
    world.script.says(&[(404, "{}"), (404, "{}")]).await;
    assert_eq!(run.await.unwrap().unwrap().released, 5);
}

/// One answer that takes long does not keep waiting what lapses meanwhile.
#[tokio::test]
async fn a_run_takes_what_becomes_due_while_a_call_is_under_way() {
    let mut world = World::new().await;
    lapsed(&world, "slow").await;
    let run = tokio::spawn({
        let job = job(world.settler(LOOK_UP_ONLY), 2);
        async move { job.run_once(&CancellationToken::new()).await }
    });
    let slow = world.script.arrives().await;
    lapsed(&world, "later").await;
    world.script.says(&[(404, "{}")]).await;
    answer(slow, 404, "{}").await;
    assert_eq!(run.await.unwrap().unwrap().taken_over, 2);
}

#[tokio::test]
async fn a_run_that_is_stopped_or_out_of_time_takes_nothing_and_settles_what_it_has() {
    let world = World::new().await;
    let work = lapsed(&world, "k").await;
    let stop = CancellationToken::new();
    stop.cancel();
    assert_eq!(job(world.settler(LOOK_UP_ONLY), 1).run_once(&stop).await.unwrap(), ReleaseReport::default());
    let late = ReleaseStaleLeases { time_limit: Duration::ZERO, ..job(world.settler(LOOK_UP_ONLY), 1) };
    assert_eq!(late.run_once(&CancellationToken::new()).await.unwrap(), ReleaseReport::default());
    assert_eq!(world.record(&work).await.unwrap().attempt, 1);

    let mut world = World::new().await;
    let (first, second) = (lapsed(&world, "first").await, lapsed(&world, "second").await);
    let (stop, stops) = (CancellationToken::new(), CancellationToken::new());
    let run = tokio::spawn({
        let (job, stop) = (job(world.settler(LOOK_UP_ONLY), 1), stop.clone());
        async move { job.run_once(&stop).await }
    });
    let request = world.script.arrives().await;
    stop.cancel();
    answer(request, 404, "{}").await;
    assert_eq!(run.await.unwrap().unwrap(), ReleaseReport { taken_over: 1, released: 1, ..ReleaseReport::default() });
    let states = (world.state(&first).await, world.state(&second).await);
    assert!(matches!(states, (State::Released { .. }, State::InProgress { .. })), "{states:?}");
    drop(stops);
}

#[tokio::test]
async fn a_second_look_makes_the_release_final_or_comes_again() {
    for (offer, said, is_final) in [(LOOK_UP_ONLY, Some(404), true), (LOOK_UP_ONLY, Some(500), false), (NEITHER, None, true)] {
        let mut world = World::new().await;
        let work = world.claim_of(new_key("k")).await;
        lifecycle::release(&world.db, &work.lease, Some(0), Some(0), 60_000).await.unwrap();
        let run = tokio::spawn({
            let job = job(world.settler(offer), 1);
            async move { job.run_once(&CancellationToken::new()).await }
        });
        if let Some(said) = said {
            world.script.says(&[(said, "{}")]).await;
        }
        let report = run.await.unwrap().unwrap();
        assert_eq!((report.second_looks, report.completed), (1, 0));
        let record = world.record(&work).await.unwrap();
        let State::Released { next_look_at_ms, expires_at_ms } = record.state else { panic!("not released") };
        assert_eq!((expires_at_ms.is_some(), next_look_at_ms.is_none(), record.looks), (is_final, is_final, i64::from(!is_final)));
    }
}

#[tokio::test]
async fn a_run_whose_storage_does_not_answer_fails() {
    let world = World::new().await;
    lapsed(&world, "k").await;
    world.execute("ALTER TABLE idempotency_key RENAME COLUMN attempt TO attempts").await;
    assert!(job(world.settler(LOOK_UP_ONLY), 1).run_once(&CancellationToken::new()).await.is_err());
}
