//! The statements that the server really sends, read off the wire: a copy kept here would grow old.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::load::Connection;
use crate::postgres::Postgres;
use crate::server::Server;

/// With `$1`, `$2` ... as they were prepared.
pub struct Statements {
    /// INSERT .. ON CONFLICT DO NOTHING RETURNING.
    pub claim: String,
    /// The finalize with its CTE.
    pub finalize: String,
    /// The one SELECT of a replay.
    pub find: String,
    /// The stored body.
    pub body: Vec<u8>,
}

/// One fresh request and two replays, through a proxy that reads along.
pub async fn capture(postgres: &Postgres, booking_url: &str) -> Statements {
    let seen = Arc::new(Mutex::new(Vec::<String>::new()));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (server_address, noted) = (postgres.address(), Arc::clone(&seen));
    let proxy = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&server_address).await.expect("a connection to PostgreSQL");
            tokio::spawn(carry(client, server, Arc::clone(&noted)));
        }
    });
    let server = Server::start(&postgres.url_through(port), booking_url, &[]).await;
    let mut connection = Connection::open(server.port).await;
    let first = connection.request("captured").await;
    connection.request("captured").await;
    drop(server);
    proxy.abort();
    let seen = seen.lock().expect("no panic");
    let the_one = |parts: &[&str]| {
        let found = seen.iter().find(|sql| sql.starts_with(parts[0]) && parts.iter().all(|part| sql.contains(part)));
        found.cloned().unwrap_or_else(|| panic!("the server sends no statement like {parts:?}: {seen:#?}"))
    };
    let body_at = first.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    Statements {
        claim: the_one(&["INSERT INTO idempotency_key", "ON CONFLICT DO NOTHING", "RETURNING"]),
        finalize: the_one(&["WITH done AS (UPDATE idempotency_key", "INSERT INTO reservation"]),
        find: the_one(&["SELECT ", "FROM idempotency_key WHERE digest = $1"]),
        body: first[body_at..].to_vec(),
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, seen: Arc<Mutex<Vec<String>>>) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let forward = async {
        let mut buffer = Vec::new();
        // The first message of a connection has no type byte.
        let mut typed = 0;
        while from_client.read_buf(&mut buffer).await.is_ok_and(|n| n > 0) {
            while let Some(length) = buffer.get(typed..typed + 4).map(|l| u32::from_be_bytes(l.try_into().expect("four bytes")) as usize) {
                if buffer.len() < typed + length {
                    break;
                }
                let message: Vec<u8> = buffer.drain(..typed + length).collect();
                typed = 1;
                if message[0] == b'P' {
                    let sql = message[5..].split(|b| *b == 0).nth(1).unwrap_or_default();
                    seen.lock().expect("no panic").push(String::from_utf8_lossy(sql).into_owned());
                }
                if to_server.write_all(&message).await.is_err() {
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = forward => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
}
