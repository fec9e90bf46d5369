//! HTTP/1.1 by hand, for both ends: nothing is merged, checked or repaired on the way.

use std::io::{Error, ErrorKind, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A head and a body as they came.
#[derive(Clone, Debug)]
pub struct Message {
    pub start_line: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

/// What a message without a length has for a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unframed {
    Empty,
    UntilClose,
    NeverAny,
}

/// A connection with what was read ahead on it.
pub struct Wire {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub fn new(stream: TcpStream) -> Self {
        // A small piece must leave when it is written: some tests are about pieces.
        let _ = stream.set_nodelay(true);
        Self { stream, buffer: Vec::new() }
    }

    pub async fn connect(port: u16) -> Result<Self> {
        Ok(Self::new(TcpStream::connect(("127.0.0.1", port)).await?))
    }

    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next message. Interim answers (1xx) are skipped.
    pub async fn read(&mut self, unframed: Unframed) -> Result<Message> {
        let (start_line, headers) = loop {
            let head = self.take_until(b"\r\n\r\n").await?;
            let head = String::from_utf8_lossy(&head).into_owned();
            let mut lines = head.split("\r\n");
            let start_line = lines.next().unwrap_or_default().to_owned();
            if start_line.starts_with("HTTP/1.1 1") {
                continue;
            }
            let headers = lines.filter_map(|l| l.split_once(':')).map(|(n, v)| (n.to_owned(), v.trim().to_owned())).collect();
            break (start_line, headers);
        };
        let mut message = Message { start_line, headers, body: Vec::new() };
        let without_body = [" 204", " 304"].iter().any(|s| message.start_line.starts_with("HTTP/") && message.start_line.contains(s));
        if unframed == Unframed::NeverAny || without_body {
            return Ok(message);
        }
        if message.header("transfer-encoding").is_some_and(|v| v.contains("chunked")) {
            message.body = self.take_chunks().await?;
        } else if let Some(length) = message.header("content-length") {
            let length = length.parse().map_err(|_| broken("Content-Length is no number"))?;
            message.body = self.take(length).await?;
        } else if unframed == Unframed::UntilClose {
            while self.more().await.is_ok() {}
            message.body = std::mem::take(&mut self.buffer);
        }
        Ok(message)
    }

    async fn more(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(broken("closed before a whole message")),
            _ => Ok(()),
        }
    }

    async fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.more().await?;
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// What stands before the mark; the mark itself is dropped.
    async fn take_until(&mut self, mark: &[u8]) -> Result<Vec<u8>> {
        loop {
            if let Some(at) = self.buffer.windows(mark.len()).position(|w| w == mark) {
                let taken = self.take(at).await?;
                self.take(mark.len()).await?;
                return Ok(taken);
            }
            self.more().await?;
        }
    }

    async fn take_chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.take_until(b"\r\n").await?;
            let size = String::from_utf8_lossy(&line);
            let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16).map_err(|_| broken("chunk size"))?;
            if size == 0 {
                // Trailers end with an empty line; without any, that line is all there is.
                while !self.take_until(b"\r\n").await?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.take(size).await?);
            self.take(2).await?;
        }
    }
}

fn broken(why: &str) -> Error {
    Error::new(ErrorKind::UnexpectedEof, why)
}
