//! What every process does alike: its log, its name, and what signals do to it.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use tracing_subscriber::EnvFilter;

/// Logs to standard error; `RUST_LOG` filters (`info` and warnings of libraries by default).
///
/// # Errors
/// A sentence for the user: a filter that cannot be read would hide what he looks for.
pub fn start() -> Result<(), String> {
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(text).map_err(|error| format!("RUST_LOG: {error}"))?,
        Ok(_) | Err(_) => EnvFilter::new("warn,api=info,jobs=info,entity=info,migration=info"),
    };
    // A second start in one process (tests) keeps the first.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // A line that cannot be written, on a full disk, is lost; told of by a line more, it would take its task with it.
        .log_internal_errors(false)
        .try_init();
    bear_file_size_limits().map_err(|error| format!("signals cannot be received: {error}"))
}

/// What `ulimit -f` refuses is to fail like a write to a full disk, and not to end the process: for that its signal is received from now on.
fn bear_file_size_limits() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// A line on standard output. Where nobody takes it, on a full disk or a closed pipe, it is lost: no reason to die.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Names this process in the database and in logs: process id and a random part.
#[must_use]
pub fn worker_id() -> String {
    format!("{}-{:08x}", std::process::id(), rand::random::<u32>())
}

/// Returns at SIGTERM or SIGINT.
pub async fn stop_requested() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "signals cannot be received: this process ends only by force");
            std::future::pending::<()>().await;
        }
    }
}
