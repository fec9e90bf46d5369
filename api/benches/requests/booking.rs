//! A booking system that says yes at once: what is measured is not its work.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::http::message_length;

const ANSWER: &[u8] =
    b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 38\r\n\r\n{\"booking_id\":\"BK-8e03978e40d543e8bc\"}";

/// Starts it; its address.
pub async fn start() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    format!("http://{address}")
}

async fn serve(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(4096);
    loop {
        while let Some(length) = message_length(&buffer) {
            buffer.drain(..length);
            if stream.write_all(ANSWER).await.is_err() {
                return;
            }
        }
        if !stream.read_buf(&mut buffer).await.is_ok_and(|n| n > 0) {
            return;
        }
    }
}
