//! The transitions on real databases: each does what `key_state` says, guarded by state and token, and nothing else.

use crate::support::{Fresh, LONG_MS, answer, booked, change_of, claim, mine, new_key, stolen, to_version};
use entity::attempt_journal;
use entity::idempotency_key::State;
use entity::key_state::{Event, KeyState, next};
use entity::lifecycle::{self, Claimed, Effect, Finalized, Moved, Origin, Renewed};
use entity::reservation;
use sea_orm::{ConnectionTrait, DatabaseBackend};

crate::on_both_databases![
    a_claim_is_once_and_repeating_it_is_harmless,
    a_claim_and_a_finalize_cost_no_more_statements_than_they_must,
    every_event_moves_a_key_just_where_the_pure_rules_say,
    a_lost_lease_stops_its_worker,
    what_a_worker_leaves_tells_when_it_last_sent,
    an_answer_and_its_reservation_are_stored_together_and_come_back_as_they_were,
    an_expired_key_is_as_good_as_none,
    who_saw_an_earlier_life_moves_nothing_in_the_next,
    impossible_states_cannot_be_stored,
    a_batch_is_shared_and_an_unreadable_row_harms_no_other,
    no_batch_is_larger_than_it_was_asked_for,
];

async fn a_claim_is_once_and_repeating_it_is_harmless(fresh: Fresh) {
    let db = &fresh.db;
    let (first, second) = (new_key("k"), new_key("k"));
    let work = mine(db, &first).await;
    assert_eq!((work.origin, work.record.attempt), (Origin::First, 1));
    // The acknowledgement was lost: the same token finds its own claim.
    let again = mine(db, &first).await;
    assert_eq!((again.origin, again.record.reference), (Origin::First, work.record.reference.clone()));
    assert!(matches!(claim(db, &second).await, Claimed::InProgress(r) if r.lease_left_ms().unwrap() > LONG_MS / 2));
    let other = lifecycle::NewKey { fingerprint: [8; 32], ..new_key("k") };
    assert!(matches!(claim(db, &other).await, Claimed::OtherRequest(_)));
    let unknown = lifecycle::claim(db, &second, &|_| None, false).await.unwrap();
    assert!(matches!(unknown, Claimed::UnknownFingerprint(1)));
    lifecycle::end_lease(db, &work.lease, None).await.unwrap();
    for _ in 0..2 {
        assert_eq!((mine(db, &second).await.origin, mine(db, &second).await.record.attempt), (Origin::TakeOver, 2));
    }
}

/// Statements: a promise (`docs/benchmarks.md`), and what tells the order in which a claim inserts and reads.
async fn a_claim_and_a_finalize_cost_no_more_statements_than_they_must(fresh: Fresh) {
    let db = &fresh.db;
    let claimed = async |new: &lifecycle::NewKey, look_first| {
        let before = db.statements();
        let claimed = lifecycle::claim(db, new, &|_| Some(new.fingerprint), look_first).await.unwrap();
        (claimed, db.statements() - before)
    };
    let (Claimed::Mine(work), 1) = claimed(&new_key("fresh"), false).await else { panic!("one insert") };
    let (Claimed::Mine(refused), 2) = claimed(&new_key("refused"), true).await else { panic!("a read and an insert") };
    let before = db.statements();
    assert_eq!(lifecycle::finalize(db, &work.lease, &answer("x"), &booked(&work), LONG_MS).await.unwrap(), Finalized::Done);
    // PostgreSQL stores both in one statement, SQLite in a transaction of two.
    assert_eq!(db.statements() - before, if fresh.raw.get_database_backend() == DatabaseBackend::Postgres { 1 } else { 2 });
    let before = db.statements();
    assert_eq!(lifecycle::finalize(db, &refused.lease, &answer("x"), &Effect::None, LONG_MS).await.unwrap(), Finalized::Done);
    assert_eq!(db.statements() - before, 1);
    assert!(matches!(claimed(&new_key("fresh"), true).await, (Claimed::Completed(_), 1)));
    assert!(matches!(claimed(&new_key("fresh"), false).await, (Claimed::Completed(_), 2)));

    let reservation = reservation::find(db, "local", &work.record.reservation_id).await.unwrap().unwrap();
    let (Claimed::Mine(_), 2) = claimed(&change_of(&reservation, "c", to_version(1)), true).await else { panic!("a read and an insert") };
    let known = lifecycle::NewKey { guard: lifecycle::Guard::Known, ..new_key("gone") };
    assert!(matches!(claimed(&known, false).await, (Claimed::Blocked, 1)));
}

/// A key in each state, made by the transitions themselves.
async fn key_in(fresh: &Fresh, state: KeyState, name: &str) -> lifecycle::Work {
    let db = &fresh.db;
    let work = mine(db, &new_key(name)).await;
    match state {
        KeyState::InProgress => {}
        KeyState::Completed => {
            lifecycle::finalize(db, &work.lease, &answer("x"), &booked(&work), LONG_MS).await.unwrap();
        }
        KeyState::Released => {
            lifecycle::release(db, &work.lease, None, Some(0), LONG_MS).await.unwrap();
        }
        KeyState::OutcomeUnknown => {
            lifecycle::give_up(db, &work.lease, None, Some(0)).await.unwrap();
        }
    }
    work
}

async fn every_event_moves_a_key_just_where_the_pure_rules_say(fresh: Fresh) {
    let db = &fresh.db;
    for state in KeyState::ALL {
        for event in Event::ALL {
            let name = format!("{state} {event}");
            let work = key_in(&fresh, state, &name).await;
            let (lease, digest) = (&work.lease, work.lease.digest);
            let seen = lifecycle::find(db, &digest).await.unwrap().unwrap();
            let past = |column: &str| {
                let sql = format!("UPDATE idempotency_key SET {column} = 1 WHERE reference = '{}'", work.record.reference);
                async { fresh.raw.execute_unprepared(&{ sql }).await.unwrap() }
            };
            let moved = match event {
                Event::Claim => matches!(claim(db, &new_key(&name)).await, Claimed::Mine(_)),
                Event::TakeOver => {
                    if state == KeyState::InProgress {
                        past("lease_until_ms").await;
                    }
                    !lifecycle::take_over_stale(db, "t", LONG_MS, 10).await.unwrap().is_empty()
                }
                Event::Renew => lifecycle::renew(db, lease, LONG_MS).await.unwrap() == Renewed::Extended,
                Event::EndLease => lifecycle::end_lease(db, lease, None).await.unwrap() == Moved::Done,
                // Repeating it is harmless by design, so somebody else's answer is what must not get in.
                Event::Finalize if state == KeyState::Completed => {
                    lifecycle::finalize(db, &stolen(lease), &answer("y"), &Effect::None, LONG_MS).await.unwrap() == Finalized::Done
                }
                Event::Finalize => lifecycle::finalize(db, lease, &answer("y"), &booked(&work), LONG_MS).await.unwrap() == Finalized::Done,
                Event::Free => lifecycle::free(db, lease).await.unwrap() == Moved::Done,
                Event::Release => lifecycle::release(db, lease, None, None, LONG_MS).await.unwrap() == Moved::Done,
                Event::GiveUp => lifecycle::give_up(db, lease, None, None).await.unwrap() == Moved::Done,
                Event::LookAgain => !lifecycle::take_for_look_again(db, "t", LONG_MS, 10).await.unwrap().is_empty(),
                Event::FindLate => lifecycle::find_late(db, &seen, &answer("y"), &booked(&work), LONG_MS).await.unwrap() == Finalized::Done,
                Event::ConfirmAbsence => lifecycle::confirm_absence(db, &seen, LONG_MS).await.unwrap(),
                Event::Expire => {
                    if state == KeyState::Released {
                        lifecycle::confirm_absence(db, &seen, LONG_MS).await.unwrap();
                    }
                    if matches!(state, KeyState::Completed | KeyState::Released) {
                        past("expires_at_ms").await;
                    }
                    lifecycle::expire(db, 10).await.unwrap() > 0
                }
            };
            let after = lifecycle::find(db, &digest).await.unwrap().map(|r| r.key_state());
            match next(Some(state), event) {
                Ok(to) => assert_eq!((moved, after), (true, to), "{name}"),
                Err(_) => assert_eq!((moved, after), (false, Some(state)), "{name}"),
            }
            // So that no later sweep meets it.
            fresh.raw.execute_unprepared("DELETE FROM idempotency_key").await.unwrap();
        }
    }
}

async fn a_lost_lease_stops_its_worker(fresh: Fresh) {
    let db = &fresh.db;
    let short = lifecycle::NewKey { lease_ms: 0, ..new_key("k") };
    let old = mine(db, &short).await;
    let new = mine(db, &new_key("k")).await;
    assert_eq!((new.origin, new.record.attempt), (Origin::TakeOver, 2));
    assert_eq!(new.record.reference, old.record.reference);
    assert_eq!(lifecycle::renew(db, &old.lease, LONG_MS).await.unwrap(), Renewed::LeaseLost);
    assert_eq!(lifecycle::free(db, &old.lease).await.unwrap(), Moved::LeaseLost);
    assert_eq!(lifecycle::end_lease(db, &old.lease, None).await.unwrap(), Moved::LeaseLost);
    assert_eq!(lifecycle::release(db, &old.lease, None, None, 1).await.unwrap(), Moved::LeaseLost);
    assert_eq!(lifecycle::give_up(db, &old.lease, None, None).await.unwrap(), Moved::LeaseLost);
    let finalize =
        async |work: &lifecycle::Work, body| lifecycle::finalize(db, &work.lease, &answer(body), &booked(work), LONG_MS).await.unwrap();
    assert_eq!(finalize(&old, "old").await, Finalized::LeaseLost);
    assert_eq!(finalize(&new, "new").await, Finalized::Done);
    // An acknowledgement was lost: the same finalize again is the same finalize.
    assert_eq!(finalize(&new, "again").await, Finalized::Done);
    assert_eq!(finalize(&old, "old").await, Finalized::LeaseLost);
    let Claimed::Completed(record) = claim(db, &new_key("k")).await else { panic!("not completed") };
    assert!(matches!(record.state, State::Completed { answer, .. } if answer.body == b"new"));
}

async fn what_a_worker_leaves_tells_when_it_last_sent(fresh: Fresh) {
    let db = &fresh.db;
    // A worker that vanished may have sent until the end of its lease.
    let vanished = mine(db, &lifecycle::NewKey { lease_ms: 0, ..new_key("vanished") }).await;
    let State::InProgress { lease_until_ms, .. } = vanished.record.state else { panic!("not in progress") };
    assert_eq!(vanished.record.maybe_sent_until_ms, None);
    assert_eq!(mine(db, &new_key("vanished")).await.record.maybe_sent_until_ms, Some(lease_until_ms));

    // One that ended its lease says so itself: never, or so long ago; a later one never moves it back.
    let work = mine(db, &new_key("ended")).await;
    lifecycle::end_lease(db, &work.lease, None).await.unwrap();
    let work = mine(db, &new_key("ended")).await;
    assert_eq!(work.record.maybe_sent_until_ms, None);
    lifecycle::end_lease(db, &work.lease, Some(1000)).await.unwrap();
    let first = mine(db, &new_key("ended")).await;
    let at = first.record.maybe_sent_until_ms.unwrap();
    assert!((500..30_000).contains(&(first.record.now_ms - at)), "{first:?}");
    lifecycle::end_lease(db, &first.lease, Some(3_600_000)).await.unwrap();
    let second = mine(db, &new_key("ended")).await;
    assert_eq!(second.record.maybe_sent_until_ms, Some(at));
    lifecycle::give_up(db, &second.lease, None, Some(0)).await.unwrap();
    let looked = lifecycle::take_for_look_again(db, "t", LONG_MS, 10).await.unwrap();
    assert_eq!(looked[0].record.maybe_sent_until_ms, Some(at));
}

async fn an_answer_and_its_reservation_are_stored_together_and_come_back_as_they_were(fresh: Fresh) {
    let db = &fresh.db;
    let body = "{\"b\":1.10,\"a\":18446744073709551617,\"n\":\"窓側 \\/ \\\"\"}";
    let work = mine(db, &new_key("k")).await;
    lifecycle::finalize(db, &work.lease, &answer(body), &booked(&work), LONG_MS).await.unwrap();
    let Claimed::Completed(record) = claim(db, &new_key("k")).await else { panic!("not completed") };
    let State::Completed { answer: stored, .. } = record.state else { panic!("not completed") };
    assert_eq!(stored, answer(body));
    let found = reservation::find(db, "local", &work.record.reservation_id).await.unwrap().unwrap();
    assert_eq!((found.booking_id.as_str(), found.details, found.version), ("BK-1", crate::support::details(), 1));
    assert_eq!(reservation::find(db, "other", &work.record.reservation_id).await.unwrap(), None);
    assert_eq!(reservation::list(db, "local", None, None, 10).await.unwrap().len(), 1);
}

async fn an_expired_key_is_as_good_as_none(fresh: Fresh) {
    let db = &fresh.db;
    let old = mine(db, &new_key("k")).await;
    lifecycle::finalize(db, &old.lease, &answer("x"), &booked(&old), 0).await.unwrap();
    // Another request, and two at once: one of them has it, as a new life.
    let (a, b) = (new_key("k"), new_key("k"));
    let (a, b) = tokio::join!(claim(db, &a), claim(db, &b));
    let mine = [&a, &b].into_iter().filter(|c| matches!(c, Claimed::Mine(_))).count();
    assert_eq!(mine, 1, "{a:?} {b:?}");
    let record = lifecycle::find(db, &old.lease.digest).await.unwrap().unwrap();
    assert_eq!((record.attempt, record.key_state()), (1, KeyState::InProgress));
    assert_ne!(record.reference, old.record.reference);
    assert_eq!(lifecycle::expire(db, 10).await.unwrap(), 0);
}

/// Attempts are counted anew in every life: the reference tells them apart.
async fn who_saw_an_earlier_life_moves_nothing_in_the_next(fresh: Fresh) {
    let db = &fresh.db;
    let released = async || {
        let work = mine(db, &new_key("k")).await;
        lifecycle::release(db, &work.lease, None, Some(0), 0).await.unwrap();
        (lifecycle::find(db, &work.lease.digest).await.unwrap().unwrap(), work)
    };
    let (seen, old) = released().await;
    assert!(lifecycle::confirm_absence(db, &seen, 0).await.unwrap());
    let (now, _) = released().await;
    assert_eq!((now.attempt, now.key_state()), (seen.attempt, seen.key_state()));
    assert_ne!(now.reference, seen.reference);
    assert!(!lifecycle::confirm_absence(db, &seen, LONG_MS).await.unwrap());
    lifecycle::postpone_second_look(db, &seen, LONG_MS).await.unwrap();
    let late = lifecycle::find_late(db, &seen, &answer("x"), &booked(&old), LONG_MS).await.unwrap();
    assert_eq!(late, Finalized::LeaseLost);
    let after = lifecycle::find(db, &now.digest).await.unwrap().unwrap();
    assert_eq!((after.state, after.looks), (now.state, now.looks));
}

async fn impossible_states_cannot_be_stored(fresh: Fresh) {
    let work = mine(&fresh.db, &new_key("k")).await;
    for change in [
        "state = 'completed'",
        "state = 'completed', answer_status = 201, answer_body = digest, completed_at_ms = 1, expires_at_ms = 1, lease_until_ms = NULL",
        "state = 'completed', answer_status = 201, answer_content_type = 'x', answer_body = '', completed_at_ms = 1, expires_at_ms = 1, \
         lease_until_ms = NULL",
        "lease_token = NULL",
        "lease_until_ms = NULL",
        "state = 'released'",
        "state = 'released', lease_until_ms = NULL",
        "state = 'released', lease_until_ms = NULL, next_look_at_ms = 1, expires_at_ms = 1",
        "state = 'outcome_unknown', expires_at_ms = 1",
        "expires_at_ms = 1",
        "state = 'running'",
        "attempt = 0",
        "operation = 'changeReservation'",
        "reference = 'another'",
        "digest = fingerprint, fingerprint = request",
    ] {
        let sql = format!("UPDATE idempotency_key SET {change} WHERE reference = '{}'", work.record.reference);
        assert!(fresh.raw.execute_unprepared(&sql).await.is_err(), "{change}");
    }
}

async fn a_batch_is_shared_and_an_unreadable_row_harms_no_other(fresh: Fresh) {
    let db = &fresh.db;
    for i in 0..20 {
        mine(db, &lifecycle::NewKey { lease_ms: 0, ..new_key(&format!("k{i}")) }).await;
    }
    let broken = "UPDATE idempotency_key SET fingerprint_version = 99999999 \
         WHERE reference = (SELECT min(reference) FROM idempotency_key)";
    fresh.raw.execute_unprepared(broken).await.unwrap();
    let sweep = |token: &'static str| lifecycle::take_over_stale(db, token, LONG_MS, 7);
    let (a, b, c) = tokio::join!(sweep("a"), sweep("b"), sweep("c"));
    let mut taken: Vec<_> = [a, b, c].into_iter().flat_map(Result::unwrap).map(|w| w.record.reference).collect();
    assert!(taken.len() <= 21);
    taken.extend(sweep("d").await.unwrap().into_iter().map(|w| w.record.reference));
    let all = taken.len();
    taken.sort();
    taken.dedup();
    assert_eq!((all, taken.len()), (19, 19));
}

/// On a table without statistics PostgreSQL prefers a plan that runs a plain subquery once a row, LIMIT or not.
async fn no_batch_is_larger_than_it_was_asked_for(fresh: Fresh) {
    const LIMIT: u64 = 4;
    let db = &fresh.db;
    for i in 0..20 {
        mine(db, &lifecycle::NewKey { lease_ms: 0, ..new_key(&format!("k{i}")) }).await;
    }
    let all = async |change: &str| {
        fresh.raw.execute_unprepared(&format!("UPDATE idempotency_key SET {change}")).await.unwrap();
    };
    assert_eq!(lifecycle::take_over_stale(db, "t", LONG_MS, LIMIT).await.unwrap().len(), 4);
    all("state = 'outcome_unknown', lease_until_ms = NULL, next_look_at_ms = 1").await;
    assert_eq!(lifecycle::take_for_look_again(db, "t", LONG_MS, LIMIT).await.unwrap().len(), 4);
    all("state = 'released', lease_until_ms = NULL, next_look_at_ms = 1").await;
    assert_eq!(lifecycle::take_second_looks(db, LONG_MS, LIMIT).await.unwrap().len(), 4);
    all("next_look_at_ms = NULL, expires_at_ms = 1").await;
    assert_eq!(lifecycle::expire(db, LIMIT).await.unwrap(), 4);
    let entry = |reference: usize| attempt_journal::Entry {
        reference: reference.to_string(),
        attempt: 1,
        what: "book",
        result: "done".into(),
        status: None,
        duration_ms: 1,
        ended_ms_ago: LONG_MS,
    };
    attempt_journal::write(db, "w", &(0..20).map(entry).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(attempt_journal::delete_orphaned(db, 0, LIMIT).await.unwrap(), 4);
}
