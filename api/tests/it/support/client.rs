//! A caller: every request is written byte by byte, every answer is shown to the ledger.

use super::ledger::Ledger;
use super::reply::Reply;
use super::service::Service;
use super::wait::PATIENCE;
use super::wire::{Unframed, Wire};
use serde_json::Value;
use std::future::IntoFuture;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinHandle;

/// A request about to be sent. Header lines go out in order, as often as they were added, unchecked.
#[derive(Clone)]
pub struct Request {
    port: u16,
    ledger: Arc<Ledger>,
    tokens: Vec<(String, String)>,
    method: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    token: Option<String>,
    key: Option<String>,
    body: Option<Vec<u8>>,
    watched: bool,
}

impl Service {
    pub fn request(&self, method: &str, target: &str) -> Request {
        let tokens = self.tokens();
        Request {
            port: self.port(),
            ledger: Arc::clone(self.ledger()),
            token: tokens.first().map(|(token, _)| token.clone()),
            tokens,
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            key: None,
            body: None,
            watched: true,
        }
    }

    pub fn get(&self, target: &str) -> Request {
        self.request("GET", target)
    }

    pub fn post(&self, key: &str, body: &Value) -> Request {
        self.request("POST", "/reservations").key(key).json(body)
    }

    pub fn patch(&self, id: &str, key: &str, etag: &str, body: &Value) -> Request {
        self.request("PATCH", &format!("/reservations/{id}")).key(key).header("If-Match", etag).json(body)
    }

    pub fn delete(&self, id: &str) -> Request {
        self.request("DELETE", &format!("/reservations/{id}"))
    }

    pub fn reservation(&self, id: &str) -> Request {
        self.get(&format!("/reservations/{id}"))
    }

    /// The record of a key; `None` where there is none.
    pub async fn key_record(&self, key: &str) -> Option<Value> {
        let reply = self.get(&format!("/idempotency-keys/{key}?operation=createReservation")).await;
        match reply.status {
            404 => None,
            200 => Some(reply.json()),
            _ => panic!("the record of a key: {reply:?}"),
        }
    }

    pub async fn key_state(&self, key: &str) -> Option<String> {
        self.key_record(key).await.map(|record| record["state"].as_str().unwrap_or_default().to_owned())
    }

    /// Does what a caller does who wants an answer: sends it again, as often as it takes, until one is final.
    pub async fn settle(&self, key: &str, body: &Value) -> Reply {
        self.post(key, body).until_final().await
    }
}

impl Request {
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// The key, quoted as the header wants it; the answers under it are compared with each other.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self.header("Idempotency-Key", format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\"")))
    }

    /// Exactly these bytes as the key's header.
    pub fn raw_key(self, value: impl AsRef<[u8]>) -> Self {
        self.header("Idempotency-Key", value)
    }

    pub fn prefer(self, preference: &str) -> Self {
        self.header("Prefer", preference)
    }

    pub fn json(self, body: &Value) -> Self {
        self.body(body.to_string())
    }

    /// These bytes, said to be JSON.
    pub fn body(self, body: impl AsRef<[u8]>) -> Self {
        self.header("Content-Type", "application/json").bytes(body)
    }

    /// These bytes, said to be nothing.
    pub fn bytes(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = Some(body.as_ref().to_vec());
        self
    }

    /// Somebody who listens on this port passes it on.
    pub fn through(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    pub fn no_token(mut self) -> Self {
        self.token = None;
        self
    }

    /// The answer may be anything: it is not judged.
    pub fn unwatched(mut self) -> Self {
        self.watched = false;
        self
    }

    /// On its way while the test goes on.
    pub fn in_flight(self) -> JoinHandle<Reply> {
        tokio::spawn(self.into_future())
    }

    /// The request as it goes over the wire.
    pub fn encoded(&self) -> Vec<u8> {
        let has = |name: &str| self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        let mut line = |name: &str, value: &[u8]| {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        };
        if !has("Host") {
            line("Host", format!("127.0.0.1:{}", self.port).as_bytes());
        }
        if let Some(token) = self.token.as_ref().filter(|_| !has("Authorization")) {
            line("Authorization", format!("Bearer {token}").as_bytes());
        }
        if let Some(body) = self.body.as_ref().filter(|_| !has("Content-Length") && !has("Transfer-Encoding")) {
            line("Content-Length", body.len().to_string().as_bytes());
        }
        if !has("Connection") {
            line("Connection", b"close");
        }
        for (name, value) in &self.headers {
            line(name, value);
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }

    /// Sends the request on a connection of its own and leaves the connection to the test.
    pub async fn sent(&self) -> Result<Wire> {
        if let Some(key) = &self.key {
            self.ledger.asked(&self.account(), &self.operation(), key, self.body.as_deref().unwrap_or_default());
        }
        let mut wire = Wire::connect(self.port).await?;
        // A server that has seen enough may answer and close before all is written: the answer decides.
        let _ = wire.write(&self.encoded()).await;
        Ok(wire)
    }

    /// The answer, or how the connection broke.
    pub async fn attempt(self) -> Result<Reply> {
        let unframed = if self.method == "HEAD" { Unframed::NeverAny } else { Unframed::UntilClose };
        let exchange = async { self.sent().await?.read(unframed).await };
        let message = tokio::time::timeout(2 * PATIENCE, exchange).await.map_err(|_| Error::new(ErrorKind::TimedOut, "no answer"))??;
        let reply = Reply::new(message);
        if self.watched {
            self.ledger.saw(&self.method, &self.target, &reply);
        }
        if let Some(key) = &self.key {
            self.ledger.told(&self.account(), &self.operation(), key, &reply);
        }
        Ok(reply)
    }

    /// Sends it again until an answer is final.
    pub async fn until_final(self) -> Reply {
        let end = Instant::now() + PATIENCE;
        loop {
            let reply = self.clone().attempt().await;
            let reply = match reply {
                Ok(reply) if reply.is_final() => return reply,
                Ok(reply) => {
                    assert!(matches!(reply.status, 202 | 409 | 503), "no answer to a retry: {reply:?}");
                    format!("{reply:?}")
                }
                Err(broken) => broken.to_string(),
            };
            assert!(Instant::now() < end, "no final answer, the last one is {reply}");
            tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        }
    }

    fn account(&self) -> String {
        let account = self.tokens.iter().find(|(token, _)| Some(token) == self.token.as_ref()).map(|(_, account)| account.clone());
        account.unwrap_or_else(|| self.token.clone().unwrap_or_default())
    }

    fn operation(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

impl IntoFuture for Request {
    type Output = Reply;
    type IntoFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

    /// The answer; fails where the connection breaks.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let what = self.operation();
            self.attempt().await.unwrap_or_else(|broken| panic!("{what}: {broken}"))
        })
    }
}
