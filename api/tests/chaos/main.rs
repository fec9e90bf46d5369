//! Chaos: several `api` and `jobs` processes on one database, a booking system that misbehaves, wires that are cut and held up, processes
//! that are killed and paused, and callers that retry as documented. Then calm, and an oracle that compares everything.
//!
//! `make chaos` runs a short storm on each database, or as long a one as it is asked for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test that cannot go on says so and stops")]

mod behaviour;
mod booking;
mod caller;
mod database;
mod dice;
mod faults;
mod ledger;
mod oracle;
mod process;
mod proxy;
#[path = "../it/support/reply.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use more of it")]
mod reply;
mod settings;
#[path = "../it/support/wait.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use more of it")]
mod wait;
#[path = "../it/support/wire.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use more of it")]
mod wire;
mod world;

use std::sync::Arc;
use std::time::Duration;

use booking::Mode;
use database::Engine;
use faults::Fault;
use world::World;

/// A storm no longer than this: what is found is found among few keys, and pauses between looks stay short. A longer run is many of them.
const STORM: Duration = Duration::from_secs(20);
const SHORT_STORM: Duration = Duration::from_secs(8);

#[test]
fn sqlite() {
    run(Engine::Sqlite);
}

#[test]
fn postgres() {
    run(Engine::Postgres);
}

/// What `make chaos` hands over.
struct Arguments {
    seed: u64,
    storms: u64,
    storm: Duration,
    kinds: Vec<(u64, &'static str, Fault)>,
}

impl Arguments {
    /// Without any, as in `cargo test`: one short storm that is the same every time.
    fn read() -> Self {
        let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let seconds = given("CHAOS_SECONDS").map(|s| s.parse().expect("SECONDS is a number"));
        let seed = match given("CHAOS_SEED") {
            Some(seed) => seed.parse().expect("SEED is a number"),
            None if seconds.is_some() => u64::from(rand::random::<u32>()),
            None => 1,
        };
        let wanted = given("CHAOS_FAULTS");
        let mut kinds = faults::all();
        if let Some(wanted) = &wanted {
            let names: Vec<_> = wanted.split(',').map(str::trim).filter(|name| *name != "none").collect();
            let known = |name: &&str| kinds.iter().any(|(_, kind, _)| kind == name);
            let known = names.iter().all(known);
            assert!(known, "FAULTS: none, or some of {}", kinds.iter().map(|(_, name, _)| *name).collect::<Vec<_>>().join(","));
            kinds.retain(|(_, name, _)| names.contains(name));
        }
        let whole = seconds.map_or(SHORT_STORM, Duration::from_secs);
        let storms = whole.as_secs().div_ceil(STORM.as_secs()).max(1);
        Self { seed, storms, storm: whole.min(STORM), kinds }
    }
}

fn run(engine: Engine) {
    let arguments = Arguments::read();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    for number in 0..arguments.storms {
        let seed = arguments.seed + number;
        let violations = runtime.block_on(storm(engine, seed, &arguments));
        assert!(
            violations.is_empty(),
            "{} violations, reproduce with: make chaos DB={} SEED={seed} SECONDS={}\n{}",
            violations.len(),
            if engine == Engine::Sqlite { "sqlite" } else { "postgres" },
            arguments.storm.as_secs(),
            violations.join("\n")
        );
    }
    runtime.shutdown_background();
}

/// One world for each of the four modes of a booking system, all at once; the violations in all of them.
async fn storm(engine: Engine, seed: u64, arguments: &Arguments) -> Vec<String> {
    let modes = [(true, true), (true, false), (false, true), (false, false)];
    let worlds = modes.into_iter().enumerate().map(async |(number, (deduplicates, looks_up))| {
        let seed = seed.wrapping_mul(4).wrapping_add(number as u64);
        let mode = Mode { deduplicates, looks_up };
        let world = Arc::new(World::create(engine, mode, seed, arguments.storm).await);
        world.run(arguments.storm, &arguments.kinds).await;
        world
    });
    let worlds = futures_util::future::join_all(worlds).await;
    println!("chaos on {engine:?}, SEED={seed}, {} s", arguments.storm.as_secs());
    let mut violations = Vec::new();
    for world in worlds {
        println!("{}", world.report());
        violations.extend(world.ledger.violations());
        match Arc::into_inner(world) {
            Some(world) => world.remove().await,
            None => panic!("somebody still lives in a world that is over"),
        }
    }
    violations
}
