//! The wire between the service and PostgreSQL: it can be cut, held up, and lose exactly one acknowledgement.
//!
//! It reads along in PostgreSQL's protocol, since "the statement was executed, but nobody heard of it" cannot be staged by
//! counting packets: sqlx prepares a statement once a connection and then executes it by name.

use super::service::free_port;
use super::wait::eventually;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// A TCP proxy in front of PostgreSQL. Clones are the same one.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    port: u16,
    server: Mutex<String>,
    held: watch::Sender<bool>,
    /// How many more writes are acknowledged before one is not; `None`: all are.
    spare: Mutex<Option<usize>>,
    lost: watch::Sender<usize>,
    listening: Mutex<Option<AbortHandle>>,
    connections: Mutex<Vec<AbortHandle>>,
}

impl Link {
    pub async fn to(server: String) -> Self {
        let link = Self(Arc::new(Inner {
            port: free_port(),
            server: Mutex::new(server),
            held: watch::Sender::new(false),
            spare: Mutex::default(),
            lost: watch::Sender::new(0),
            listening: Mutex::default(),
            connections: Mutex::default(),
        }));
        link.up().await;
        link
    }

    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Connections are refused, open ones are cut.
    pub fn down(&self) {
        if let Some(listening) = self.0.listening.lock().unwrap().take() {
            listening.abort();
        }
        self.cut();
    }

    /// Connections lead to this server from now on; open ones are cut.
    pub fn lead_to(&self, server: String) {
        self.lead_new_ones_to(server);
        self.cut();
    }

    /// Connections lead to this server from now on; open ones stay where they are.
    pub fn lead_new_ones_to(&self, server: String) {
        *self.0.server.lock().unwrap() = server;
    }

    /// Every open connection ends; new ones are taken.
    pub fn cut(&self) {
        self.0.connections.lock().unwrap().drain(..).for_each(|c| c.abort());
    }

    pub async fn up(&self) {
        let listener = eventually("the port of the link is free", async || TcpListener::bind(("127.0.0.1", self.0.port)).await.ok()).await;
        let link = self.clone();
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let carrying = link.clone();
                let task = tokio::spawn(async move { carrying.carry(client).await });
                link.0.connections.lock().unwrap().push(task.abort_handle());
            }
        });
        *self.0.listening.lock().unwrap() = Some(listening.abort_handle());
    }

    /// Nothing passes in either direction until it is let go.
    pub fn hold(&self) {
        self.0.held.send_replace(true);
    }

    pub fn let_go(&self) {
        self.0.held.send_replace(false);
    }

    /// After `spare` more writing statements, one is executed and committed there, but its acknowledgement is lost and the
    /// connection with it.
    pub fn lose_acknowledgement_after(&self, spare: usize) {
        *self.0.spare.lock().unwrap() = Some(spare);
    }

    /// Waits until an acknowledgement was lost.
    pub async fn has_lost_one(&self) {
        eventually("an acknowledgement is lost", async || (*self.0.lost.borrow() > 0).then_some(())).await;
    }

    async fn carry(&self, client: TcpStream) {
        let server = self.0.server.lock().unwrap().clone();
        let Ok(server) = TcpStream::connect(server).await else { return };
        for stream in [&client, &server] {
            let _ = stream.set_nodelay(true);
        }
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let doomed = watch::Sender::new(false);
        tokio::select! {
            () = self.forward(from_client, to_server, &doomed) => {}
            () = self.back(from_server, to_client, &doomed) => {}
        }
    }

    async fn forward(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, doomed: &watch::Sender<bool>) {
        let mut statements = Statements::default();
        let mut buffer = Vec::new();
        // The first message of a connection has no type byte.
        let mut typed = 0;
        while from.read_buf(&mut buffer).await.is_ok_and(|n| n > 0) {
            self.pass().await;
            while let Some(message) = next_message(&mut buffer, typed) {
                typed = 1;
                if statements.writes(&message) && self.is_the_one() {
                    doomed.send_replace(true);
                }
                if to.write_all(&message).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn back(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, doomed: &watch::Sender<bool>) {
        let mut buffer = Vec::new();
        while from.read_buf(&mut buffer).await.is_ok_and(|n| n > 0) {
            self.pass().await;
            while let Some(message) = next_message(&mut buffer, 1) {
                if *doomed.borrow() {
                    // ReadyForQuery: the statement is committed, and nobody will hear of it.
                    if message[0] == b'Z' {
                        self.0.lost.send_modify(|n| *n += 1);
                        return;
                    }
                } else if to.write_all(&message).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn pass(&self) {
        let _ = self.0.held.subscribe().wait_for(|held| !*held).await;
    }

    fn is_the_one(&self) -> bool {
        let mut spare = self.0.spare.lock().unwrap();
        match *spare {
            None => false,
            Some(0) => {
                *spare = None;
                true
            }
            Some(n) => {
                *spare = Some(n - 1);
                false
            }
        }
    }
}

/// Takes a whole message off the buffer; `typed` is 1 where a type byte stands before the length.
fn next_message(buffer: &mut Vec<u8>, typed: usize) -> Option<Vec<u8>> {
    let length = buffer.get(typed..typed + 4)?;
    let length = u32::from_be_bytes(length.try_into().ok()?) as usize + typed;
    (buffer.len() >= length).then(|| buffer.drain(..length).collect())
}

/// The prepared statements of one connection.
#[derive(Default)]
struct Statements {
    writing: HashMap<Vec<u8>, bool>,
    bound_writes: bool,
}

impl Statements {
    /// Whether this message makes the server write.
    fn writes(&mut self, message: &[u8]) -> bool {
        let mut texts = message.get(5..).unwrap_or_default().split(|b| *b == 0);
        let mut text = || texts.next().unwrap_or_default().to_vec();
        match message[0] {
            b'Q' => is_write(&text()),
            b'P' => {
                let (name, sql) = (text(), text());
                self.writing.insert(name, is_write(&sql));
                false
            }
            b'B' => {
                let (_portal, name) = (text(), text());
                self.bound_writes = self.writing.get(&name).copied().unwrap_or_default();
                false
            }
            b'E' => self.bound_writes,
            _ => false,
        }
    }
}

fn is_write(sql: &[u8]) -> bool {
    let sql = String::from_utf8_lossy(sql).to_uppercase();
    // A COMMIT counts: it is where the writes of a transaction take effect.
    ["INSERT", "UPDATE", "DELETE"].iter().any(|verb| sql.contains(&format!("{verb} "))) || sql.trim_start().starts_with("COMMIT")
}
