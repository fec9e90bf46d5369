//! Live requests: so many a second, whatever the others take, each under a key of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::http::message_length;

static KEYS: AtomicU64 = AtomicU64::new(0);

/// How long the requests took that fell due in one stretch of time, and how they ended.
#[derive(Default)]
pub struct Figures {
    latencies: Vec<Duration>,
    /// Answers that were not 201.
    pub failed: usize,
}

impl Figures {
    pub fn ms(&self, share: f64) -> f64 {
        let at = ((self.latencies.len() as f64 - 1.0) * share).max(0.0) as usize;
        self.latencies.get(at).map_or(f64::NAN, |l| l.as_secs_f64() * 1e3)
    }

    pub fn count(&self) -> usize {
        self.latencies.len()
    }

    pub fn and(mut self, other: Self) -> Self {
        self.latencies.extend(other.latencies);
        self.latencies.sort_unstable();
        self.failed += other.failed;
        self
    }
}

/// A stream of requests that goes on until it is stopped.
pub struct Live {
    over: Arc<AtomicBool>,
    sending: tokio::task::JoinHandle<Figures>,
}

impl Live {
    pub fn start(port: u16, rate: u64) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let sending = tokio::spawn(send(port, rate, Arc::clone(&over)));
        Self { over, sending }
    }

    pub async fn stop(self) -> Figures {
        self.over.store(true, Ordering::SeqCst);
        self.sending.await.expect("no panic")
    }
}

/// The same for a while.
pub async fn run(port: u16, rate: u64, length: Duration) -> Figures {
    let live = Live::start(port, rate);
    tokio::time::sleep(length).await;
    live.stop().await
}

async fn send(port: u16, rate: u64, over: Arc<AtomicBool>) -> Figures {
    // Idle connections: a request whose turn has come takes one, and opens one where all are taken.
    let idle = Arc::new(Mutex::new(Vec::<(TcpStream, Instant)>::new()));
    let mut due = tokio::time::interval(Duration::from_micros(1_000_000 / rate));
    let mut running = tokio::task::JoinSet::new();
    while !over.load(Ordering::SeqCst) {
        // Counted from when it was due: a request that has to wait for its turn is as late as any other.
        let at = due.tick().await.into_std();
        let idle = Arc::clone(&idle);
        running.spawn(async move {
            // One that is idle for long may just be closed by the server.
            let taken = idle.lock().await.pop().filter(|(_, since)| since.elapsed() < Duration::from_secs(2));
            let mut stream = match taken {
                Some((stream, _)) => stream,
                None => TcpStream::connect(("127.0.0.1", port)).await.expect("a connection to the server"),
            };
            let key = format!("live-{:016x}", KEYS.fetch_add(1, Ordering::Relaxed));
            let status = exchange(&mut stream, &key).await;
            let answered = Instant::now();
            idle.lock().await.push((stream, answered));
            (answered - at, status)
        });
    }
    let mut figures = Figures::default();
    while let Some(done) = running.join_next().await {
        let (latency, status) = done.expect("an answer");
        figures.latencies.push(latency);
        figures.failed += usize::from(status != 201);
    }
    figures.latencies.sort_unstable();
    figures
}

/// One reservation under this key; the status of its answer.
pub async fn exchange(stream: &mut TcpStream, key: &str) -> u16 {
    const BODY: &str = r#"{"item_code":"ROOM-101","quantity":1,"reserved_by":"taro"}"#;
    let request = format!(
        "POST /reservations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Idempotency-Key: \"{key}\"\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    stream.write_all(request.as_bytes()).await.expect("the request leaves");
    let mut buffer = Vec::with_capacity(1024);
    while message_length(&buffer).is_none() {
        let read = stream.read_buf(&mut buffer).await.expect("an answer");
        assert!(read > 0, "the server closed the connection");
    }
    std::str::from_utf8(&buffer[9..12]).ok().and_then(|status| status.parse().ok()).expect("a status")
}
