//! The accept loop: serves an endpoint over HTTP/1.1 and h2c, with every wait of a connection bounded.
//!
//! poem's own server has no time-out for heads, so partial heads and silent connections would stay open and hold a graceful
//! stop for its whole grace. Here each connection is one task with one deadline, and a stop waits for running requests only.

mod activity;

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use poem::Endpoint;
use poem::http::uri::Scheme;
use poem::http::{StatusCode, header};
use poem::web::{LocalAddr, RemoteAddr};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use activity::Activity;

/// How long a connection that was told to close and has nothing under way may still take.
const LINGER: Duration = Duration::from_millis(500);
/// Pause after an accept that failed for lack of something (file descriptors, memory), which only time gives back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const H2_PING_EVERY: Duration = Duration::from_secs(20);
const H2_PING_ANSWER_WITHIN: Duration = Duration::from_secs(10);
const H2_MAX_STREAMS: u32 = 256;
const H2_MAX_HEAD_BYTES: u32 = 64 * 1024;

/// What one listener allows.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Within this a whole request head has arrived; an HTTP/1.1 connection kept alive waits no longer for its next one.
    pub head_timeout: Duration,
    /// A connection on which no handler runs and no byte of an answer moves is closed after this.
    pub idle_timeout: Duration,
    /// Connections at once; more wait in the operating system's backlog.
    pub max_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head_timeout: Duration::from_secs(10), idle_timeout: Duration::from_secs(60), max_connections: 10_000 }
    }
}

/// Cuts the connection that a request came on, without another byte; found in the extensions of every request.
#[derive(Debug, Clone)]
pub struct ConnectionCutter(CancellationToken);

impl ConnectionCutter {
    /// Cuts the connection; the caller's future is dropped with it.
    pub async fn cut(&self) -> Infallible {
        self.0.cancel();
        std::future::pending().await
    }
}

/// Serves `endpoint` until `shutdown`, then takes no new connection, closes idle ones at once, lets running requests finish
/// for at most `grace`, and returns how many connections had to be cut after that.
///
/// A panic of a handler ends its own connection (its own stream on HTTP/2) and nothing else.
pub async fn serve<E: Endpoint + 'static>(
    listener: TcpListener,
    endpoint: E,
    limits: Limits,
    shutdown: CancellationToken,
    grace: Duration,
) -> usize {
    let endpoint = Arc::new(endpoint);
    let slots = Arc::new(Semaphore::new(limits.max_connections.min(Semaphore::MAX_PERMITS)));
    let connections = TaskTracker::new();
    let cut_all = CancellationToken::new();

    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            // The slot comes first: who is over the limit is not accepted, and costs no file descriptor.
            accepted = async { (Arc::clone(&slots).acquire_owned().await, listener.accept().await) } => accepted,
        };
        let (slot, stream, remote) = match accepted {
            (Ok(slot), Ok((stream, remote))) => (slot, stream, remote),
            (_, Err(error)) if concerns_one_connection(&error) => continue,
            (_, Err(error)) => {
                tracing::warn!(%error, "cannot accept a connection, trying again in a moment");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
            (Err(_closed), Ok(_)) => break,
        };
        let connection = Connection {
            endpoint: Arc::clone(&endpoint),
            remote: RemoteAddr(remote.into()),
            limits: limits.clone(),
            shutdown: shutdown.clone(),
            cut: cut_all.child_token(),
        };
        connections.spawn(async move {
            connection.run(stream).await;
            drop(slot);
        });
    }

    drop(listener);
    connections.close();
    if timeout(grace, connections.wait()).await.is_ok() {
        return 0;
    }
    let cut = connections.len();
    cut_all.cancel();
    connections.wait().await;
    cut
}

/// A connection that broke before it was accepted says nothing about the next one.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused)
}

struct Connection<E> {
    endpoint: Arc<E>,
    remote: RemoteAddr,
    limits: Limits,
    shutdown: CancellationToken,
    cut: CancellationToken,
}

impl<E: Endpoint + 'static> Connection<E> {
    async fn run(self, stream: TcpStream) {
        // Small answers must not wait for the peer's delayed acknowledgement; where it cannot be set, they are only slower.
        let _ = stream.set_nodelay(true);
        let Ok(local) = stream.local_addr() else { return };
        let local = LocalAddr(local.into());
        let activity = Arc::new(Activity::new());

        let service = hyper::service::service_fn(|mut request: hyper::Request<Incoming>| {
            let running = activity.request_begins();
            let endpoint = Arc::clone(&self.endpoint);
            let coding_known = is_chunked_once_or_plain(&request);
            request.extensions_mut().insert(ConnectionCutter(self.cut.clone()));
            let request = poem::Request::from((request, local.clone(), self.remote.clone(), Scheme::HTTP));
            async move {
                let response = if coding_known { endpoint.get_response(request).await } else { unknown_transfer_coding() };
                let response: hyper::Response<_> = response.into();
                Ok::<_, Infallible>(response.map(|body| running.answer_begins(body)))
            }
        });
        let builder = protocols(&self.limits);
        let mut http = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut closing = false;
        loop {
            let left = self.time_left(&activity, closing);
            tokio::select! {
                // The connection first: a request that has already arrived when the stop comes is still answered.
                biased;
                _ended = http.as_mut() => return,
                () = self.cut.cancelled() => return,
                () = self.shutdown.cancelled(), if !closing => {
                    closing = true;
                    http.as_mut().graceful_shutdown();
                }
                () = sleep(left) => {
                    if !self.time_left(&activity, closing).is_zero() {
                        continue;
                    }
                    if closing {
                        return;
                    }
                    closing = true;
                    http.as_mut().graceful_shutdown();
                }
            }
        }
    }

    /// How long the connection may stay as it is if nothing moves; zero when that time is over.
    fn time_left(&self, activity: &Activity, closing: bool) -> Duration {
        let limit = if activity.is_answering() {
            self.limits.idle_timeout
        } else if closing {
            LINGER
        } else if activity.saw_request() {
            self.limits.idle_timeout
        } else {
            self.limits.head_timeout
        };
        let left = limit.saturating_sub(activity.quiet_for());
        // Looked at more often while closing, because the end of an answer does not wake this timer.
        if closing { left.min(LINGER) } else { left }
    }
}

/// hyper undoes one `chunked` and hands on whatever is inside, such as `gzip` or a second `chunked`, as if it were the body.
fn is_chunked_once_or_plain<B>(request: &hyper::Request<B>) -> bool {
    let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Where the message ends is not known (RFC 9112, section 6.1), so the connection ends with this answer.
fn unknown_transfer_coding() -> poem::Response {
    poem::Response::builder().status(StatusCode::NOT_IMPLEMENTED).header(header::CONNECTION, "close").finish()
}

fn protocols(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(H2_PING_EVERY)
        .keep_alive_timeout(H2_PING_ANSWER_WITHIN)
        .max_concurrent_streams(H2_MAX_STREAMS)
        .max_header_list_size(H2_MAX_HEAD_BYTES);
    builder
}

#[cfg(test)]
mod tests;
