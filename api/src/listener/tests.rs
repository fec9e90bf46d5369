//! The accept loop over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::net::SocketAddr;
use std::time::Instant;

use poem::{Route, get, handler};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use super::*;

#[handler]
async fn slow() -> &'static str {
    sleep(Duration::from_millis(600)).await;
    "done"
}

#[handler]
fn quick() -> &'static str {
    "quick"
}

#[handler]
fn panics() -> &'static str {
    panic!("on purpose")
}

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<usize>,
}

async fn start(limits: Limits, grace: Duration) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let routes = Route::new().at("/slow", get(slow)).at("/quick", get(quick)).at("/panics", get(panics));
    let task = tokio::spawn(serve(listener, routes, limits, shutdown.clone(), grace));
    Server { address, shutdown, task }
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

async fn send(stream: &mut TcpStream, path: &str) {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
}

/// Reads until `end` was seen.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(end) {
        let mut part = [0; 1024];
        let n = timeout(Duration::from_secs(5), stream.read(&mut part)).await.expect("an answer in time").unwrap();
        assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&part[..n]);
    }
    String::from_utf8(seen).unwrap()
}

/// Waits until the server has closed the connection.
async fn closed_within(stream: &mut TcpStream, limit: Duration) -> bool {
    timeout(limit, async { while !matches!(stream.read(&mut [0; 64]).await, Ok(0) | Err(_)) {} }).await.is_ok()
}

fn short() -> Limits {
    Limits { head_timeout: Duration::from_millis(400), idle_timeout: Duration::from_millis(800), ..Limits::default() }
}

#[tokio::test]
async fn silent_partial_and_dripping_heads_are_closed_in_time() {
    let server = start(short(), Duration::from_secs(1)).await;
    let mut silent = server.connect().await;
    let mut partial = server.connect().await;
    partial.write_all(b"GET /quick HTTP/1.1\r\nHost:").await.unwrap();
    let mut preface = server.connect().await;
    preface.write_all(b"PRI * HT").await.unwrap();
    let (mut dripping, mut writer) = server.connect().await.into_split();
    let drip = tokio::spawn(async move {
        for byte in b"GET /quick HTTP/1.1\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".iter().cycle() {
            if writer.write_all(&[*byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(30)).await;
        }
    });
    let limit = Duration::from_secs(3);
    assert!(closed_within(&mut silent, limit).await);
    assert!(closed_within(&mut partial, limit).await);
    assert!(closed_within(&mut preface, limit).await);
    let dripped = timeout(limit, async { while !matches!(dripping.read(&mut [0; 64]).await, Ok(0) | Err(_)) {} }).await;
    assert!(dripped.is_ok());
    timeout(limit, drip).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_graceful_stop_waits_for_running_requests_only() {
    let server = start(Limits::default(), Duration::from_secs(10)).await;
    let mut idle = server.connect().await;
    send(&mut idle, "/quick").await;
    read_until(&mut idle, "quick").await;
    let mut partial = server.connect().await;
    partial.write_all(b"GET /quick HT").await.unwrap();
    let mut running = server.connect().await;
    send(&mut running, "/slow").await;
    sleep(Duration::from_millis(100)).await;

    let stopped_at = Instant::now();
    server.shutdown.cancel();
    assert!(closed_within(&mut idle, Duration::from_millis(300)).await);
    let answer = read_until(&mut running, "done").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(server.task.await.unwrap(), 0);
    assert!(stopped_at.elapsed() < Duration::from_secs(2), "{:?}", stopped_at.elapsed());
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn what_outlasts_the_grace_is_cut_and_counted() {
    let server = start(Limits::default(), Duration::from_millis(100)).await;
    let mut running = server.connect().await;
    send(&mut running, "/slow").await;
    sleep(Duration::from_millis(100)).await;
    server.shutdown.cancel();
    assert_eq!(timeout(Duration::from_millis(400), server.task).await.unwrap().unwrap(), 1);
    assert!(closed_within(&mut running, Duration::from_millis(300)).await);
}

#[tokio::test]
async fn http2_is_served_by_prior_knowledge_and_closed_when_idle() {
    let server = start(short(), Duration::from_secs(1)).await;
    let mut stream = server.connect().await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    // An empty SETTINGS frame, then HEADERS of stream 1 with END_STREAM and END_HEADERS:
    // :method GET and :scheme http from the static table, :path /quick and :authority a as literals.
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let block = [&[0x82, 0x86, 0x04, 6][..], b"/quick", &[0x01, 1], b"a"].concat();
    let length = u8::try_from(block.len()).unwrap();
    stream.write_all(&[&[0, 0, length, 1, 5, 0, 0, 0, 1][..], &block].concat()).await.unwrap();
    let mut seen = Vec::new();
    while !seen.windows(5).any(|part| part == b"quick") {
        let mut part = [0; 1024];
        let n = timeout(Duration::from_secs(3), stream.read(&mut part)).await.expect("an answer in time").unwrap();
        assert!(n > 0, "closed after {seen:?}");
        seen.extend_from_slice(&part[..n]);
    }
    assert!(closed_within(&mut stream, Duration::from_secs(3)).await);
}

#[tokio::test]
async fn a_connection_over_the_limit_waits_for_a_slot() {
    let server = start(Limits { max_connections: 1, ..Limits::default() }, Duration::from_secs(1)).await;
    let mut first = server.connect().await;
    send(&mut first, "/quick").await;
    read_until(&mut first, "quick").await;
    let mut second = server.connect().await;
    send(&mut second, "/quick").await;
    assert!(timeout(Duration::from_millis(200), second.read_u8()).await.is_err());
    drop(first);
    read_until(&mut second, "quick").await;
}

#[tokio::test]
async fn a_panic_ends_its_own_connection_only() {
    let server = start(Limits::default(), Duration::from_secs(1)).await;
    let mut other = server.connect().await;
    let mut broken = server.connect().await;
    send(&mut broken, "/panics").await;
    assert!(closed_within(&mut broken, Duration::from_secs(3)).await);
    send(&mut other, "/quick").await;
    read_until(&mut other, "quick").await;
    server.shutdown.cancel();
    assert_eq!(server.task.await.unwrap(), 0);
}

/// Sends a request whose body says `5` in one chunk, under these header lines.
async fn send_coded(server: &Server, lines: &str) -> TcpStream {
    let mut stream = server.connect().await;
    let request = format!("GET /quick HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n1\r\n5\r\n0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// RFC 9112, section 6.1
#[tokio::test]
async fn a_transfer_coding_that_is_not_undone_is_refused_and_ends_the_connection() {
    let server = start(short(), Duration::from_secs(1)).await;
    let lines = [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
    ];
    for lines in lines {
        let mut stream = send_coded(&server, lines).await;
        let answer = read_until(&mut stream, "\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 501 ") && answer.to_lowercase().contains("connection: close"), "{lines}: {answer}");
        assert!(closed_within(&mut stream, Duration::from_secs(3)).await, "{lines}");
    }
    for coding in ["chunked", "Chunked", " chunked "] {
        let mut stream = send_coded(&server, &format!("Transfer-Encoding: {coding}\r\n")).await;
        assert!(read_until(&mut stream, "quick").await.starts_with("HTTP/1.1 200 "), "{coding}");
        send(&mut stream, "/quick").await;
        read_until(&mut stream, "quick").await;
    }
}
