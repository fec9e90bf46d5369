//! HTTP/2 without TLS, as a proxy speaks it: many requests on one connection, each of which can be reset alone.

use super::reply::Reply;
use super::service::Service;
use super::wire::Message;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use poem::http::{Request, header::HOST};
use serde_json::Value;

/// One connection; clones share it.
#[derive(Clone)]
pub struct Http2 {
    port: u16,
    requests: SendRequest<std::io::Cursor<Vec<u8>>>,
}

/// A request that is sent, and not answered yet.
pub struct Stream {
    answer: ResponseFuture,
    sending: SendStream<std::io::Cursor<Vec<u8>>>,
}

impl Http2 {
    pub async fn connect(service: &Service) -> Self {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", service.port())).await.expect("a connection");
        let (requests, connection) = h2::client::Builder::new().handshake(stream).await.expect("HTTP/2 with prior knowledge");
        tokio::spawn(async move {
            // Its end shows in the streams.
            let _ = connection.await;
        });
        Self { port: service.port(), requests }
    }

    pub async fn post(&self, key: &str, body: &Value) -> Stream {
        let request = Request::post(format!("http://127.0.0.1:{}/reservations", self.port))
            .header("idempotency-key", format!("\"{key}\""))
            .header("content-type", "application/json");
        self.send(request.body(()).expect("a request"), Some(body.to_string().into_bytes())).await
    }

    pub async fn get(&self, target: &str) -> Stream {
        let request = Request::get(format!("http://127.0.0.1:{}{target}", self.port));
        self.send(request.body(()).expect("a request"), None).await
    }

    async fn send(&self, request: Request<()>, body: Option<Vec<u8>>) -> Stream {
        debug_assert!(!request.headers().contains_key(HOST), "the authority says it");
        let mut ready = self.requests.clone().ready().await.expect("an open connection");
        let (answer, mut sending) = ready.send_request(request, body.is_none()).expect("a stream");
        if let Some(body) = body {
            sending.send_data(std::io::Cursor::new(body), true).expect("the body is sent");
        }
        Stream { answer, sending }
    }
}

impl Stream {
    /// RST_STREAM: the caller goes, the connection stays.
    pub fn reset(mut self) {
        self.sending.send_reset(Reason::CANCEL);
    }

    pub async fn reply(self) -> Reply {
        let (head, mut body) = self.answer.await.expect("an answer").into_parts();
        let mut bytes = Vec::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk.expect("the whole body");
            body.flow_control().release_capacity(chunk.len()).expect("room for more");
            bytes.extend_from_slice(&chunk);
        }
        let header = |(name, value): (&poem::http::HeaderName, &poem::http::HeaderValue)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        Reply::new(Message {
            start_line: format!("HTTP/2 {}", head.status.as_u16()),
            headers: head.headers.iter().map(header).collect(),
            body: bytes,
        })
    }
}
