//! The load: so many keep-alive connections, each with one request on its way at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Kind;
use crate::http::{header, message_length};
use crate::server::Server;

pub const BODY: &str = r#"{"item_code":"ROOM-101","quantity":1,"reserved_by":"taro"}"#;
/// Keys that are replayed.
const HOT_KEYS: u64 = 256;
/// Not counted: connections are opened, pools and caches fill.
const WARM_UP: Duration = Duration::from_millis(500);

/// Keys of fresh requests so far. One counter for the whole run: each part starts a server of its own on the same database, where a key
/// that an earlier part has used is a replay.
static FRESH_KEYS: AtomicU64 = AtomicU64::new(0);

/// What one cell came to.
pub struct Figures {
    pub per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub cpu_us: Option<f64>,
}

pub struct Load {
    port: u16,
}

impl Load {
    pub const fn new(port: u16) -> Self {
        Self { port }
    }

    pub async fn run(&self, kind: Kind, connections: usize, seconds: u64, server: &Server) -> Figures {
        if kind == Kind::Replay {
            self.make_hot_keys().await;
        }
        let begin = Instant::now() + WARM_UP;
        let end = begin + Duration::from_secs(seconds);
        let cpu = async {
            tokio::time::sleep_until(begin.into()).await;
            let before = server.cpu_ms();
            tokio::time::sleep_until(end.into()).await;
            Some(server.cpu_ms()? - before?)
        };
        let callers = (0..connections).map(|caller| self.call(kind, caller as u64, begin, end));
        let (latencies, cpu_ms) = tokio::join!(futures_util::future::join_all(callers), cpu);
        let mut latencies: Vec<Duration> = latencies.into_iter().flatten().collect();
        latencies.sort_unstable();
        let count = latencies.len();
        assert!(count > 0, "no request began and ended within {seconds} s");
        let at = |share: f64| latencies.get(((count as f64 - 1.0) * share) as usize).map_or(f64::NAN, |l| l.as_secs_f64() * 1e3);
        Figures {
            per_second: count as f64 / seconds as f64,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            cpu_us: cpu_ms.map(|ms| ms * 1e3 / count as f64),
        }
    }

    /// One caller; how long each of its requests took that began and ended in time.
    async fn call(&self, kind: Kind, caller: u64, begin: Instant, end: Instant) -> Vec<Duration> {
        let mut connection = Connection::open(self.port).await;
        let mut latencies = Vec::new();
        let mut number = caller;
        loop {
            let key = match kind {
                Kind::Fresh => format!("fresh-{:016x}", FRESH_KEYS.fetch_add(1, Ordering::Relaxed)),
                Kind::Replay => {
                    // Callers walk through the keys at a distance.
                    number += 7;
                    hot_key(number % HOT_KEYS)
                }
            };
            let sent = Instant::now();
            connection.exchange(&key, kind == Kind::Replay).await;
            let answered = Instant::now();
            if answered >= end {
                return latencies;
            }
            if sent >= begin {
                latencies.push(answered - sent);
            }
        }
    }

    async fn make_hot_keys(&self) {
        let mut connection = Connection::open(self.port).await;
        for number in 0..HOT_KEYS {
            connection.request(&hot_key(number)).await;
        }
    }
}

fn hot_key(number: u64) -> String {
    format!("hot-{number:016x}")
}

/// A keep-alive connection to the server.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection to the server");
        stream.set_nodelay(true).expect("no delay");
        Self { stream, buffer: Vec::with_capacity(4096) }
    }

    /// A request that must succeed; whether its answer was a replay must be as said.
    async fn exchange(&mut self, key: &str, replayed: bool) {
        let answer = self.request(key).await;
        let is_replay = header(&answer, "idempotent-replayed") == Some("true");
        assert_eq!(is_replay, replayed, "{}", String::from_utf8_lossy(&answer));
    }

    /// Sends the reservation under this key; the answer, which must be 201.
    pub async fn request(&mut self, key: &str) -> Vec<u8> {
        let request = format!(
            "POST /reservations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Idempotency-Key: \"{key}\"\r\nContent-Length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        self.stream.write_all(request.as_bytes()).await.expect("the request leaves");
        loop {
            if let Some(length) = message_length(&self.buffer) {
                let answer: Vec<u8> = self.buffer.drain(..length).collect();
                assert!(answer.starts_with(b"HTTP/1.1 201 "), "{}", String::from_utf8_lossy(&answer));
                return answer;
            }
            let read = self.stream.read_buf(&mut self.buffer).await.expect("an answer");
            assert!(read > 0, "the server closed the connection");
        }
    }
}
