//! The PostgreSQL server of a run: its own, so that it can be stopped while callers go on.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::sync::Mutex;

use super::clock::Clock;
use super::ports::free_port;
use super::postgres::{Programs, Server};

/// For so long it stays up at least, or there would be little that the next restart could lose.
const UP: Duration = Duration::from_secs(1);
/// Four worlds of at most five processes with four connections each, and ours.
const CONNECTIONS: u16 = 300;

pub struct OwnServer {
    server: Server,
    /// What it takes for the time, where that can be changed.
    pub clock: Option<Clock>,
    /// When it was started last; whoever has it in hand locks it.
    up_since: Mutex<Instant>,
    _guard: Child,
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
        let guard = guard(&programs, &server.data(), folder.path());
        server.start().await;
        Some(Self { server, clock, up_since: Mutex::new(Instant::now()), _guard: guard, _folder: folder })
    }

    /// As `TEST_DATABASE_URL` would name it.
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}", self.server.address())
    }

    /// In good order, so that nothing of it is left in this machine's memory.
    pub async fn end(&self) {
        self.server.stop("fast").await;
    }

    /// Stopped (`Server::stop` has the modes), away for that long, and started again. False where somebody else has it in hand,
    /// or had just now.
    pub async fn restart(&self, mode: &str, length: Duration) -> bool {
        let Ok(mut up_since) = self.up_since.try_lock() else { return false };
        if up_since.elapsed() < UP {
            return false;
        }
        self.server.stop(mode).await;
        tokio::time::sleep(length).await;
        self.server.start().await;
        *up_since = Instant::now();
        true
    }
}

/// Stops the server and removes its folder once this program is gone, however that came about: a long run is often interrupted, and a
/// server belongs to no terminal. It notices by the end of its input.
fn guard(programs: &Programs, data: &str, folder: &Path) -> Child {
    let mut stop = programs.command("pg_ctl");
    stop.args(["-D", data, "-m", "immediate", "-w", "stop"]);
    let line = "trap '' INT TERM HUP; read -r _; \"$@\"; rm -rf \"$0\"";
    let mut guard = Command::new("sh");
    guard.args(["-c", line]).arg(folder).arg(stop.get_program()).args(stop.get_args()).current_dir("/");
    guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a shell")
}
