//! A PostgreSQL server that can be stopped and started, as the shared one of a run cannot.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The server programs, and the user they run as: they refuse root.
#[derive(Clone)]
pub struct Programs {
    folder: PathBuf,
    owner: Option<String>,
}

impl Programs {
    /// The newest on this machine, found as `.ci/with-postgres` finds them: Debian keeps them out of PATH.
    pub fn find() -> Option<Self> {
        let said = |command: &str| {
            let output = Command::new("sh").args(["-c", command]).output().expect("a shell");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        let newest = said("find /usr/lib/postgresql/*/bin -name initdb 2>/dev/null | sort -V | tail -n 1");
        let initdb = if newest.is_empty() { said("readlink -f \"$(command -v initdb)\" 2>/dev/null") } else { newest };
        let folder = Path::new(&initdb).parent().filter(|_| !initdb.is_empty())?.to_owned();
        let owner =
            (said("id -u") == "0").then(|| if said("id -u postgres 2>/dev/null").is_empty() { "nobody" } else { "postgres" }.into());
        Some(Self { folder, owner })
    }

    /// A folder that their user may write to.
    pub fn folder_of_their_own(&self, prefix: &str) -> TempDir {
        let folder = TempDir::with_prefix(prefix).expect("a folder");
        if let Some(owner) = &self.owner {
            let status = Command::new("chown").arg(owner).arg(folder.path()).status().expect("chown runs");
            assert!(status.success(), "the folder cannot be given to {owner}");
        }
        folder
    }

    pub fn path_of(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    pub fn command(&self, program: &str) -> Command {
        self.command_at(&self.path_of(program))
    }

    /// Any program, as their user.
    pub fn command_at(&self, path: &Path) -> Command {
        match &self.owner {
            None => Command::new(path),
            Some(owner) => {
                let mut command = Command::new("runuser");
                command.args(["-u", owner, "--"]).arg(path);
                command
            }
        }
    }
}

/// One server; it is gone when this is dropped.
pub struct Server {
    programs: Programs,
    folder: PathBuf,
    port: u16,
    /// At most so many at once.
    connections: u16,
    /// What runs instead of `postgres`, and becomes it.
    pub wrapper: Option<PathBuf>,
}

impl Server {
    /// In that folder, with that name. Nothing is made or started yet.
    pub fn new(programs: &Programs, folder: &Path, name: &str, port: u16, connections: u16) -> Self {
        Self { programs: programs.clone(), folder: folder.join(name), port, connections, wrapper: None }
    }

    /// Makes it, empty.
    pub async fn init(&self) {
        self.run("initdb", &["-D", &self.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]).await;
    }

    pub fn data(&self) -> String {
        self.folder.display().to_string()
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Waits until it takes connections.
    pub async fn start(&self) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections={} -c fsync=off -c full_page_writes=off",
            self.port, self.connections
        );
        let (data, log) = (self.data(), self.log());
        let mut arguments = vec!["-D", &data, "-l", &log, "-o", &options, "-w", "-t", "60"];
        let wrapper = self.wrapper.as_ref().map(|path| path.display().to_string());
        arguments.extend(wrapper.iter().flat_map(|path| ["-p", path]));
        arguments.push("start");
        self.run("pg_ctl", &arguments).await;
    }

    /// `fast`: sessions are ended and all is written; `immediate`: no last words, as in a crash, and it recovers at its next start.
    pub async fn stop(&self, mode: &str) {
        self.run("pg_ctl", &["-D", &self.data(), "-m", mode, "-w", "stop"]).await;
    }

    /// Runs a server program to its end.
    pub async fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = self.programs.command(program);
        // The server outlives `pg_ctl`, and must not keep a pipe of ours open.
        let folder = self.folder.parent().expect("a folder of our own");
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = tokio::task::spawn_blocking(move || command.status()).await.expect("no panic").expect("a program");
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        assert!(status.success(), "{program} {arguments:?}: {status}\n{log}");
    }

    fn log(&self) -> String {
        format!("{}.log", self.data())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut command = self.programs.command("pg_ctl");
        let stop = command.args(["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
        // One that is gone already refuses.
        let _ = stop.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
