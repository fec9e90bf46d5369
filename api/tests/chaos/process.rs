//! A process of ours that is started, killed, paused and started again.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::disk;
use super::proxy::Proxy;

/// How it is run.
pub struct Process {
    pub name: String,
    program: PathBuf,
    settings: BTreeMap<String, String>,
    folder: PathBuf,
    child: Mutex<Child>,
    /// Where `api` listens.
    pub port: Option<u16>,
    /// On PostgreSQL.
    pub database_link: Option<Proxy>,
    pub booking_link: Proxy,
    /// Somebody is killing, pausing or starting it.
    taken: AtomicBool,
    disk_is_full: AtomicBool,
}

/// What a process is made of.
pub struct Parts {
    pub name: String,
    pub program: &'static str,
    pub settings: BTreeMap<String, String>,
    pub port: Option<u16>,
    pub database_link: Option<Proxy>,
    pub booking_link: Proxy,
}

impl Process {
    pub fn start(parts: Parts, folder: &Path) -> Self {
        let Parts { name, program, settings, port, database_link, booking_link } = parts;
        // Cargo names only the binaries of this crate; the others lie beside them.
        let program = Path::new(env!("CARGO_BIN_EXE_api")).with_file_name(program);
        assert!(program.exists(), "{} is missing: run 'cargo build --workspace' first (make does)", program.display());
        let child = Mutex::new(run(&program, &settings, folder, &name));
        let folder = folder.to_owned();
        Self {
            name,
            program,
            settings,
            folder,
            child,
            port,
            database_link,
            booking_link,
            taken: AtomicBool::default(),
            disk_is_full: AtomicBool::default(),
        }
    }

    /// Whoever gets it may stop and start it; nobody else does until it is given back.
    pub fn take(&self) -> Option<Taken<'_>> {
        (!self.taken.swap(true, Ordering::SeqCst)).then(|| Taken(self))
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join(format!("{}.log", self.name))).unwrap_or_default()
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    /// For good, with its wires: a port that somebody still listens on is lost for the worlds to come.
    pub fn end(&self) {
        self.kill();
        self.booking_link.close();
        if let Some(link) = &self.database_link {
            link.close();
        }
    }

    /// Also for whoever is started in its place meanwhile.
    pub fn disk_is_full(&self, full: bool) {
        let child = self.child.lock().unwrap();
        self.disk_is_full.store(full, Ordering::SeqCst);
        // One that has ended has no files.
        disk::is_full(child.id(), full);
    }

    fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
        Clock::forget(child.id());
    }
}

/// A process that is in one's hands.
pub struct Taken<'a>(&'a Process);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::SeqCst);
    }
}

impl Taken<'_> {
    /// Stops existing at once, with nothing said and nothing written.
    pub fn kill(&self) {
        self.0.kill();
    }

    pub fn start_again(&self) {
        let process = self.0;
        let mut child = process.child.lock().unwrap();
        Clock::forget(child.id());
        *child = run(&process.program, &process.settings, &process.folder, &process.name);
        if process.disk_is_full.load(Ordering::SeqCst) {
            disk::is_full(child.id(), true);
        }
    }

    pub fn has_ended(&self) -> bool {
        self.0.child.lock().unwrap().try_wait().unwrap().is_some()
    }

    /// STOP, CONT, TERM. One that has ended meanwhile gets nothing.
    pub fn signal(&self, name: &str) {
        let mut child = self.0.child.lock().unwrap();
        if child.try_wait().unwrap().is_none() {
            let _ = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).stderr(Stdio::null()).status();
        }
    }

    /// Asks it to end; kills it where it does not.
    pub async fn terminate(&self, patience: Duration) {
        self.signal("TERM");
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if self.has_ended() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(program: &Path, settings: &BTreeMap<String, String>, folder: &Path, name: &str) -> Child {
    let log = || File::options().create(true).append(true).open(folder.join(format!("{name}.log"))).expect("a file to write to");
    let mut command = Command::new(program);
    command.current_dir(folder).env_clear();
    for name in ["PATH", "HOME", "LLVM_PROFILE_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(settings).stdin(Stdio::null()).stdout(log()).stderr(log());
    command.spawn().unwrap_or_else(|e| panic!("{} does not start: {e}", program.display()))
}
