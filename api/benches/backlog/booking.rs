//! A booking system that goes down and comes back, and counts how many calls it has at once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::http::message_length;

/// What a call takes there.
const THINKS: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Inner {
    down: AtomicBool,
    /// References of the bookings it has.
    booked: Mutex<HashSet<String>>,
    posts: AtomicUsize,
    at_once: AtomicUsize,
    peak: AtomicUsize,
}

/// Clones are the same one.
#[derive(Clone, Default)]
pub struct Booking {
    inner: Arc<Inner>,
    pub url: String,
}

impl Booking {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let booking = Self { inner: Arc::default(), url: format!("http://{}", listener.local_addr().expect("an address")) };
        let serving = booking.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        booking
    }

    /// While it is down it answers 503 to everything; every second reservation is booked all the same.
    pub fn be_down(&self, down: bool) {
        self.inner.down.store(down, Ordering::SeqCst);
    }

    /// Forgets what was counted.
    pub fn count_anew(&self) {
        self.inner.peak.store(0, Ordering::SeqCst);
    }

    /// The most look-ups it had at once: it is by look-ups that a backlog is cleared, and live requests make none.
    pub fn peak(&self) -> usize {
        self.inner.peak.load(Ordering::SeqCst)
    }

    async fn serve(self, mut stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut buffer = Vec::with_capacity(4096);
        loop {
            while let Some(length) = message_length(&buffer) {
                let request: Vec<u8> = buffer.drain(..length).collect();
                let answer = self.answer(&String::from_utf8_lossy(&request)).await;
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
            if !stream.read_buf(&mut buffer).await.is_ok_and(|n| n > 0) {
                return;
            }
        }
    }

    async fn answer(&self, request: &str) -> String {
        let inner = &self.inner;
        let down = inner.down.load(Ordering::SeqCst);
        if request.starts_with("POST ") {
            let number = inner.posts.fetch_add(1, Ordering::SeqCst);
            let reference = request.split("\"reference\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a reference");
            if !down || number.is_multiple_of(2) {
                inner.booked.lock().expect("no panic").insert(reference.to_owned());
            }
            if down {
                return message("503 Service Unavailable", "{}");
            }
            tokio::time::sleep(THINKS).await;
            return found(reference);
        }
        if down {
            return message("503 Service Unavailable", "{}");
        }
        let path = request.split(' ').nth(1).unwrap_or_default();
        let reference = path.rsplit('/').next().unwrap_or_default();
        let known = inner.booked.lock().expect("no panic").contains(reference);
        inner.peak.fetch_max(inner.at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(THINKS).await;
        inner.at_once.fetch_sub(1, Ordering::SeqCst);
        if known { found(reference) } else { message("404 Not Found", "{}") }
    }
}

fn found(reference: &str) -> String {
    message("200 OK", &format!("{{\"booking_id\":\"BK-{reference}\",\"reference\":\"{reference}\"}}"))
}

fn message(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
