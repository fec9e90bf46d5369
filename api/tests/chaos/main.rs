//! Chaos: several `api` and `jobs` processes on one database, a booking system that misbehaves, wires that are cut and held up, processes
//! that are killed and paused, and callers that retry as documented. Then calm, and an oracle that compares everything.
//!
//! `make chaos` runs a short storm on each database, or as long a one as it is asked for. `docs/chaos.md` says what it shows.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on says so and stops"
)]

mod arguments;
mod asked;
mod behaviour;
mod booking;
mod bookings;
mod caller;
mod clock;
mod common;
mod database;
mod dice;
#[path = "../it/support/disk.rs"]
mod disk;
mod faults;
mod forgotten;
mod lease;
mod ledger;
mod oracle;
mod ports;
#[path = "../it/support/postgres.rs"]
mod postgres;
mod process;
mod proxy;
#[path = "../it/support/reply.rs"]
mod reply;
mod requests;
mod sends;
mod server;
mod settings;
mod strike;
mod traps;
mod troubles;
#[path = "../it/support/wire.rs"]
mod wire;
mod world;

use std::path::PathBuf;
use std::sync::Arc;

use arguments::Arguments;
use booking::Mode;
use clock::Clock;
use common::{Common, Enough};
use database::Engine;
use faults::Fault;
use server::OwnServer;
use world::World;

#[test]
fn sqlite() {
    run(Engine::Sqlite);
}

#[test]
fn postgres() {
    run(Engine::Postgres);
}

/// What all storms together came to.
#[derive(Default)]
struct Total {
    storms: u64,
    faults: u64,
    requests: u64,
    bookings: u64,
    /// Workers whose first try to store met ended connections: stored all the same, and not.
    tried_again: (u64, u64),
    violations: Vec<String>,
}

/// What a run stands on, whatever its storms do.
#[derive(Clone)]
struct Ground {
    engine: Engine,
    faketime: Option<PathBuf>,
    server: Option<Arc<OwnServer>>,
    enough: Arc<Enough>,
}

impl Ground {
    /// What cannot be done here is left out of the arguments, with a line that says so.
    async fn prepare(engine: Engine, arguments: &mut Arguments) -> Self {
        let mut faketime = Clock::library();
        if faketime.is_none() {
            arguments.leave_out(Fault::Clock, engine, "there is no libfaketime.so.1 here (Debian: apt-get install faketime)");
        }
        // A program that need not live by it does not.
        faketime = faketime.filter(|_| arguments.kinds.iter().any(|(_, _, fault)| *fault == Fault::Clock));
        let server = match engine {
            Engine::Sqlite => None,
            Engine::Postgres => OwnServer::start(faketime.as_deref()).await,
        };
        if engine == Engine::Postgres && server.is_none() {
            let why = "PostgreSQL's server programs are not on this machine (Debian: apt-get install postgresql)";
            arguments.leave_out(Fault::Restart, engine, why);
            arguments.leave_out(Fault::Clock, engine, why);
        }
        Self { engine, faketime, server: server.map(Arc::new), enough: Arc::new(Enough::new(arguments.max_faults)) }
    }
}

fn run(engine: Engine) {
    let mut arguments = Arguments::read();
    let database = engine.name();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let ground = runtime.block_on(Ground::prepare(engine, &mut arguments));
    let (first, mut total) = (arguments.seed, Total::default());
    for seed in (0..arguments.storms).map(|n| first.wrapping_add(n)) {
        let again = arguments.again(database, seed);
        let (of_this, on) = (arguments.clone(), ground.clone());
        // A panic is a fault of this program or of its surroundings, and says nothing about the service; a broken promise is counted.
        match runtime.block_on(runtime.spawn(async move { storm(&on, seed, &of_this).await })) {
            Ok(storm) => total.add(storm),
            Err(panicked) => panic!("HARNESS FAULT, no verdict on the service: {panicked}\nrepeat with: {again}"),
        }
        let last = total.sentence(database, first, seed);
        println!("{last}");
        assert!(total.violations.is_empty(), "{last}\nrepeat with: {again}\n{}", total.violations.join("\n"));
        if ground.enough.is_reached() {
            break;
        }
    }
    if let Some(server) = &ground.server {
        runtime.block_on(server.end());
    }
    runtime.shutdown_background();
}

/// One world for each of the four modes of a booking system, all at once.
async fn storm(ground: &Ground, seed: u64, arguments: &Arguments) -> Total {
    let engine = ground.engine;
    let modes = [(true, true), (true, false), (false, true), (false, false)];
    let common = &Arc::new(Common::new(modes.len(), ground.server.clone(), Arc::clone(&ground.enough)));
    let worlds = modes.into_iter().enumerate().map(async |(number, (deduplicates, looks_up))| {
        // One that recognises keys for ever sees take-overs send again, one that does not sees them end.
        let forgets = deduplicates && looks_up && seed % 2 == 1;
        let seed = seed.wrapping_mul(4).wrapping_add(number as u64);
        let (mode, ledger) = (Mode { deduplicates, looks_up, forgets }, &common.ledgers[number]);
        let world = Arc::new(World::create(engine, mode, seed, ledger, common, ground.faketime.as_deref()).await);
        world.run(arguments.storm, &arguments.kinds).await;
        world
    });
    let worlds = futures_util::future::join_all(worlds).await;
    println!("chaos on {}, SEED={seed}, {} s", engine.name(), arguments.storm.as_secs());
    let mut total = Total { storms: 1, ..Total::default() };
    for world in worlds {
        println!("{}", world.report());
        total.faults += world.ledger.sum("faults");
        total.requests += world.ledger.sum("answers");
        let of = |kind| world.ledger.count_of("tried again", kind);
        total.tried_again.0 += of("stored");
        total.tried_again.1 += of("not stored");
        total.bookings += world.booking.bookings().len() as u64;
        total.violations.extend(world.ledger.violations());
        world.remove().await;
    }
    total
}

impl Total {
    fn add(&mut self, other: Self) {
        self.storms += other.storms;
        self.faults += other.faults;
        self.requests += other.requests;
        self.bookings += other.bookings;
        self.tried_again.0 += other.tried_again.0;
        self.tried_again.1 += other.tried_again.1;
        self.violations.extend(other.violations);
        // One may be unlucky; most are not. Those that stored nothing are not seen in every storm, so all of a run are counted.
        let (stored, not_stored) = self.tried_again;
        if not_stored >= 3 && stored < not_stored {
            let what = format!("of {} answers that met ended connections {not_stored} were never stored", stored + not_stored);
            self.violations.push(what);
        }
    }

    fn sentence(&self, database: &str, first: u64, last: u64) -> String {
        let Self { storms, faults, requests, bookings, tried_again: (stored, not_stored), violations } = self;
        format!(
            "TOTAL {database}: {storms} storms (seeds {first} to {last}), {faults} faults injected, {requests} requests, {bookings} bookings, \
             {} violations; stored by trying again {stored}, not {not_stored}",
            violations.len()
        )
    }
}
