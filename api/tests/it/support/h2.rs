//! A caller that speaks HTTP/2 without TLS, by prior knowledge: one connection, many streams.

use super::reply::Reply;
use super::service::Service;
use super::wait::PATIENCE;
use super::wire::Message;
use ::h2::client::{ResponseFuture, SendRequest};
use hyper::body::Bytes;
use poem::http::Request;
use serde_json::Value;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// A connection. Clones share it.
#[derive(Clone)]
pub struct H2 {
    service: Service,
    streams: SendRequest<Bytes>,
    carrying: AbortHandle,
}

/// One request on its stream.
pub struct Stream {
    service: Service,
    method: String,
    path: String,
    key: Option<String>,
    answer: ResponseFuture,
    pub body: ::h2::SendStream<Bytes>,
}

impl H2 {
    pub async fn connect(service: &Service) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", service.port())).await.expect("a connection");
        let (streams, connection) = ::h2::client::handshake(stream).await.expect("HTTP/2");
        let carrying = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Self { service: service.clone(), streams, carrying }
    }

    /// The connection is gone, with nothing said.
    pub fn cut(self) {
        self.carrying.abort();
    }

    /// Sends the head; the stream waits for its body.
    pub async fn open(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Stream {
        let address = format!("http://127.0.0.1:{}{path}", self.service.port());
        let mut request = Request::builder().method(method).uri(address);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        let mut streams = self.streams.clone().ready().await.expect("room for one more stream");
        let (answer, body) = streams.send_request(request, false).expect("the head is sent");
        let key = headers.iter().find(|(name, _)| *name == "idempotency-key").map(|(_, value)| value.trim_matches('"').to_owned());
        Stream { service: self.service.clone(), method: method.into(), path: path.into(), key, answer, body }
    }

    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut stream = self.open(method, path, headers).await;
        if let (Some(key), Ok(body)) = (&stream.key, serde_json::from_str::<Value>(body)) {
            self.service.ledger().asked("", &stream.operation(), key, body.to_string().as_bytes());
        }
        // Refused already, and so reset: the answer decides.
        let _ = stream.body.send_data(Bytes::copy_from_slice(body.as_bytes()), true);
        stream.reply().await
    }

    /// A creation under this key.
    pub async fn post(&self, key: &str, body: &Value) -> Reply {
        self.send("POST", "/reservations", &keyed(&format!("\"{key}\"")), &body.to_string()).await
    }
}

/// The headers of a creation.
pub fn keyed(quoted_key: &str) -> [(&str, &str); 2] {
    [("content-type", "application/json"), ("idempotency-key", quoted_key)]
}

impl Stream {
    fn operation(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The answer; shown to the ledger like every other.
    pub async fn reply(self) -> Reply {
        let operation = self.operation();
        let answer = tokio::time::timeout(2 * PATIENCE, self.answer).await.expect("an answer in time");
        let (head, mut body) = answer.unwrap_or_else(|broken| panic!("{operation}: {broken}")).into_parts();
        let mut bytes = Vec::new();
        while let Some(chunk) = body.data().await {
            let Ok(chunk) = chunk else { break };
            let _ = body.flow_control().release_capacity(chunk.len());
            bytes.extend_from_slice(&chunk);
        }
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        let start_line = format!("HTTP/2 {}", head.status.as_u16());
        let reply = Reply::new(Message { start_line, headers: headers.collect(), body: bytes });
        self.service.ledger().saw(&self.method, &self.path, &reply);
        if let Some(key) = &self.key {
            self.service.ledger().told("", &operation, key, &reply);
        }
        reply
    }

    /// The caller is not interested any more: RST_STREAM.
    pub async fn reset(mut self) {
        self.body.send_reset(::h2::Reason::CANCEL);
        // The frame leaves when the connection's task runs.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
