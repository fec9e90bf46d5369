//! A PostgreSQL of its own: a primary that can die, and a standby that follows it and takes over.
//!
//! The service reaches it through a wire that can be led to the other one, as a moved address does. What the standby is sent passes a wire
//! of its own, so that a test can keep it back.

use super::database::open;
use super::link::Link;
use super::service::free_port;
use super::wait::eventually;
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const NAME: &str = "reservations";

/// Whether a commit waits for the standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    Synchronous,
    Asynchronous,
}

pub struct Cluster {
    primary: Server,
    standby: Server,
    /// From the service to whoever is the primary.
    link: Link,
    /// From the primary to the standby.
    replication: Link,
    _folder: TempDir,
}

impl Cluster {
    pub async fn start(replication: Replication) -> Self {
        let folder = TempDir::with_prefix("reservation-cluster-").expect("a folder");
        let programs = Programs::find();
        if let Some(owner) = &programs.owner {
            let status = Command::new("chown").arg(owner).arg(folder.path()).status().expect("chown runs");
            assert!(status.success(), "the folder cannot be given to {owner}");
        }
        let primary = Server::new(&programs, folder.path(), "primary");
        primary.run("initdb", &["-D", &primary.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]).await;
        primary.start().await;
        primary.execute("postgres", &format!("CREATE DATABASE {NAME}")).await;

        let carried = Link::to(primary.address()).await;
        let standby = Server::new(&programs, folder.path(), "standby");
        let source =
            format!("host=127.0.0.1 port={} user=postgres application_name=standby sslmode=disable gssencmode=disable", carried.port());
        standby.run("pg_basebackup", &["-D", &standby.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", &source]).await;
        standby.start().await;
        let kind = match replication {
            Replication::Asynchronous => "async",
            Replication::Synchronous => {
                // The standby's own settings were copied before, so that it waits for nobody once it is the primary.
                primary.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'standby'").await;
                primary.execute("postgres", "SELECT pg_reload_conf()").await;
                "sync"
            }
        };
        let follows = format!("SELECT count(*) AS n FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '{kind}'");
        eventually("the standby follows", async || (primary.number(&follows).await == 1).then_some(())).await;
        let link = Link::to(primary.address()).await;
        Self { primary, standby, link, replication: carried, _folder: folder }
    }

    /// Where the service finds it, whichever server it is.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{NAME}?sslmode=disable", self.link.port())
    }

    /// From here on the standby gets nothing, until [`Self::replicate_again`].
    pub fn keep_back(&self) {
        self.replication.hold();
    }

    pub fn replicate_again(&self) {
        self.replication.let_go();
    }

    /// Waits until the standby has all that was committed until now.
    pub async fn standby_has_everything(&self) {
        let written = self.primary.number("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS n").await;
        let replayed = "SELECT coalesce(min(pg_wal_lsn_diff(replay_lsn, '0/0')), 0)::bigint AS n FROM pg_stat_replication";
        eventually("the standby has everything", async || (self.primary.number(replayed).await >= written).then_some(())).await;
    }

    /// The primary is gone at once: `kill -9` of its first process; the others follow when they notice.
    pub async fn primary_is_killed(&self) {
        let pid = std::fs::read_to_string(self.primary.folder.join("postmaster.pid")).expect("the server's process id");
        let pid = pid.lines().next().unwrap_or_default().trim().to_owned();
        let killed = Command::new("sh").args(["-c", &format!("kill -9 {pid}")]).status().expect("a shell");
        assert!(killed.success(), "no primary to kill");
        self.primary_is_gone().await;
    }

    /// `pg_ctl stop -m immediate`: no last words either.
    pub async fn primary_is_stopped(&self) {
        self.primary.run("pg_ctl", &["-D", &self.primary.data(), "-m", "immediate", "-w", "stop"]).await;
        self.primary_is_gone().await;
    }

    async fn primary_is_gone(&self) {
        let address = self.primary.address();
        eventually("nobody listens there any more", async || tokio::net::TcpStream::connect(&address).await.err()).await;
    }

    /// The standby becomes the primary, and the service's address leads to it.
    pub async fn standby_takes_over(&self) {
        self.standby.run("pg_ctl", &["-D", &self.standby.data(), "-w", "-t", "60", "promote"]).await;
        self.link.lead_to(self.standby.address());
    }
}

/// The server programs, and the user they run as: they refuse root.
#[derive(Clone)]
struct Programs {
    folder: PathBuf,
    owner: Option<String>,
}

impl Programs {
    /// The newest on this machine, found as `.ci/with-postgres` finds them: Debian keeps them out of PATH.
    fn find() -> Self {
        let said = |command: &str| {
            let output = Command::new("sh").args(["-c", command]).output().expect("a shell");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        let newest = said("find /usr/lib/postgresql/*/bin -name initdb 2>/dev/null | sort -V | tail -n 1");
        let initdb = if newest.is_empty() { said("readlink -f \"$(command -v initdb)\" 2>/dev/null") } else { newest };
        let folder = Path::new(&initdb).parent().filter(|_| !initdb.is_empty());
        let folder = folder.expect("tests of a failover need PostgreSQL's server programs (Debian: apt-get install postgresql)").to_owned();
        let owner =
            (said("id -u") == "0").then(|| if said("id -u postgres 2>/dev/null").is_empty() { "nobody" } else { "postgres" }.into());
        Self { folder, owner }
    }

    fn command(&self, program: &str) -> Command {
        let path = self.folder.join(program);
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

struct Server {
    programs: Programs,
    folder: PathBuf,
    port: u16,
}

impl Server {
    fn new(programs: &Programs, folder: &Path, name: &str) -> Self {
        Self { programs: programs.clone(), folder: folder.join(name), port: free_port() }
    }

    fn data(&self) -> String {
        self.folder.display().to_string()
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    async fn start(&self) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=60 -c fsync=off -c full_page_writes=off",
            self.port
        );
        let log = format!("{}.log", self.data());
        self.run("pg_ctl", &["-D", &self.data(), "-l", &log, "-o", &options, "-w", "-t", "60", "start"]).await;
    }

    /// Runs a server program to its end.
    async fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = self.programs.command(program);
        // The server outlives `pg_ctl`, and must not keep a pipe of ours open.
        let folder = self.folder.parent().expect("a folder of our own");
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = tokio::task::spawn_blocking(move || command.status()).await.expect("no panic").expect("a program");
        let log = std::fs::read_to_string(format!("{}.log", self.data())).unwrap_or_default();
        assert!(status.success(), "{program} {arguments:?}: {status}\n{log}");
    }

    async fn execute(&self, database: &str, sql: &str) {
        let connection = open(&format!("postgres://postgres@{}/{database}?sslmode=disable", self.address())).await;
        connection.execute_unprepared(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        connection.close().await.expect("the connection is closed");
    }

    /// The number `n` that this query gives.
    async fn number(&self, sql: &str) -> i64 {
        let connection = open(&format!("postgres://postgres@{}/postgres?sslmode=disable", self.address())).await;
        let row = connection.query_one_raw(Statement::from_string(DbBackend::Postgres, sql)).await.expect("an answer").expect("a row");
        connection.close().await.expect("the connection is closed");
        row.try_get("", "n").expect("a number")
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
