//! The runs.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use crate::Check;
use crate::mutations::Mutation;
use crate::properties::{NO_ORPHAN, NOT_STUCK, ONE_ANSWER, ONE_BOOKING};
use crate::settings::{ABSENT_AFTER, Settings, TIMEOUT};

fn check(settings: Settings) -> bool {
    let began = Instant::now();
    let checker = Check::new(settings).checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!(
        "{:<30} {:>9} states {:>9} unique depth {:>3} {:>6.1} s; later {}; unseen {:?}",
        settings.name(),
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f64(),
        checker.model().known.lock().unwrap().len(),
        checker.model().seen.missing(),
    );
    let mut ok = true;
    for (name, path) in checker.discoveries() {
        println!("FAILED: {name}");
        for (state, action) in path.into_vec() {
            println!("   {:?} {:?} {:?} {:?}", state.key, state.references, state.workers, state.under_way);
            if let Some(action) = action {
                println!("{action}");
            }
        }
        ok = false;
    }
    ok
}

fn find(settings: Settings, what: &str) -> bool {
    let began = Instant::now();
    let checker = Check::new(settings).checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!(
        "{:<30} {what} {:?} {:>9} states {:>9} unique depth {:>3} {:>6.1} s",
        settings.name(),
        settings.mutation,
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f64(),
    );
    let d = checker.discoveries();
    for (name, path) in &d {
        println!("  broken: {name}");
        for (_, action) in path.clone().into_vec() {
            if let Some(action) = action {
                println!("     {action}");
            }
        }
    }
    !d.is_empty()
}

#[test]
fn holds() {
    let mut ok = true;
    for (idempotent, lookup) in [(false, false), (true, true), (true, false), (false, true)] {
        ok &= check(Settings { operator: true, ..Settings::new(idempotent, lookup) });
        ok &= check(Settings { rebook: true, ..Settings::new(idempotent, lookup) });
        ok &= check(Settings { operator_ignores_leases: true, operator: true, ..Settings::new(idempotent, lookup) });
        if idempotent {
            ok &= check(Settings { remembers_for: Some(5), ..Settings::new(idempotent, lookup) });
        }
        if !idempotent {
            ok &= check(Settings { takes_effect_within: ABSENT_AFTER + TIMEOUT, ..Settings::new(idempotent, lookup) });
        }
    }
    assert!(ok);
}

#[test]
fn mutations() {
    let both = Settings::new(true, true);
    let dedup = Settings::new(true, false);
    let lookup = Settings::new(false, true);
    let neither = Settings::new(false, false);
    for m in [
        Mutation::FinalizeWithoutToken,
        Mutation::FreeAfterUnknownSend,
        Mutation::AbsenceBelievedAtOnce,
        Mutation::ReleaseWithoutLookUp,
        Mutation::RetentionFromClaim,
        Mutation::TakeOverSendsBlindly,
        Mutation::RefusalBelievedAtOnce,
        Mutation::NoLeaseCheck,
        Mutation::VanishedWorkerNotCounted,
        Mutation::NoSecondLook,
        Mutation::SecondLookWithoutAttempt,
    ] {
        for s in [both, dedup, lookup, neither] {
            find(Settings { mutation: Some(m), ..s }, "mutation");
        }
    }
    for s in [both, dedup, lookup, neither] {
        find(Settings { pause_before_send: 3, ..s }, "pause");
        find(Settings { takes_effect_within: ABSENT_AFTER + TIMEOUT + 1, ..s }, "late");
        find(Settings { look_is_at_most: 3, ..s }, "look");
    }
}
