//! A PostgreSQL of its own: a primary that can die, and a standby that follows it and takes over.
//!
//! The service reaches it through a wire that can be led to the other one, as a moved address does. What the standby is sent passes a wire
//! of its own, so that a test can keep it back.

use super::database::open;
use super::link::Link;
use super::postgres::{Programs, Server};
use super::service::free_port;
use super::wait::eventually;
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const NAME: &str = "reservations";
/// Of each of the two.
const CONNECTIONS: u16 = 60;

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
        let programs = Programs::find();
        let programs = programs.expect("tests of a failover need PostgreSQL's server programs (Debian: apt-get install postgresql)");
        let folder = programs.folder_of_their_own("reservation-cluster-");
        let server = |name| Server::new(&programs, folder.path(), name, free_port(), CONNECTIONS);
        let primary = server("primary");
        primary.init().await;
        primary.start().await;
        primary.execute("postgres", &format!("CREATE DATABASE {NAME}")).await;

        let carried = Link::to(primary.address()).await;
        let standby = server("standby");
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

    /// The service's address leads to the standby, which only reads.
    pub fn address_leads_to_the_standby(&self) {
        self.link.lead_to(self.standby.address());
    }

    /// The service's address leads to the primary again, for who connects anew; sessions with the standby go on.
    pub fn address_leads_to_the_primary(&self) {
        self.link.lead_new_ones_to(self.primary.address());
    }

    /// The primary is gone at once: `kill -9` of its first process; the others follow when they notice.
    pub async fn primary_is_killed(&self) {
        let pid = std::fs::read_to_string(Path::new(&self.primary.data()).join("postmaster.pid")).expect("the server's process id");
        let pid = pid.lines().next().unwrap_or_default().trim().to_owned();
        let killed = Command::new("sh").args(["-c", &format!("kill -9 {pid}")]).status().expect("a shell");
        assert!(killed.success(), "no primary to kill");
        self.primary_is_gone().await;
    }

    /// `pg_ctl stop -m immediate`: no last words either.
    pub async fn primary_is_stopped(&self) {
        self.primary.stop("immediate").await;
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

impl Server {
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
