//! Debian's PgBouncer before the PostgreSQL server of the run.

use super::postgres::Programs;
use super::service::free_port;
use super::wait::eventually;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Where systems put it; the first is Debian's, which is in nobody's PATH but root's.
const PROGRAMS: [&str; 3] = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"];

/// One pooler; it is gone when this is dropped.
pub struct PgBouncer {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl PgBouncer {
    /// Before the server at `postgres://user@host:port`; with the settings of `docs/operations.md`, and so many sessions of each database.
    pub async fn start(server: &str, pool_mode: &str, sessions: usize) -> Self {
        let (user, address) = server.trim_start_matches("postgres://").rsplit_once('@').expect("user@host:port");
        let user = user.split(':').next().unwrap_or_default();
        let (host, server_port) = address.rsplit_once(':').unwrap_or((address, "5432"));
        let program = PROGRAMS.iter().map(Path::new).find(|path| path.exists());
        let program = program.expect("tests of a pooler need PgBouncer (Debian: apt-get install pgbouncer)");
        let programs = Programs::find().expect("PostgreSQL's server programs");
        let folder = programs.folder_of_their_own("reservation-pgbouncer-");
        let (file, port) = (folder.path().join("pgbouncer.ini"), free_port());
        let settings = format!(
            "[databases]\n* = host={host} port={server_port} user={user}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = {pool_mode}\ndefault_pool_size = {sessions}\nmax_client_conn = 500\nlogfile = {log}\n",
            log = folder.path().join("pgbouncer.log").display()
        );
        std::fs::write(&file, settings).expect("a file of settings");
        let mut command = programs.command_at(program);
        command.arg(&file).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("PgBouncer starts");
        eventually("the pooler takes connections", async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()).await;
        Self { child, port, _folder: folder }
    }

    /// The address of that database through the pooler.
    pub fn url(&self, database: &str, parameters: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable{parameters}", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // `runuser` passes this on, which it cannot do with a signal that kills it.
        let _ = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.child.id())]).status();
        let _ = self.child.wait();
    }
}
