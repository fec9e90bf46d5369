//! What every process does alike: its log, and its name.

use std::io::IsTerminal;

use migration::terminal::printable;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{self, Writer};

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
        .fmt_fields(format::debug_fn(write_field).delimited(" "))
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

/// `name=value`, the message without its name. What comes from elsewhere stays within its line.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn std::fmt::Debug) -> std::fmt::Result {
    let text = format!("{value:?}");
    match field.name() {
        "message" => write!(writer, "{}", printable(&text)),
        name => write!(writer, "{name}={}", printable(&text)),
    }
}

/// Names this process in the database and in logs: process id and a random part.
#[must_use]
pub fn worker_id() -> String {
    format!("{}-{:08x}", std::process::id(), rand::random::<u32>())
}
