//! One world: a database, a booking system, several processes of ours, callers, and faults; then calm, and the verdict.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::booking::{BookingSystem, Mode};
use super::clock::Clock;
use super::common::Common;
use super::database::{Database, Engine};
use super::dice::Dice;
use super::faults::{self, Fault};
use super::ledger::{Intent, Ledger};
use super::ports::free_port;
use super::process::{Parts, Process};
use super::proxy::Proxy;
use super::{caller, oracle, settings};

/// How long callers and jobs may take to settle everything once nothing goes wrong any more. Pauses between looks grow with every look
/// that settled nothing, so it is a multiple of the storm; and a slow machine must meet it.
const PATIENCE: Duration = Duration::from_secs(150);
const CALLERS: u64 = 16;

pub struct World {
    pub seed: u64,
    pub booking: BookingSystem,
    pub database: Arc<Database>,
    pub processes: Vec<Process>,
    pub ledger: Arc<Ledger>,
    pub common: Arc<Common>,
    /// One fault of it at a time.
    disk: tokio::sync::Mutex<()>,
    mode: Mode,
    calm_since: OnceLock<Instant>,
    settled_after: OnceLock<Duration>,
    longest_stall_ms: AtomicU64,
    folder: TempDir,
}

impl World {
    /// Everything is started; nothing goes wrong yet.
    pub async fn create(
        engine: Engine,
        mode: Mode,
        seed: u64,
        ledger: &Arc<Ledger>,
        common: &Arc<Common>,
        faketime: Option<&Path>,
    ) -> Self {
        let folder = TempDir::with_prefix("reservation-chaos-").expect("a folder");
        let (ledger, common) = (Arc::clone(ledger), Arc::clone(common));
        let database = Arc::new(Database::create(engine, folder.path(), common.server.as_deref(), faketime).await);
        let booking = BookingSystem::new(mode, seed, Arc::clone(&ledger), Arc::clone(&database));
        let mut dice = Dice::of(seed, "world");
        let (servers, jobs) = (dice.between(2, 3), dice.between(1, 2));
        let mut processes = Vec::new();
        for (program, count) in [("api", servers), ("jobs", jobs)] {
            for number in 1..=count {
                processes.push(start(program, number, mode, &database, &booking, folder.path()).await);
            }
        }
        let (calm_since, settled_after, longest_stall_ms) = (OnceLock::new(), OnceLock::new(), AtomicU64::default());
        let disk = tokio::sync::Mutex::default();
        Self { seed, booking, database, processes, ledger, common, disk, mode, calm_since, settled_after, longest_stall_ms, folder }
    }

    /// The storm, the calm after it, the verdict. All that it starts has ended when it returns.
    pub async fn run(self: &Arc<Self>, storm: Duration, kinds: &[(u64, &'static str, Fault)]) {
        tokio::select! {
            () = self.storm_and_judge(storm, kinds) => {}
            () = self.keep_alive() => {}
            () = self.ledger.troubles.watch_the_machine(|late| {
                self.longest_stall_ms.fetch_max(u64::try_from(late.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
            }) => {}
        }
        let _ = self.settled_after.set(self.ledger.began.elapsed());
    }

    async fn storm_and_judge(self: &Arc<Self>, storm: Duration, kinds: &[(u64, &'static str, Fault)]) {
        if let Some(still) = self.who_is_not_ready(PATIENCE).await {
            panic!("there is no world to storm in: {still}");
        }
        self.common.together().await;
        let callers = futures_util::future::join_all((0..CALLERS).map(|n| {
            let world = Arc::clone(self);
            tokio::spawn(async move { caller::live(&world, &n.to_string()).await })
        }));
        let clock = async {
            tokio::select! {
                () = tokio::time::sleep(storm) => {}
                () = self.common.enough.comes() => {}
            }
            let _ = self.calm_since.set(Instant::now());
            self.booking.calm_down();
        };
        tokio::join!(clock, faults::rage(self, kinds));
        self.common.together().await;
        for ended in callers.await {
            ended.expect("a caller goes on to its end");
        }
        if let Some(still) = self.who_is_not_ready(self.time_left()).await {
            self.ledger.violation(format!("nothing goes wrong any more, but {still}"));
        }
        oracle::judge(self).await;
    }

    /// Of the worlds whose processes it befalls.
    pub fn ledgers_of(&self, fault: Fault) -> &[Arc<Ledger>] {
        if fault.befalls_all_worlds(self.database.engine) { &self.common.ledgers } else { std::slice::from_ref(&self.ledger) }
    }

    /// The database's, where it can be changed.
    pub fn clock(&self) -> Option<&Clock> {
        self.database.clock.as_ref().or_else(|| self.common.server.as_ref()?.clock.as_ref())
    }

    /// Whoever gets it may fill it.
    pub fn take_disk(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.disk.try_lock().ok()
    }

    /// Whether nothing goes wrong any more.
    pub fn is_calm(&self) -> bool {
        self.calm_since.get().is_some()
    }

    pub fn has_time(&self) -> bool {
        !self.time_left().is_zero()
    }

    fn time_left(&self) -> Duration {
        self.calm_since.get().map_or(PATIENCE, |since| PATIENCE.saturating_sub(since.elapsed()))
    }

    /// Where an unknown creation waits for an operator, of whom there is none here.
    pub fn only_a_person_can_tell(&self) -> bool {
        !self.mode.deduplicates && !self.mode.looks_up
    }

    /// Whether the booking system recognises a key for a while only.
    pub fn forgets(&self) -> bool {
        self.mode.forgets
    }

    /// Of the servers.
    pub fn ports(&self) -> Vec<u16> {
        self.servers().map(|(_, port)| port).collect()
    }

    /// Names and ports of the servers.
    pub fn servers(&self) -> impl Iterator<Item = (&str, u16)> {
        self.processes.iter().filter_map(|process| Some((process.name.as_str(), process.port?)))
    }

    /// Everything is stopped and removed. Where a promise was broken, or with `KEEP_LOGS=1`, the logs stay.
    pub async fn remove(&self) {
        self.processes.iter().for_each(Process::end);
        self.database.remove().await;
        if std::env::var_os("KEEP_LOGS").is_some() || !self.ledger.violations().is_empty() {
            let kept = std::env::temp_dir().join(format!("chaos-logs-{}-{}", std::process::id(), self.seed));
            if std::fs::rename(self.folder.path(), &kept).is_ok() {
                println!("  logs: {}", kept.display());
            }
        }
    }

    /// What happened, in a few lines.
    pub fn report(&self) -> String {
        let Mode { deduplicates, looks_up, forgets } = self.mode;
        let names: Vec<_> = self.processes.iter().map(|process| process.name.as_str()).collect();
        let counted = |what| format!("  {what}: {}", self.ledger.counted(what));
        let mut lines = vec![format!(
            "BOOKING_IDEMPOTENT={deduplicates}{} BOOKING_LOOKUP={looks_up}, processes {}, settled after {:.1} s, longest stall {} ms",
            if forgets { " (forgets)" } else { "" },
            names.join(" "),
            self.settled_after.get().map_or(f64::NAN, Duration::as_secs_f64),
            self.longest_stall_ms.load(Ordering::Relaxed),
        )];
        lines.extend(["faults", "beside them", "answers", "booking system", "at the end", "tried again"].map(counted));
        for violation in self.ledger.violations() {
            lines.push(format!("  VIOLATION {violation}"));
        }
        lines.join("\n")
    }

    /// Waits until every server is ready; who is not in that time, with its last words.
    async fn who_is_not_ready(&self, patience: Duration) -> Option<String> {
        let end = Instant::now() + patience;
        for process in &self.processes {
            let Some(port) = process.port else { continue };
            while !is_ready(port).await {
                if Instant::now() >= end {
                    return Some(format!("{} is not ready: {}", process.name, process.last_words()));
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        None
    }

    /// A process that could not start, because just then the database was away, is started again, as a supervisor does.
    async fn keep_alive(&self) {
        loop {
            for process in &self.processes {
                if let Some(taken) = process.take()
                    && taken.has_ended()
                {
                    self.ledger.count("beside them", "a start that failed");
                    taken.start_again();
                }
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
}

async fn is_ready(port: u16) -> bool {
    let ask = Intent { method: "GET", target: "/health/ready".into(), key: None, if_match: None, body: String::new() };
    let reply = tokio::time::timeout(Duration::from_secs(5), caller::exchange(port, &ask, "")).await;
    matches!(reply, Ok(Ok(reply)) if reply.status == 200)
}

async fn start(program: &'static str, number: u64, mode: Mode, database: &Database, booking: &BookingSystem, folder: &Path) -> Process {
    let name = format!("{program}-{number}");
    let database_link = match database.engine {
        Engine::Postgres => Some(Proxy::to(database.address()).await),
        Engine::Sqlite => None,
    };
    let booking_link = Proxy::to(booking.listen(&name).await).await;
    let mut settings = settings::of_processes(mode, booking_link.port());
    settings.insert("DATABASE_URL".into(), database.url(database_link.as_ref().map(Proxy::port)));
    if let Some(clock) = &database.clock {
        settings.extend(clock.environment().map(|(name, value)| (name.to_owned(), value)));
    }
    let port = (program == "api").then(free_port);
    if let Some(port) = port {
        settings.insert("LISTEN".into(), format!("127.0.0.1:{port}"));
        settings.insert("SCHEDULER".into(), if name == settings::WITH_JOBS_INSIDE { "embedded" } else { "off" }.into());
    }
    Process::start(Parts { name, program, settings, port, database_link, booking_link }, folder)
}
