//! A process of ours: started for real, watched, signalled, killed.

use super::disk;
use super::document::DOCUMENT;
use super::ledger::Ledger;
use super::wait::{PATIENCE, eventually};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Short time-outs: what takes half a minute in production takes a second here. A lease is long, so that a machine that stands still for
/// a while is not taken for a dead worker; where it has to lapse, the test says how soon.
const SETTINGS: &[(&str, &str)] = &[
    ("LEASE", "60s"),
    ("BOOKING_TIMEOUT", "1s"),
    ("BOOKING_CONNECT_TIMEOUT", "300ms"),
    ("ABSENT_AFTER", "500ms"),
    ("KEY_RETENTION", "1h"),
    ("RELEASE_SCHEDULE", "* * * * * *"),
    ("CLEANUP_SCHEDULE", "* * * * * *"),
    ("SHUTDOWN_GRACE", "5s"),
];

/// A port nobody listens on, below those the system gives to outgoing connections; never the same one twice.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 97) as u16 * 120;
    for _ in 0..12_000 {
        let port = 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

/// The path of one of our binaries. Cargo names only those of this crate; the others lie beside it.
pub fn binary(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_api")).with_file_name(name);
    assert!(path.exists(), "{} is missing: run 'cargo build --workspace' first (make test does)", path.display());
    path
}

/// A process about to be started.
pub struct Setup {
    pub(super) program: &'static str,
    pub(super) arguments: Vec<String>,
    /// A line of shell that becomes the program.
    pub(super) shell: Option<String>,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) folder: PathBuf,
    pub(super) ledger: Arc<Ledger>,
}

impl Setup {
    pub(super) fn new(program: &'static str, folder: &Path, ledger: &Arc<Ledger>) -> Self {
        let settings = SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { program, arguments: Vec::new(), shell: None, settings, folder: folder.to_owned(), ledger: Arc::clone(ledger) }
    }

    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.insert(name.to_owned(), value.to_string());
        self
    }

    pub fn unset(mut self, name: &str) -> Self {
        self.settings.remove(name);
        self
    }

    pub fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.arguments = arguments.into_iter().map(str::to_owned).collect();
        self
    }

    /// This line of shell first; it ends with `exec "$@"`.
    pub fn through(mut self, shell: &str) -> Self {
        self.shell = Some(shell.to_owned());
        self
    }

    /// Starts the server and waits until it is ready.
    pub async fn start(self) -> Service {
        let service = self.spawn();
        service.is_ready().await;
        if DOCUMENT.get().is_none() {
            let document = service.get("/openapi.json").await;
            let _ = DOCUMENT.set(document.json());
        }
        service
    }

    /// Starts the process and does not wait for anything.
    pub fn spawn(mut self) -> Service {
        let port = free_port();
        if self.program == "api" && !self.settings.contains_key("LISTEN") {
            self.settings.insert("LISTEN".to_owned(), format!("127.0.0.1:{port}"));
        }
        let port = self.settings.get("LISTEN").and_then(|l| l.rsplit_once(':')?.1.parse().ok()).unwrap_or(port);
        let log = self.folder.join(format!("{}-{port}.log", self.program));
        let child = Mutex::new(run(&self, &log));
        Service(Arc::new(Running { setup: self, port, log, child }))
    }

    /// Runs the process to its end.
    pub async fn run(self) -> Ended {
        let service = self.spawn();
        let status = service.ends().await;
        let output = std::fs::read_to_string(service.0.log.with_extension("out")).unwrap_or_default();
        Ended { status, output, complaint: service.log() }
    }
}

/// What became of a process.
#[derive(Debug)]
pub struct Ended {
    /// `None`: ended by a signal.
    pub status: Option<i32>,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub complaint: String,
}

impl Ended {
    #[track_caller]
    pub fn expect_success(&self) -> &Self {
        assert_eq!(self.status, Some(0), "{self:?}");
        self
    }

    /// It refused, and says so the way a person can use it.
    #[track_caller]
    pub fn expect_refusal(&self) -> &Self {
        assert!(self.status.is_some_and(|status| status > 0), "{self:?}");
        let complaint = self.complaint.trim();
        assert!(!complaint.is_empty() && !complaint.contains("panicked") && complaint.lines().count() <= 4, "{self:?}");
        self
    }
}

/// A running process. Clones are the same one; the last one dropped kills it.
#[derive(Clone)]
pub struct Service(Arc<Running>);

struct Running {
    setup: Setup,
    port: u16,
    log: PathBuf,
    child: Mutex<Child>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Service {
    pub fn port(&self) -> u16 {
        self.0.port
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.0.log).unwrap_or_default()
    }

    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.0.setup.ledger
    }

    /// The tokens the process was started with, each with its account; none where it runs open.
    pub fn tokens(&self) -> Vec<(String, String)> {
        let tokens = self.0.setup.settings.get("API_TOKENS").map_or("", String::as_str);
        tokens.split(',').filter_map(|pair| pair.split_once(':')).map(|(account, token)| (token.to_owned(), account.to_owned())).collect()
    }

    pub async fn is_ready(&self) {
        eventually("the service is ready", async || {
            // A panic that holds the lock would be a second one where the process is dropped, and end all tests.
            let ended = self.0.child.lock().unwrap().try_wait().unwrap();
            if let Some(status) = ended {
                panic!("the service ended ({status}) instead of becoming ready: {}", self.log());
            }
            let reply = self.get("/health/ready").unwatched().attempt().await;
            reply.is_ok_and(|reply| reply.status == 200).then_some(())
        })
        .await;
    }

    /// Stops existing at once, with nothing said and nothing written.
    pub fn kill_9(&self) {
        let mut child = self.0.child.lock().unwrap();
        child.kill().expect("the process is killed");
        child.wait().expect("the process is gone");
    }

    /// Starts it again, with the same settings on the same port.
    pub async fn start_again(&self) {
        *self.0.child.lock().unwrap() = run(&self.0.setup, &self.0.log);
        self.is_ready().await;
    }

    pub fn terminate(&self) {
        self.signal("TERM");
    }

    pub fn pause(&self) {
        self.signal("STOP");
    }

    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let id = self.0.child.lock().unwrap().id();
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).status().expect("a shell");
        assert!(sent.success(), "no process to send {name} to: {}", self.log());
    }

    pub fn disk_is_full(&self, full: bool) {
        let id = self.0.child.lock().unwrap().id();
        assert!(disk::is_full(id, full), "the limit is not set: {}", self.log());
    }

    /// Waits for its end; the exit status, `None` where a signal ended it.
    pub async fn ends(&self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.child.lock().unwrap().try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "the process does not end: {}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The most memory it ever held; `None` where the system does not tell.
    pub fn peak_memory_kib(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.child.lock().unwrap().id())).ok()?;
        status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()
    }

    pub fn has_ended(&self) -> bool {
        self.0.child.lock().unwrap().try_wait().unwrap().is_some()
    }
}

fn run(setup: &Setup, log: &Path) -> Child {
    let append = |path: &Path| File::options().create(true).append(true).open(path).expect("a file to write to");
    let program = binary(setup.program);
    let mut command = match &setup.shell {
        None => Command::new(program),
        Some(line) => {
            let mut command = Command::new("sh");
            command.args(["-c", line, "sh"]).arg(program);
            command
        }
    };
    command.args(&setup.arguments).current_dir(&setup.folder).env_clear();
    for name in ["PATH", "HOME", "LLVM_PROFILE_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(&setup.settings).stdin(Stdio::null()).stdout(append(&log.with_extension("out"))).stderr(append(log));
    command.spawn().unwrap_or_else(|e| panic!("{} does not start: {e}", setup.program))
}
