//! One world: a database, a booking system, several processes of ours, callers, and faults; then calm, and the verdict.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::booking::{BookingSystem, Mode};
use super::database::{Database, Engine};
use super::dice::Dice;
use super::faults::{self, Fault};
use super::ledger::Ledger;
use super::process::{Parts, Process};
use super::proxy::{Proxy, free_port};
use super::{caller, oracle, settings};

/// How long callers and jobs may take to settle everything once nothing goes wrong any more. Pauses between looks grow with every look
/// that settled nothing, so it is a multiple of the storm.
const PATIENCE: Duration = Duration::from_secs(90);
const CALLERS: u64 = 16;

pub struct World {
    pub seed: u64,
    pub booking: BookingSystem,
    pub database: Database,
    pub processes: Vec<Process>,
    pub ledger: Arc<Ledger>,
    mode: Mode,
    calm: AtomicBool,
    give_up_at: Instant,
    settled_after: OnceLock<Duration>,
    folder: TempDir,
}

impl World {
    /// Everything is started; nothing goes wrong yet.
    pub async fn create(engine: Engine, mode: Mode, seed: u64, storm: Duration) -> Self {
        let folder = TempDir::with_prefix("reservation-chaos-").expect("a folder");
        let ledger = Arc::new(Ledger::new());
        let database = Database::create(engine, folder.path()).await;
        let booking = BookingSystem::start(mode, seed, Arc::clone(&ledger)).await;
        let mut dice = Dice::of(seed, "world");
        let (servers, jobs) = (dice.between(2, 3), dice.between(1, 2));
        let mut processes = Vec::new();
        for (program, count) in [("api", servers), ("jobs", jobs)] {
            for number in 1..=count {
                processes.push(start(program, number, mode, &database, &booking, folder.path()).await);
            }
        }
        let give_up_at = Instant::now() + storm + PATIENCE;
        Self {
            seed,
            booking,
            database,
            processes,
            ledger,
            mode,
            calm: AtomicBool::default(),
            give_up_at,
            settled_after: OnceLock::new(),
            folder,
        }
    }

    /// The storm, the calm after it, the verdict.
    pub async fn run(self: &Arc<Self>, storm: Duration, kinds: &[(u64, &'static str, Fault)]) {
        self.all_listen().await;
        let callers = futures_util::future::join_all((0..CALLERS).map(|n| {
            let world = Arc::clone(self);
            tokio::spawn(async move { caller::live(&world, &n.to_string()).await })
        }));
        let keeper = tokio::spawn(keep_alive(Arc::clone(self)));
        let clock = async {
            tokio::time::sleep(storm).await;
            self.calm.store(true, Ordering::SeqCst);
            self.booking.calm_down();
        };
        tokio::join!(clock, faults::rage(self, kinds));
        for ended in callers.await {
            if let Err(panicked) = ended {
                self.ledger.violation(format!("a caller could make nothing of its answer: {panicked}"));
            }
        }
        oracle::judge(self).await;
        let _ = self.settled_after.set(self.ledger.began.elapsed());
        keeper.abort();
    }

    /// Whether nothing goes wrong any more.
    pub fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    pub fn has_time(&self) -> bool {
        Instant::now() < self.give_up_at
    }

    /// Where an unknown creation waits for an operator, of whom there is none here.
    pub fn only_a_person_can_tell(&self) -> bool {
        !self.mode.deduplicates && !self.mode.looks_up
    }

    /// Of the servers.
    pub fn ports(&self) -> Vec<u16> {
        self.processes.iter().filter_map(|process| process.port).collect()
    }

    /// Everything is stopped and removed; with `KEEP_LOGS=1` the folder stays.
    pub async fn remove(self) {
        drop(self.processes);
        self.database.remove().await;
        if std::env::var_os("KEEP_LOGS").is_some() {
            println!("logs: {}", self.folder.keep().display());
        }
    }

    /// What happened, in a few lines.
    pub fn report(&self) -> String {
        let Mode { deduplicates, looks_up } = self.mode;
        let names: Vec<_> = self.processes.iter().map(|process| process.name.as_str()).collect();
        let counted = |what| format!("  {what}: {}", self.ledger.counted(what));
        let mut lines = vec![format!(
            "BOOKING_IDEMPOTENT={deduplicates} BOOKING_LOOKUP={looks_up}, processes {}, settled after {:.1} s",
            names.join(" "),
            self.settled_after.get().map_or(f64::NAN, Duration::as_secs_f64)
        )];
        lines.extend(["faults", "answers", "booking system", "at the end"].map(counted));
        for violation in self.ledger.violations() {
            lines.push(format!("  VIOLATION {violation}"));
        }
        lines.join("\n")
    }

    async fn all_listen(&self) {
        for port in self.ports() {
            super::wait::eventually("a server listens", async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()).await;
        }
    }
}

async fn start(program: &'static str, number: u64, mode: Mode, database: &Database, booking: &BookingSystem, folder: &Path) -> Process {
    let database_link = match database.engine {
        Engine::Postgres => Some(Proxy::to(database.address()).await),
        Engine::Sqlite => None,
    };
    let booking_link = Proxy::to(booking.address()).await;
    let mut settings = settings::of_processes(mode, booking_link.port());
    settings.insert("DATABASE_URL".into(), database.url(database_link.as_ref().map(Proxy::port)));
    let port = (program == "api").then(free_port);
    if let Some(port) = port {
        settings.insert("LISTEN".into(), format!("127.0.0.1:{port}"));
        // One of them has the jobs inside as well.
        settings.insert("SCHEDULER".into(), if number == 1 { "embedded" } else { "off" }.into());
    }
    Process::start(Parts { name: format!("{program}-{number}"), program, settings, port, database_link, booking_link }, folder)
}

/// A process that could not start, because just then the database was away, is started again, as a supervisor does.
async fn keep_alive(world: Arc<World>) {
    loop {
        for process in &world.processes {
            if let Some(taken) = process.take()
                && taken.has_ended()
            {
                world.ledger.count("faults", "(a start that failed)");
                taken.start_again();
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
