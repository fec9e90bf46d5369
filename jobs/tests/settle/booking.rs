//! A booking system that answers when the test says so, and remembers what it was asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Every request waits for its answer; each connection carries one.
pub struct Script {
    pub url: String,
    asked: Arc<Mutex<Vec<String>>>,
    arrived: mpsc::UnboundedReceiver<TcpStream>,
}

impl Script {
    pub async fn listen() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, arrived) = mpsc::unbounded_channel();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, tell) = (Arc::clone(&seen), tell.clone());
                tokio::spawn(async move {
                    let Some((method, stream)) = read(stream).await else { return };
                    seen.lock().unwrap().push(method);
                    let _ = tell.send(stream);
                });
            }
        });
        Self { url, asked, arrived }
    }

    /// The methods of all requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Answers the next requests, one after the other.
    pub async fn says(&mut self, answers: &[(u16, &str)]) {
        for (status, body) in answers {
            answer(self.arrives().await, *status, body).await;
        }
    }

    /// The next request, unanswered.
    pub async fn arrives(&mut self) -> TcpStream {
        // Longer than a slow machine takes, shorter than whoever looks for a hanging test.
        let patience = Duration::from_secs(20);
        tokio::time::timeout(patience, self.arrived.recv()).await.expect("a request arrives").unwrap()
    }
}

pub async fn answer(mut request: TcpStream, status: u16, body: &str) {
    let head = format!("HTTP/1.1 {status} Told\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    // Whoever asked may be gone.
    let _ = request.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).await;
}

async fn read(stream: TcpStream) -> Option<(String, TcpStream)> {
    let mut stream = BufReader::new(stream);
    let (mut lines, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
        lines.push(line);
    }
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    let method = lines.first()?.split(' ').next()?.to_owned();
    Some((method, stream.into_inner()))
}
