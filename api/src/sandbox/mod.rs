//! The sandbox: a booking system to try the API out with, an HTTP server of its own that misbehaves on demand.

mod booking;
mod document;
mod ledger;
mod misbehaviour;
mod page;
mod routes;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use poem::{Endpoint, Response};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::listener::{self, Limits};
use ledger::Ledger;

/// Short: what still runs at a stop is answers that were asked to be slow or never to come.
const GRACE: Duration = Duration::from_secs(1);

/// Where the sandbox keeps its bookings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// In this file, read and written at every call, so that processes which share it agree and a restart forgets nothing.
    File(PathBuf),
    /// In this process only.
    Memory,
}

/// The storage that belongs to a database: the file `NAME.sandbox.jsonl` beside an SQLite file, memory for any other.
pub fn file_beside(database_url: &str) -> Storage {
    let Some(rest) = database_url.strip_prefix("sqlite:") else { return Storage::Memory };
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    if path.is_empty() || path == ":memory:" || query.split('&').any(|parameter| parameter == "mode=memory") {
        return Storage::Memory;
    }
    Storage::File(PathBuf::from(&*path).with_extension("sandbox.jsonl"))
}

/// The booking system as an endpoint. Every error is JSON.
///
/// `DROP` cuts the connection, and needs the listener of this crate for it.
pub fn endpoint(storage: Storage) -> impl Endpoint<Output = Response> + 'static {
    routes::endpoint(Arc::new(Ledger::new(storage)), false)
}

/// Serves the sandbox on `listener` until `shutdown`.
///
/// # Errors
///
/// The file of bookings cannot be opened or read.
pub async fn serve(listener: TcpListener, storage: Storage, shutdown: CancellationToken) -> io::Result<()> {
    let ledger = Arc::new(Ledger::new(storage));
    // Asked once before the first caller does, so that an unusable file stops the start and not the first booking.
    routes::on_ledger(&ledger, |ledger| ledger.newest(1).map(drop)).await?;
    let loopback_only = listener.local_addr()?.ip().is_loopback();
    listener::serve(listener, routes::endpoint(ledger, loopback_only), Limits::default(), shutdown, GRACE).await;
    Ok(())
}

#[cfg(test)]
mod tests;
