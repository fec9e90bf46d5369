//! The PostgreSQL server of a run: its own, so that it can be stopped while callers go on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::clock::Clock;
use super::ports::free_port;
use super::postgres::{Programs, Server};

/// For so long it stays up after a restart, or there would be little that the next one could lose.
const UP: Duration = Duration::from_secs(1);
/// Four worlds of at most five processes with four connections each, and ours.
const CONNECTIONS: u16 = 300;

pub struct OwnServer {
    server: Server,
    /// What it takes for the time, where that can be changed.
    pub clock: Option<Clock>,
    taken: AtomicBool,
    _folder: TempDir,
}

impl OwnServer {
    /// None without the server programs. Started, with a clock of its own where one is asked for.
    pub async fn start(faketime: Option<&Path>) -> Option<Self> {
        let programs = Programs::find()?;
        let folder = programs.folder_of_their_own("reservation-chaos-postgres-");
        let mut server = Server::new(&programs, folder.path(), "server", free_port(), CONNECTIONS);
        server.init().await;
        let clock = faketime.map(|library| Clock::new(library, folder.path()));
        server.wrapper = clock.as_ref().map(|clock| clock.wrapper_of(&programs.path_of("postgres"), folder.path()));
        server.start().await;
        Some(Self { server, clock, taken: AtomicBool::default(), _folder: folder })
    }

    /// As `TEST_DATABASE_URL` would name it.
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}", self.server.address())
    }

    /// In good order, so that nothing of it is left in this machine's memory.
    pub async fn end(&self) {
        self.server.stop("fast").await;
    }

    /// Stopped (`Server::stop` has the modes), away for that long, and started again. False where somebody else has it in hand.
    pub async fn restart(&self, mode: &str, length: Duration) -> bool {
        if self.taken.swap(true, Ordering::SeqCst) {
            return false;
        }
        self.server.stop(mode).await;
        tokio::time::sleep(length).await;
        self.server.start().await;
        tokio::time::sleep(UP).await;
        self.taken.store(false, Ordering::SeqCst);
        true
    }
}
