//! One test: a database, whatever processes it starts, and the verdict at its end.

use super::Engine;
use super::database::Database;
use super::ledger::Ledger;
use super::service::{Service, Setup};
use super::upstream::Upstream;
use super::wait::eventually;
use futures_util::FutureExt;
use serde_json::{Value, json};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// What no test may take, however slow the machine.
const LIMIT: Duration = Duration::from_secs(600);

pub struct Case {
    pub engine: Engine,
    pub database: Database,
    pub ledger: Arc<Ledger>,
    folder: TempDir,
    upstreams: Mutex<Vec<Upstream>>,
    items: AtomicU32,
}

/// Runs one test function on one engine.
pub fn run(engine: Engine, name: &str, test: impl AsyncFnOnce(&Case)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let case = Case::new(engine).await;
        let outcome = AssertUnwindSafe(async {
            tokio::time::timeout(LIMIT, test(&case)).await.unwrap_or_else(|_| panic!("{name} takes longer than {LIMIT:?}"));
            case.ledger.judge(&case.upstreams.lock().unwrap());
        })
        .catch_unwind()
        .await;
        if outcome.is_err() {
            case.show_logs();
        }
        case.database.remove().await;
        case.keep_logs(name);
        if let Err(failure) = outcome {
            std::panic::resume_unwind(failure);
        }
    });
    // What is still being written to a connection nobody reads must not hold up the end.
    runtime.shutdown_background();
}

impl Case {
    pub async fn new(engine: Engine) -> Self {
        let folder = TempDir::with_prefix("reservation-test-").expect("a folder");
        let database = Database::create(engine, folder.path()).await;
        Self { engine, database, ledger: Arc::default(), folder, upstreams: Mutex::default(), items: AtomicU32::new(0) }
    }

    /// What must hold after every test, for a case that is not the test's own.
    pub async fn judge_and_remove(self) {
        self.ledger.judge(&self.upstreams.lock().unwrap());
        self.database.remove().await;
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A booking system that deduplicates by key and can be asked for a reference.
    pub async fn upstream(&self) -> Upstream {
        self.upstream_that(true, true).await
    }

    pub async fn upstream_that(&self, deduplicates: bool, looks_up: bool) -> Upstream {
        let upstream = Upstream::start(deduplicates, looks_up).await;
        self.upstreams.lock().unwrap().push(upstream.clone());
        upstream
    }

    /// The server, told the truth about its booking system.
    pub fn api(&self, upstream: &Upstream) -> Setup {
        self.process("api", upstream)
    }

    /// The jobs as a process of their own.
    pub fn jobs(&self, upstream: &Upstream) -> Setup {
        self.process("jobs", upstream)
    }

    fn process(&self, program: &'static str, upstream: &Upstream) -> Setup {
        self.program(program)
            .set("BOOKING_URL", upstream.url())
            .set("BOOKING_IDEMPOTENT", upstream.deduplicates())
            .set("BOOKING_LOOKUP", upstream.looks_up())
    }

    /// Any of our programs, with a database and without a booking system.
    pub fn program(&self, program: &'static str) -> Setup {
        Setup::new(program, self.folder(), &self.ledger).set("DATABASE_URL", self.database.url())
    }

    /// A booking system and a server with the usual settings.
    pub async fn started(&self) -> (Upstream, Service) {
        let upstream = self.upstream().await;
        let service = self.api(&upstream).start().await;
        (upstream, service)
    }

    pub fn key(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    /// A valid body for an item nobody else books.
    pub fn body(&self) -> Value {
        let number = self.items.fetch_add(1, Ordering::Relaxed);
        json!({"item_code": format!("ITEM-{number}"), "quantity": 1, "reserved_by": "hanako"})
    }

    /// Every booking there is a confirmed reservation here, or becomes one.
    pub async fn expect_no_orphans(&self, upstream: &Upstream, service: &Service) {
        for booking in upstream.bookings().into_iter().filter(|b| !b.cancelled) {
            eventually("a booking is a confirmed reservation", async || {
                let reply = service.reservation(&booking.reference).await;
                let reservation = (reply.status == 200).then(|| reply.json())?;
                (reservation["status"] == "confirmed" && reservation["booking_id"] == booking.booking_id.as_str()).then_some(())
            })
            .await;
        }
    }

    fn show_logs(&self) {
        for entry in std::fs::read_dir(self.folder()).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|e| e == "log" || e == "out") {
                let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
                let from = text.char_indices().rev().nth(4000).map_or(0, |(at, _)| at);
                eprintln!("--- {} ends with:\n{}", entry.file_name().display(), &text[from..]);
            }
        }
    }

    /// `KEEP_LOGS=1` leaves the folder behind.
    fn keep_logs(self, name: &str) {
        if std::env::var_os("KEEP_LOGS").is_some() {
            eprintln!("{name}: {}", self.folder.keep().display());
        }
    }
}

/// The body with some members changed; null removes one.
pub fn changed(body: &Value, change: Value) -> Value {
    let mut changed = body.clone();
    for (name, value) in change.as_object().expect("an object") {
        match value {
            Value::Null => drop(changed.as_object_mut().expect("an object").remove(name)),
            value => changed[name] = value.clone(),
        }
    }
    changed
}
