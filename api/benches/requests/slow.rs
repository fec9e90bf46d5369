//! What a few callers notice of hundreds whose bodies come a byte a second, or never end; and what those cost in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Kind;
use crate::arguments::Arguments;
use crate::load::{Figures, Load};
use crate::server::Server;

/// Senders of each kind.
const SENDERS: u64 = 100;
/// Callers beside them.
const CALLERS: usize = 4;

/// How a body comes that never comes to its end.
#[derive(Clone, Copy)]
enum Slowness {
    /// Announced with its length, a byte a second.
    Dripping,
    /// Chunked, 16 KiB every 20 ms for as long as the server takes it.
    Endless,
}

pub fn head(seconds: u64) {
    println!(
        "\n{CALLERS} callers of fresh requests, {seconds} s each, alone and beside {SENDERS} senders of a byte a second and {SENDERS} of endless bodies"
    );
    println!(
        "\n| database | beside slow senders | requests/s | p50 ms | p99 ms | peak memory of api, MiB | slow bodies refused: 408, 413 |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|");
}

pub async fn measure(arguments: &Arguments, database: &str, url: &str, booking_url: &str) {
    let mut settings = arguments.settings.clone();
    if !settings.iter().any(|(name, _)| name == "BODY_TIMEOUT") {
        settings.push(("BODY_TIMEOUT".to_owned(), "5s".to_owned()));
    }
    let server = Server::start(url, booking_url, &settings).await;
    let load = Load::new(server.port);
    // Pools, caches and the allocator take what they take once.
    load.run(Kind::Fresh, CALLERS, 3, &server).await;
    server.peak_memory_mib();
    let alone = load.run(Kind::Fresh, CALLERS, arguments.slow_seconds, &server).await;
    print(database, "no", &alone, &server, "-");

    let senders = Senders::default();
    let tasks: Vec<_> = [Slowness::Dripping, Slowness::Endless]
        .into_iter()
        .flat_map(|slowness| (0..SENDERS).map(move |n| (slowness, n)))
        .map(|(slowness, n)| tokio::spawn(senders.clone().send(server.port, slowness, n)))
        .collect();
    let beside = load.run(Kind::Fresh, CALLERS, arguments.slow_seconds, &server).await;
    let refused = [&senders.0.timed_out, &senders.0.too_large].map(|count| count.load(Ordering::Relaxed).to_string());
    print(database, "yes", &beside, &server, &refused.join(", "));
    senders.0.stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.abort();
        match task.await {
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Ok(()) | Err(_) => {}
        }
    }
    // An endless body is refused in far less than a second, one that drips after the body time-out.
    assert!(senders.0.too_large.load(Ordering::Relaxed) > 0, "no endless body was refused");
    println!(
        "| {database} | ratio | {:.2} | {:.2} | {:.2} | | |",
        beside.per_second / alone.per_second,
        beside.p50_ms / alone.p50_ms,
        beside.p99_ms / alone.p99_ms
    );
}

fn print(database: &str, beside: &str, figures: &Figures, server: &Server, refused: &str) {
    let Figures { per_second, p50_ms, p99_ms, .. } = figures;
    let peak = server.peak_memory_mib().map_or_else(|| "-".to_owned(), |mib| format!("{mib:.1}"));
    println!("| {database} | {beside} | {per_second:.0} | {p50_ms:.2} | {p99_ms:.2} | {peak} | {refused} |");
}

#[derive(Clone, Default)]
struct Senders(Arc<Counts>);

#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    timed_out: AtomicU64,
    too_large: AtomicU64,
}

impl Senders {
    /// One body after the other, each on a connection of its own.
    async fn send(self, port: u16, slowness: Slowness, number: u64) {
        let mut round = 0;
        while !self.0.stop.load(Ordering::Relaxed) {
            round += 1;
            let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
            let answer = one_body(stream, slowness, &format!("slow-{}-{number}-{round}", slowness as u8)).await;
            match answer.as_deref() {
                Some("HTTP/1.1 408") => drop(self.0.timed_out.fetch_add(1, Ordering::Relaxed)),
                Some("HTTP/1.1 413") => drop(self.0.too_large.fetch_add(1, Ordering::Relaxed)),
                // The answer was lost with the connection, which the sender had not read from.
                None => {}
                Some(other) => panic!("a body without an end was answered {other}"),
            }
        }
    }
}

/// The first words of the answer.
async fn one_body(stream: TcpStream, slowness: Slowness, key: &str) -> Option<String> {
    let (length, piece, pause) = match slowness {
        Slowness::Dripping => ("Content-Length: 60000", b" ".to_vec(), Duration::from_secs(1)),
        Slowness::Endless => {
            ("Transfer-Encoding: chunked", [b"4000\r\n".as_slice(), &[b' '; 0x4000], b"\r\n"].concat(), Duration::from_millis(20))
        }
    };
    let (mut from, mut to) = stream.into_split();
    let head = format!(
        "POST /reservations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nIdempotency-Key: \"{key}\"\r\n{length}\r\n\r\n"
    );
    let sending = async {
        to.write_all(head.as_bytes()).await.ok()?;
        loop {
            to.write_all(&piece).await.ok()?;
            tokio::time::sleep(pause).await;
        }
    };
    let answer = async {
        let mut answer = [0; 12];
        from.read_exact(&mut answer).await.ok()?;
        Some(String::from_utf8_lossy(&answer).into_owned())
    };
    let (answer, _): (Option<String>, Option<()>) = tokio::join!(answer, async {
        // It goes on sending for a while after it was refused, as one does who never looks.
        let _: Result<Option<()>, _> = tokio::time::timeout(Duration::from_secs(8), sending).await;
        None
    });
    answer
}
