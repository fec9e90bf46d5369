//! The runs: what holds, which mutations are found, and what remains where an assumption is broken.
//!
//! `MODEL_BOUNDS=large` (in a release build) takes larger bounds. The figures of `docs/verification.md` are printed by
//! `cargo test -p jobs --test model -- --nocapture --test-threads=1`.

use std::time::Instant;

use entity::key_state::Event;
use stateright::{Checker, HasDiscoveries, Model};

use crate::mutations::Mutation;
use crate::properties::{NO_ORPHAN, ONE_BOOKING};
use crate::settings::{ABSENT_AFTER, Budget, LEASE, Settings, TIMEOUT};
use crate::{Check, trace};

const BOTH: Settings = Settings::new(true, true);
const DEDUPLICATION: Settings = Settings::new(true, false);
const LOOK_UP: Settings = Settings::new(false, true);
const NEITHER: Settings = Settings::new(false, false);

/// Ticks after which the booking system may forget a key: enough for a re-send, and few enough that paths go beyond.
const FORGETS: Settings = Settings { remembers_for: Some(LEASE + TIMEOUT + ABSENT_AFTER), ..BOTH };

fn bounds(settings: Settings) -> Settings {
    let large = std::env::var_os("MODEL_BOUNDS").is_some_and(|bounds| bounds == "large");
    if large { Settings { budget: Budget { requests: 3, crashes: 1, faults: 2 }, ..settings } } else { settings }
}

/// Every state is visited, and no promise is broken in any. The events that never happened.
fn holds(settings: Settings) -> Vec<Event> {
    let (settings, began) = (bounds(settings), Instant::now());
    let checker = Check::new(settings).checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!(
        "{:<34} {:>9} states, {:>10} steps, depth {:>3}, {:>5.1} s",
        settings.name(),
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f64(),
    );
    let broken: Vec<_> =
        checker.discoveries().into_iter().map(|(name, path)| format!("{name}:\n{}", trace::of_path(path.into_vec()))).collect();
    assert!(broken.is_empty(), "{}: broken: {}", settings.name(), broken.join("\n"));
    checker.model().seen.missing()
}

/// A counter-example to `promise` is found, and printed.
fn breaks(settings: Settings, why: &str, promise: &'static str) {
    let stop = HasDiscoveries::AnyOf(std::iter::once(promise).collect());
    // Some take two faults.
    let settings = Settings { budget: Budget { faults: 2, ..settings.budget }, ..settings };
    // One thread, so that it is the same one, and a shortest one, every time.
    let checker = Check::new(settings).checker().threads(1).finish_when(stop).spawn_bfs().join();
    let path = checker.assert_any_discovery(promise);
    let states = checker.unique_state_count();
    let follows = if promise == NO_ORPHAN { checker.model().what_follows(path.last_state()) } else { Vec::new() };
    println!("{why}, {}: breaks \"{promise}\" ({states} states)\n{}", settings.name(), trace::of_path(path.into_vec()));
    if !follows.is_empty() {
        println!("  and, without any worker, from there on:\n{}", trace::of_path(follows));
    }
}

fn mutation_is_found(mutation: Mutation, settings: Settings, promise: &'static str) {
    breaks(Settings { mutation: Some(mutation), ..settings }, &format!("{mutation:?}"), promise);
}

#[test]
fn the_promises_hold_with_deduplication_and_look_up() {
    let unseen = holds(Settings { operator: true, ..BOTH });
    assert_eq!(unseen, [], "every event happens");
}

#[test]
fn the_promises_hold_with_deduplication_alone() {
    holds(Settings { operator: true, ..DEDUPLICATION });
}

#[test]
fn the_promises_hold_with_look_up_alone() {
    holds(Settings { operator: true, ..LOOK_UP });
}

#[test]
fn the_promises_hold_with_neither() {
    holds(Settings { operator: true, ..NEITHER });
}

#[test]
fn the_promises_hold_where_the_release_job_rebooks() {
    for settings in [BOTH, DEDUPLICATION, LOOK_UP, NEITHER] {
        holds(Settings { rebook: true, ..settings });
    }
}

#[test]
fn the_promises_hold_where_the_booking_system_forgets_keys() {
    holds(Settings { offer: DEDUPLICATION.offer, ..FORGETS });
    holds(FORGETS);
}

#[test]
fn every_mutation_is_found() {
    mutation_is_found(Mutation::FinalizeWithoutToken, LOOK_UP, NO_ORPHAN);
    mutation_is_found(Mutation::FreeAfterUnknownSend, BOTH, NO_ORPHAN);
    mutation_is_found(Mutation::AbsenceBelievedAtOnce, LOOK_UP, ONE_BOOKING);
    mutation_is_found(Mutation::ReleaseWithoutLookUp, DEDUPLICATION, NO_ORPHAN);
    mutation_is_found(Mutation::RetentionFromClaim, BOTH, ONE_BOOKING);
    mutation_is_found(Mutation::TakeOverSendsBlindly, LOOK_UP, ONE_BOOKING);
    mutation_is_found(Mutation::RefusalBelievedAtOnce, BOTH, NO_ORPHAN);
    mutation_is_found(Mutation::NoLeaseCheck, LOOK_UP, ONE_BOOKING);
    mutation_is_found(Mutation::VanishedWorkerNotCounted, LOOK_UP, ONE_BOOKING);
    mutation_is_found(Mutation::NoSecondLook, BOTH, NO_ORPHAN);
    mutation_is_found(Mutation::SecondLookWithoutAttempt, BOTH, NO_ORPHAN);
    mutation_is_found(Mutation::ResolveUnderLease, Settings { operator: true, ..DEDUPLICATION }, NO_ORPHAN);
    mutation_is_found(Mutation::SendsWhatWasAllowed, FORGETS, ONE_BOOKING);
    mutation_is_found(Mutation::RefusalStoredUnseen, BOTH, NO_ORPHAN);
}

#[test]
fn what_remains_is_what_the_assumptions_say() {
    let paused = |settings| Settings { pause_before_send: i8::MAX, ..settings };
    breaks(paused(LOOK_UP), "a pause of any length between check and send", ONE_BOOKING);
    breaks(paused(DEDUPLICATION), "a pause of any length between check and send", NO_ORPHAN);
    let late = |settings: Settings| Settings { takes_effect_within: settings.takes_effect_within + 1, ..settings };
    breaks(late(LOOK_UP), "a send that takes effect later", ONE_BOOKING);
    breaks(late(BOTH), "a send that takes effect later", NO_ORPHAN);
    let copied = |settings| Settings { copies_unseen: true, ..settings };
    breaks(copied(DEDUPLICATION), "a copy of a send books, and another one is refused", NO_ORPHAN);
}
