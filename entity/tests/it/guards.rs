//! One test for each condition in the SQL that no other test would miss: what each statement must leave alone, whoever comes in between.
//!
//! `.ci/planted` removes these conditions one at a time and names the test that must fail.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Fresh, LONG_MS, answer, booked, change_of, claim, confirmed, meanwhile, mine, new_key, stolen, to_version};
use entity::idempotency_key::{Record, State};
use entity::key_scope::Operation;
use entity::key_state::KeyState;
use entity::lifecycle::{self, Claimed, Effect, Finalized, Guard, KeyFilter, NewKey, Renewed};
use entity::operator_action::{self, OperatorAction};
use entity::reservation::{self, Reservation, Status};
use entity::{api_token, attempt_journal};
use sea_orm::{ConnectionTrait, DatabaseBackend, Statement, TransactionTrait};

crate::on_both_databases![
    a_claim_takes_only_the_life_that_it_has_read,
    a_claim_takes_no_key_that_was_completed_meanwhile,
    a_claim_takes_no_lease_that_was_renewed_meanwhile,
    a_claim_takes_no_key_that_expired_meanwhile,
    nobody_changes_what_is_somebody_elses,
    a_lease_that_its_worker_ended_is_not_renewed,
    a_lost_lease_stores_no_reservation_and_no_change,
    an_expired_key_that_lives_again_meanwhile_is_not_deleted,
    a_change_is_stored_for_the_version_that_it_was_made_for,
    what_is_cancelled_is_neither_changed_nor_cancelled_again,
    a_second_look_moves_only_the_attempt_that_it_has_seen,
    a_release_is_made_final_once,
    a_second_look_is_one_processs_and_only_when_it_is_due,
    an_operator_moves_only_the_attempt_that_was_seen,
    an_operator_moves_no_key_that_a_worker_holds,
    an_operator_moves_no_key_that_is_known_by_now,
    a_sweep_takes_no_lease_that_lasts,
    an_unknown_key_is_looked_at_by_one_worker_at_a_time_and_not_before_it_is_due,
    a_key_with_a_lease_of_the_looks_is_not_taken_over,
    only_what_has_expired_is_deleted,
    a_creation_is_found_by_its_account_alone,
    an_unsettled_change_is_that_of_its_reservation,
    a_list_shows_what_was_asked_for,
    a_revoked_token_is_nobodys,
    a_journal_stays_as_long_as_its_key,
];

async fn record(fresh: &Fresh, of: &Record) -> Record {
    lifecycle::find(&fresh.db, &of.digest).await.unwrap().unwrap()
}

/// A released key, its second look due at once, as a look sees it.
async fn released(fresh: &Fresh, name: &str) -> Record {
    let work = mine(&fresh.db, &new_key(name)).await;
    lifecycle::release(&fresh.db, &work.lease, None, Some(0), LONG_MS).await.unwrap();
    record(fresh, &work.record).await
}

/// An unknown key, its next look due at once.
async fn unknown(fresh: &Fresh, name: &str) -> Record {
    let work = mine(&fresh.db, &new_key(name)).await;
    lifecycle::give_up(&fresh.db, &work.lease, None, Some(0)).await.unwrap();
    record(fresh, &work.record).await
}

/// Claims `new`, and has `sql` done between the read of the record and the statement that takes it.
async fn claim_interrupted(fresh: &Fresh, new: &NewKey, sql: &str) -> Claimed {
    let (fingerprint, interrupted) = (new.fingerprint, AtomicBool::new(false));
    let fingerprint_of = |_| {
        if !interrupted.swap(true, Ordering::SeqCst) {
            meanwhile(&fresh.raw, sql);
        }
        Some(fingerprint)
    };
    let claimed = lifecycle::claim(&fresh.db, new, &fingerprint_of, false).await.unwrap();
    assert!(interrupted.load(Ordering::SeqCst), "the claim read no record");
    claimed
}

const COMPLETED: &str = "state = 'completed', lease_until_ms = NULL, next_look_at_ms = NULL, answer_status = 204, answer_body = digest, \
     completed_at_ms = 1, expires_at_ms = 9000000000000000";

async fn a_claim_takes_only_the_life_that_it_has_read(fresh: Fresh) {
    let seen = released(&fresh, "k").await;
    // The next life belongs to another request, and has come just as far.
    let next = "UPDATE idempotency_key SET reference = 'next', reservation_id = 'next', fingerprint = digest";
    let claimed = claim_interrupted(&fresh, &new_key("k"), next).await;
    assert!(matches!(claimed, Claimed::OtherRequest(_)), "{claimed:?}");
    assert_eq!(record(&fresh, &seen).await.attempt, 1);
}

async fn a_claim_takes_no_key_that_was_completed_meanwhile(fresh: Fresh) {
    let seen = released(&fresh, "k").await;
    // A late booking was found: the attempt stays the same.
    let claimed = claim_interrupted(&fresh, &new_key("k"), &format!("UPDATE idempotency_key SET {COMPLETED}")).await;
    assert!(matches!(claimed, Claimed::Completed(_)), "{claimed:?}");
    assert_eq!(record(&fresh, &seen).await.attempt, 1);
}

async fn a_claim_takes_no_lease_that_was_renewed_meanwhile(fresh: Fresh) {
    mine(&fresh.db, &NewKey { lease_ms: 0, ..new_key("k") }).await;
    let renewed = "UPDATE idempotency_key SET lease_until_ms = 9000000000000000";
    let claimed = claim_interrupted(&fresh, &new_key("k"), renewed).await;
    assert!(matches!(claimed, Claimed::InProgress(_)), "{claimed:?}");
}

async fn a_claim_takes_no_key_that_expired_meanwhile(fresh: Fresh) {
    let seen = released(&fresh, "k").await;
    let expired = "UPDATE idempotency_key SET next_look_at_ms = NULL, expires_at_ms = 1";
    let claimed = claim_interrupted(&fresh, &new_key("k"), expired).await;
    let Claimed::Mine(work) = claimed else { panic!("{claimed:?}") };
    assert_ne!(work.record.reference, seen.reference, "an expired key is as good as none");
}

async fn nobody_changes_what_is_somebody_elses(fresh: Fresh) {
    let (db, before) = (&fresh.db, confirmed(&fresh).await);
    for guard in [to_version(1), Guard::Cancel { version: None }] {
        let theirs = NewKey { account: "other".into(), ..change_of(&before, "c", guard) };
        assert!(matches!(claim(db, &theirs).await, Claimed::Blocked));
    }
    assert_eq!(reservation::find(db, "other", &before.id).await.unwrap(), None);
    assert_eq!(reservation::list(db, "other", None, None, 10).await.unwrap(), []);
    let of = |status| reservation::list(db, "local", Some(status), None, 10);
    assert_eq!((of(Status::Confirmed).await.unwrap().len(), of(Status::Cancelled).await.unwrap().len()), (1, 0));
    assert_eq!(reservation::list(db, "local", None, Some(&before.id), 10).await.unwrap(), []);
}

async fn a_lease_that_its_worker_ended_is_not_renewed(fresh: Fresh) {
    let work = mine(&fresh.db, &new_key("k")).await;
    lifecycle::end_lease(&fresh.db, &work.lease, None).await.unwrap();
    assert_eq!(lifecycle::renew(&fresh.db, &work.lease, LONG_MS).await.unwrap(), Renewed::LeaseLost);
    assert_eq!(record(&fresh, &work.record).await.lease_left_ms(), Some(0));
}

async fn a_lost_lease_stores_no_reservation_and_no_change(fresh: Fresh) {
    let db = &fresh.db;
    let work = mine(db, &new_key("mine")).await;
    let lost = lifecycle::finalize(db, &stolen(&work.lease), &answer("x"), &booked(&work), LONG_MS).await.unwrap();
    assert_eq!(lost, Finalized::LeaseLost);
    assert_eq!(reservation::find(db, "local", &work.record.reservation_id).await.unwrap(), None);

    let before = confirmed(&fresh).await;
    let change = mine(db, &change_of(&before, "c", to_version(1))).await;
    let effect = Effect::Change { after: Reservation { version: 2, ..before.clone() }, busy_for_ms: None };
    let lost = lifecycle::finalize(db, &stolen(&change.lease), &answer("x"), &effect, LONG_MS).await.unwrap();
    assert_eq!(lost, Finalized::LeaseLost);
    assert_eq!(reservation::find(db, "local", &before.id).await.unwrap(), Some(before));
}

/// A claim reads an expired key; before it deletes it, another request has made the key anew and settled it.
async fn an_expired_key_that_lives_again_meanwhile_is_not_deleted(fresh: Fresh) {
    let old = mine(&fresh.db, &new_key("k")).await;
    lifecycle::finalize(&fresh.db, &old.lease, &answer("x"), &Effect::None, 0).await.unwrap();
    let other = fresh.raw.begin().await.unwrap();
    let anew = "UPDATE idempotency_key SET reference = 'next', reservation_id = 'next', expires_at_ms = 9000000000000000";
    other.execute_unprepared(anew).await.unwrap();
    let (db, new) = (fresh.db.clone(), new_key("k"));
    let claiming = tokio::spawn(async move { lifecycle::claim(&db, &new, &|_| Some(new.fingerprint), true).await.unwrap() });
    until_one_waits(&fresh).await;
    other.commit().await.unwrap();
    let claimed = claiming.await.unwrap();
    assert!(matches!(&claimed, Claimed::Completed(record) if record.reference == "next"), "{claimed:?}");
}

/// Until a session waits for another one's lock. SQLite does not say so: there it is waited for long enough.
async fn until_one_waits(fresh: &Fresh) {
    if fresh.raw.get_database_backend() == DatabaseBackend::Sqlite {
        return tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let sql = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    for _ in 0..500 {
        if fresh.raw.query_one_raw(Statement::from_string(DatabaseBackend::Postgres, sql)).await.unwrap().is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody waits");
}

/// Two changes of one reservation exclude each other by a unique index; should it ever fail, no change is lost for that.
async fn a_change_is_stored_for_the_version_that_it_was_made_for(fresh: Fresh) {
    let (db, before) = (&fresh.db, confirmed(&fresh).await);
    let work = mine(db, &change_of(&before, "c", to_version(1))).await;
    fresh.raw.execute_unprepared("UPDATE reservation SET version = 2, quantity = 7").await.unwrap();
    let effect = Effect::Change { after: Reservation { version: 2, ..before.clone() }, busy_for_ms: None };
    assert_eq!(lifecycle::finalize(db, &work.lease, &answer("y"), &effect, LONG_MS).await.unwrap(), Finalized::LeaseLost);
    assert_eq!(reservation::find(db, "local", &before.id).await.unwrap().unwrap().details.quantity, 7);
    assert_eq!(record(&fresh, &work.record).await.key_state(), KeyState::InProgress);
}

async fn what_is_cancelled_is_neither_changed_nor_cancelled_again(fresh: Fresh) {
    let (db, before) = (&fresh.db, confirmed(&fresh).await);
    let change = mine(db, &change_of(&before, "c", to_version(1))).await;
    fresh.raw.execute_unprepared("UPDATE reservation SET status = 'cancelled'").await.unwrap();
    let after = Reservation { version: 2, ..before.clone() };
    for effect in [Effect::Change { after, busy_for_ms: None }, Effect::Cancel { id: before.id.clone(), at_ms: 1 }] {
        let stored = lifecycle::finalize(db, &change.lease, &answer("y"), &effect, LONG_MS).await.unwrap();
        assert_eq!(stored, Finalized::LeaseLost, "{effect:?}");
    }
    assert_eq!(reservation::find(db, "local", &before.id).await.unwrap().unwrap().version, 1);
}

async fn a_second_look_moves_only_the_attempt_that_it_has_seen(fresh: Fresh) {
    let db = &fresh.db;
    let seen = released(&fresh, "k").await;
    let retry = mine(db, &new_key("k")).await;
    lifecycle::release(db, &retry.lease, None, Some(0), LONG_MS).await.unwrap();
    let now = record(&fresh, &seen).await;
    assert_eq!((now.reference.as_str(), now.attempt, now.key_state()), (seen.reference.as_str(), 2, KeyState::Released));

    assert!(!lifecycle::confirm_absence(db, &seen, LONG_MS).await.unwrap());
    lifecycle::postpone_second_look(db, &seen, LONG_MS).await.unwrap();
    let late = lifecycle::find_late(db, &seen, &answer("x"), &booked(&retry), LONG_MS).await.unwrap();
    assert_eq!(late, Finalized::LeaseLost);
    let after = record(&fresh, &seen).await;
    assert_eq!((after.state, after.looks), (now.state, 0));
}

async fn a_release_is_made_final_once(fresh: Fresh) {
    let db = &fresh.db;
    let seen = released(&fresh, "k").await;
    lifecycle::postpone_second_look(db, &seen, LONG_MS).await.unwrap();
    let postponed = record(&fresh, &seen).await;
    let due_in = |record: &Record| match record.state {
        State::Released { next_look_at_ms: Some(at), .. } => at - record.now_ms,
        _ => panic!("no look to come: {record:?}"),
    };
    assert_eq!((postponed.looks, due_in(&postponed) > LONG_MS / 2), (1, true));
    assert!(lifecycle::confirm_absence(db, &seen, LONG_MS).await.unwrap());
    let is_final = record(&fresh, &seen).await.state;
    assert!(!lifecycle::confirm_absence(db, &seen, 9 * LONG_MS).await.unwrap());
    lifecycle::postpone_second_look(db, &seen, 1).await.unwrap();
    assert_eq!(record(&fresh, &seen).await.state, is_final);
}

async fn a_second_look_is_one_processs_and_only_when_it_is_due(fresh: Fresh) {
    let db = &fresh.db;
    let due = released(&fresh, "due").await;
    let later = mine(db, &new_key("later")).await;
    lifecycle::release(db, &later.lease, None, Some(LONG_MS), LONG_MS).await.unwrap();
    // An unknown key waits for a look of another kind.
    unknown(&fresh, "unknown").await;
    let taken: Vec<_> = lifecycle::take_second_looks(db, LONG_MS, 10).await.unwrap().into_iter().map(|r| r.reference).collect();
    assert_eq!(taken, [due.reference]);
    assert_eq!(lifecycle::take_second_looks(db, LONG_MS, 10).await.unwrap(), []);
}

fn action() -> OperatorAction {
    OperatorAction { said: "booked".into(), reason: "asked by telephone".into(), operator: "kim".into() }
}

/// Both of an operator's statements do nothing to this key, and note nothing.
async fn no_operator_moves(fresh: &Fresh, seen: &Record) {
    let (db, before) = (&fresh.db, record(fresh, seen).await);
    assert!(!lifecycle::resolve_not_booked(db, seen, None, LONG_MS, &action()).await.unwrap());
    let stored = lifecycle::resolve_answered(db, seen, &answer("x"), &Effect::None, LONG_MS, &action()).await.unwrap();
    assert_eq!(stored, Finalized::LeaseLost);
    let after = record(fresh, seen).await;
    assert_eq!((after.state, after.lease_token, after.attempt), (before.state, before.lease_token, before.attempt));
    assert_eq!(operator_action::of_reference(db, &seen.reference).await.unwrap(), []);
}

async fn an_operator_moves_only_the_attempt_that_was_seen(fresh: Fresh) {
    let seen = unknown(&fresh, "k").await;
    fresh.raw.execute_unprepared("UPDATE idempotency_key SET attempt = 2").await.unwrap();
    no_operator_moves(&fresh, &seen).await;
    let now = record(&fresh, &seen).await;
    assert!(lifecycle::resolve_not_booked(&fresh.db, &now, None, LONG_MS, &action()).await.unwrap());
    assert_eq!(operator_action::of_reference(&fresh.db, &seen.reference).await.unwrap()[0].action, action());

    // Another key's reference, whatever its attempt.
    let (first, second) = (unknown(&fresh, "first").await, unknown(&fresh, "second").await);
    assert!(lifecycle::resolve_not_booked(&fresh.db, &first, None, LONG_MS, &action()).await.unwrap());
    assert_eq!(record(&fresh, &second).await.key_state(), KeyState::OutcomeUnknown);
}

async fn an_operator_moves_no_key_that_a_worker_holds(fresh: Fresh) {
    unknown(&fresh, "k").await;
    // The operator looks just after the release job has taken it.
    let work = lifecycle::take_for_look_again(&fresh.db, "t", LONG_MS, 1).await.unwrap().remove(0);
    no_operator_moves(&fresh, &work.record).await;
    fresh.raw.execute_unprepared("UPDATE idempotency_key SET lease_until_ms = 1").await.unwrap();
    let stored = lifecycle::resolve_answered(&fresh.db, &work.record, &answer("x"), &Effect::None, LONG_MS, &action()).await.unwrap();
    assert_eq!(stored, Finalized::Done);
}

async fn an_operator_moves_no_key_that_is_known_by_now(fresh: Fresh) {
    let seen = unknown(&fresh, "k").await;
    for state in [
        "state = 'in_progress', lease_until_ms = 1, next_look_at_ms = NULL",
        "state = 'released', lease_until_ms = NULL, next_look_at_ms = 1",
        COMPLETED,
    ] {
        fresh.raw.execute_unprepared(&format!("UPDATE idempotency_key SET {state}")).await.unwrap();
        no_operator_moves(&fresh, &seen).await;
    }
}

async fn a_sweep_takes_no_lease_that_lasts(fresh: Fresh) {
    let work = mine(&fresh.db, &new_key("k")).await;
    assert_eq!(lifecycle::take_over_stale(&fresh.db, "t", LONG_MS, 10).await.unwrap(), []);
    lifecycle::end_lease(&fresh.db, &work.lease, None).await.unwrap();
    let taken = lifecycle::take_over_stale(&fresh.db, "t", LONG_MS, 10).await.unwrap().remove(0);
    assert_eq!((taken.record.attempt, taken.record.reference.as_str()), (2, work.record.reference.as_str()));
    assert_eq!(lifecycle::take_over_stale(&fresh.db, "u", LONG_MS, 10).await.unwrap(), []);
}

async fn an_unknown_key_is_looked_at_by_one_worker_at_a_time_and_not_before_it_is_due(fresh: Fresh) {
    let db = &fresh.db;
    let due = unknown(&fresh, "due").await;
    let later = mine(db, &new_key("later")).await;
    lifecycle::give_up(db, &later.lease, None, Some(LONG_MS)).await.unwrap();
    let never = mine(db, &new_key("never")).await;
    lifecycle::give_up(db, &never.lease, None, None).await.unwrap();
    let taken = lifecycle::take_for_look_again(db, "t", LONG_MS, 10).await.unwrap();
    assert_eq!(taken.iter().map(|work| &work.record.reference).collect::<Vec<_>>(), [&due.reference]);
    assert_eq!(lifecycle::take_for_look_again(db, "u", LONG_MS, 10).await.unwrap(), []);
}

/// An unknown key that is looked at has a lease as well, and its worker may die. It stays unknown, and the next look is its own.
async fn a_key_with_a_lease_of_the_looks_is_not_taken_over(fresh: Fresh) {
    let db = &fresh.db;
    unknown(&fresh, "k").await;
    let taken = lifecycle::take_for_look_again(db, "t", 0, 10).await.unwrap().remove(0);
    assert_eq!(lifecycle::take_over_stale(db, "u", LONG_MS, 10).await.unwrap(), []);
    assert!(matches!(claim(db, &new_key("k")).await, Claimed::OutcomeUnknown(_)));
    let again = lifecycle::take_for_look_again(db, "u", LONG_MS, 10).await.unwrap().remove(0);
    assert_eq!(again.record.attempt, taken.record.attempt + 1);
}

async fn only_what_has_expired_is_deleted(fresh: Fresh) {
    let db = &fresh.db;
    let work = mine(db, &new_key("lasts")).await;
    lifecycle::finalize(db, &work.lease, &answer("x"), &Effect::None, LONG_MS).await.unwrap();
    assert_eq!(lifecycle::expire(db, 10).await.unwrap(), 0);
    assert!(matches!(claim(db, &new_key("lasts")).await, Claimed::Completed(_)));

    // One that has expired is deleted by the claim that meets it, and no other.
    for name in ["one", "two"] {
        let work = mine(db, &new_key(name)).await;
        lifecycle::finalize(db, &work.lease, &answer("x"), &Effect::None, 0).await.unwrap();
    }
    let (first, second) = (new_key("one"), new_key("two"));
    assert!(matches!(claim(db, &first).await, Claimed::Mine(_)));
    assert!(matches!(lifecycle::find(db, &second.digest).await.unwrap(), Some(r) if r.is_expired()));
    assert_eq!(lifecycle::expire(db, 10).await.unwrap(), 1);
    assert!(lifecycle::find(db, &work.record.digest).await.unwrap().is_some());
}

async fn a_creation_is_found_by_its_account_alone(fresh: Fresh) {
    let db = &fresh.db;
    let work = mine(db, &new_key("mine")).await;
    let id = &work.record.reservation_id;
    assert!(lifecycle::find_creation(db, "local", id).await.unwrap().is_some());
    assert_eq!(lifecycle::find_creation(db, "other", id).await.unwrap(), None);
    let before = confirmed(&fresh).await;
    let change = mine(db, &change_of(&before, "c", to_version(1))).await;
    assert_eq!(lifecycle::find_creation(db, "local", &change.record.reference).await.unwrap(), None);
}

async fn an_unsettled_change_is_that_of_its_reservation(fresh: Fresh) {
    let db = &fresh.db;
    let before = confirmed(&fresh).await;
    assert_eq!(lifecycle::find_unsettled_change(db, &before.id).await.unwrap(), None, "a creation is no change");
    let work = mine(db, &change_of(&before, "c", to_version(1))).await;
    assert_eq!(lifecycle::find_unsettled_change(db, "another").await.unwrap(), None);
    let found = lifecycle::find_unsettled_change(db, &before.id).await.unwrap().unwrap();
    assert_eq!(found.operation, Operation::Change);
    lifecycle::finalize(db, &work.lease, &answer("x"), &Effect::None, LONG_MS).await.unwrap();
    assert_eq!(lifecycle::find_unsettled_change(db, &before.id).await.unwrap(), None);
}

async fn a_list_shows_what_was_asked_for(fresh: Fresh) {
    let db = &fresh.db;
    assert_eq!(lifecycle::count_unknown(db).await.unwrap(), 0);
    let (unknown, work) = (unknown(&fresh, "k").await, mine(db, &new_key("l")).await);
    let all = KeyFilter { limit: 10, ..KeyFilter::default() };
    let listed = async |filter: KeyFilter| {
        let records = lifecycle::list(db, &filter).await.unwrap();
        records.into_iter().map(|r| r.reference).collect::<Vec<_>>()
    };
    let both = [unknown.reference.clone(), work.record.reference.clone()];
    assert_eq!(listed(all.clone()).await, both);
    assert_eq!(listed(KeyFilter { limit: 1, ..all.clone() }).await, both[..1]);
    assert_eq!(listed(KeyFilter { state: Some(KeyState::OutcomeUnknown), ..all.clone() }).await, both[..1]);
    assert_eq!(listed(KeyFilter { account: Some("other".into()), ..all.clone() }).await, [""; 0]);
    assert_eq!(listed(KeyFilter { account: Some("local".into()), ..all.clone() }).await, both);
    assert_eq!(listed(KeyFilter { older_than_ms: Some(LONG_MS), ..all.clone() }).await, [""; 0]);
    assert_eq!(listed(KeyFilter { older_than_ms: Some(0), ..all }).await, both);
    assert_eq!(lifecycle::count_unknown(db).await.unwrap(), 1);
    assert_eq!(lifecycle::find_by_reference(db, &both[1]).await.unwrap().map(|r| r.reference).as_ref(), Some(&both[1]));
    assert_eq!(lifecycle::find_by_reference(db, "another").await.unwrap(), None);
}

async fn a_revoked_token_is_nobodys(fresh: Fresh) {
    let db = &fresh.db;
    assert!(api_token::add(db, "secret", "hotel", api_token::Role::Client).await.unwrap());
    assert!(!api_token::add(db, "secret", "another", api_token::Role::Operator).await.unwrap());
    let caller = api_token::authenticate(db, "secret").await.unwrap().unwrap();
    assert_eq!((caller.account.as_str(), caller.role), ("hotel", api_token::Role::Client));
    assert_eq!(api_token::authenticate(db, "guess").await.unwrap(), None);
    let fingerprint = &api_token::all(db).await.unwrap()[0].fingerprint;
    assert_eq!(api_token::revoke(db, fingerprint).await.unwrap(), 1);
    assert_eq!(api_token::authenticate(db, "secret").await.unwrap(), None);
    // It stays revoked, since when it was.
    let since = api_token::all(db).await.unwrap()[0].revoked_at_ms;
    assert!(api_token::add(db, "secret", "hotel", api_token::Role::Client).await.unwrap());
    assert_eq!(api_token::revoke(db, fingerprint).await.unwrap(), 0);
    assert_eq!(api_token::all(db).await.unwrap()[0].revoked_at_ms, since);
}

async fn a_journal_stays_as_long_as_its_key(fresh: Fresh) {
    let db = &fresh.db;
    let work = mine(db, &new_key("k")).await;
    let entry = |reference: &str, ended_ms_ago| attempt_journal::Entry {
        reference: reference.into(),
        attempt: 1,
        what: "book",
        result: "done".into(),
        status: None,
        duration_ms: 1,
        ended_ms_ago,
    };
    let entries = [entry(&work.record.reference, 2 * LONG_MS), entry("gone", 2 * LONG_MS), entry("young", 0)];
    attempt_journal::write(db, "w", &entries).await.unwrap();
    assert_eq!(attempt_journal::delete_orphaned(db, LONG_MS, 10).await.unwrap(), 1);
    let left = async |reference| attempt_journal::of_reference(db, reference, 10).await.unwrap().len();
    assert_eq!((left(&work.record.reference).await, left("gone").await, left("young").await), (1, 0, 1));
}

/// PostgreSQL: what two sessions do at once. (SQLite has one writer at a time.)
mod postgres_sessions {
    use super::*;

    /// Nothing here takes that long unless it waits for the other session.
    const SOON: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn a_change_finalized_meanwhile_is_seen_by_a_claim() {
        is_seen("version = 2", to_version(1)).await;
    }

    #[tokio::test]
    async fn a_cancellation_finalized_meanwhile_is_seen_by_a_claim() {
        is_seen("status = 'cancelled'", Guard::Cancel { version: None }).await;
    }

    async fn is_seen(becomes: &str, guard: Guard) {
        let fresh = Fresh::postgres().await;
        let before = confirmed(&fresh).await;
        let other = fresh.raw.begin().await.unwrap();
        other.execute_unprepared(&format!("UPDATE reservation SET {becomes}")).await.unwrap();
        let (db, new) = (fresh.db.clone(), change_of(&before, "c", guard));
        let claiming = tokio::spawn(async move { claim(&db, &new).await });
        until_one_waits(&fresh).await;
        other.commit().await.unwrap();
        assert!(matches!(claiming.await.unwrap(), Claimed::Blocked));
    }

    #[tokio::test]
    async fn a_sweep_passes_over_what_another_one_is_taking() {
        let fresh = Fresh::postgres().await;
        let db = &fresh.db;
        let new = NewKey { lease_ms: 0, ..new_key("k") };
        mine(db, &new).await;
        let other = fresh.raw.begin().await.unwrap();
        other.execute_unprepared("UPDATE idempotency_key SET lease_until_ms = 9000000000000000").await.unwrap();
        let passed_over = tokio::time::timeout(SOON, lifecycle::take_over_stale(db, "t", LONG_MS, 10)).await;
        other.commit().await.unwrap();
        assert_eq!(passed_over.expect("it waits for the other one").unwrap(), []);
        assert_eq!(lifecycle::take_over_stale(db, "t", LONG_MS, 10).await.unwrap(), []);
    }
}
