//! How the booking system plays a script.

use super::coding;
use super::upstream::{Booking, Request, Step, Upstream};
use super::wire::Wire;
use serde_json::{Value, json};
use std::io::Result;
use std::time::Duration;

/// The members of a booking that a change can change.
const CHANGEABLE: [&str; 4] = ["quantity", "starts_at", "ends_at", "note"];

/// Plays the script; whether the connection goes on afterwards.
pub(super) async fn play(upstream: &Upstream, wire: &mut Wire, request: &Request, script: Vec<Step>) -> Result<bool> {
    let mut made = None;
    // A look-up tells what is there when it arrives, however late its answer leaves.
    let known = find(upstream, request);
    for step in script.into_iter().chain([Step::Answer]) {
        match step {
            Step::After(milliseconds) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
            Step::Gate(name) => upstream.pass_gate(name).await,
            Step::Book if request.method == "POST" => made = Some(book(upstream, request)),
            Step::Book => change(upstream, request),
            Step::Answer | Step::Answer200 => {
                let (status, body) = obey(upstream, request, made, known);
                let status = if matches!(step, Step::Answer200) && status == 201 { 200 } else { status };
                return send_json(wire, status, &body, &[]).await;
            }
            Step::Coded(name) => {
                let (status, body) = obey(upstream, request, made, known);
                let body = coding::encode(name, body.to_string().as_bytes());
                return send(wire, status, "application/json", &[("Content-Encoding", name)], &body).await;
            }
            Step::Packed(name, body) => {
                let (status, _) = obey(upstream, request, made, known);
                return send(wire, status, "application/json", &[("Content-Encoding", name)], &body).await;
            }
            Step::Showing(members) => {
                let (status, mut body) = obey(upstream, request, made, known);
                for name in CHANGEABLE {
                    if let Some(booking) = body.as_object_mut() {
                        let _ = booking.remove(name);
                        booking.extend(members.get(name).map(|value| (name.to_owned(), value.clone())));
                    }
                }
                return send_json(wire, status, &body, &[]).await;
            }
            Step::Status(status) => return send_json(wire, status, &json!({"error": "scripted"}), &[]).await,
            Step::Busy(status, after) => return send_json(wire, status, &json!({"error": "scripted"}), &[("Retry-After", after)]).await,
            Step::Page(status) => return send(wire, status, "text/html", &[], b"<html><body>gateway</body></html>").await,
            Step::Redirect(status, to) => return send_json(wire, status, &json!({}), &[("Location", &to)]).await,
            Step::Silence => {
                tokio::time::sleep(Duration::from_secs(120)).await;
                return Ok(false);
            }
            Step::Close => return Ok(false),
            Step::Reset => {
                let _ = wire.stream.set_zero_linger();
                return Ok(false);
            }
            Step::Half => {
                let body = shown(&made.unwrap_or_else(|| book(upstream, request))).to_string().into_bytes();
                wire.write(&head(201, "application/json", &[], body.len())).await?;
                wire.write(&body[..body.len() / 2]).await?;
                return Ok(false);
            }
            Step::Garbage => {
                let _ = made.unwrap_or_else(|| book(upstream, request));
                return send(wire, 201, "application/json", &[], b"{\"booking_id\": \xff").await;
            }
            Step::Nameless => {
                let booking = made.unwrap_or_else(|| book(upstream, request));
                return send_json(wire, 201, &json!({"reference": booking.reference}), &[]).await;
            }
            Step::Endless => {
                let _ = made.unwrap_or_else(|| book(upstream, request));
                wire.write(b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
                wire.write(b"10\r\n{\"booking_id\": \"\r\n").await?;
                // Bounded all the same, should nobody hang up: 64 MiB.
                for _ in 0..64 {
                    wire.write(b"100000\r\n").await?;
                    wire.write(&vec![b'x'; 1 << 20]).await?;
                    wire.write(b"\r\n").await?;
                }
                return Ok(false);
            }
            Step::Drip => {
                let body = shown(&made.unwrap_or_else(|| book(upstream, request))).to_string().into_bytes();
                wire.write(&head(201, "application/json", &[], body.len())).await?;
                for byte in body {
                    wire.write(&[byte]).await?;
                    tokio::time::sleep(Duration::from_millis(400)).await;
                }
                return Ok(true);
            }
            Step::Chatty => {
                let body = shown(&made.unwrap_or_else(|| book(upstream, request))).to_string().into_bytes();
                return send(wire, 201, "application/json", &[("Set-Cookie", "session=secret"), ("X-Internal", "secret")], &body).await;
            }
        }
    }
    Ok(false)
}

/// Does what the request asks for; status and body of the answer.
fn obey(upstream: &Upstream, request: &Request, made: Option<Booking>, known: Option<Booking>) -> (u16, Value) {
    match request.method.as_str() {
        "POST" => return (201, shown(&made.unwrap_or_else(|| book(upstream, request)))),
        "PATCH" | "DELETE" => change(upstream, request),
        _ => {}
    }
    let found = match request.method.as_str() {
        "GET" => known.filter(|b| upstream.inner().looks_up && !b.cancelled),
        "DELETE" => known.filter(|b| !b.cancelled),
        _ => find(upstream, request),
    };
    found.map_or_else(|| (404, json!({"error": "no such booking"})), |booking| (200, shown(&booking)))
}

/// Makes the booking; where keys are deduplicated, only the first time.
fn book(upstream: &Upstream, request: &Request) -> Booking {
    let key = request.head.header("idempotency-key").unwrap_or_default().to_owned();
    let deduplicates = upstream.inner().deduplicates;
    let mut memory = upstream.memory();
    if let Some(earlier) = memory.bookings.iter().find(|b| deduplicates && !key.is_empty() && b.key == key) {
        return earlier.clone();
    }
    let text = |name: &str| request.body[name].as_str().unwrap_or_default().to_owned();
    let booking = Booking {
        booking_id: format!("BK-{}", uuid::Uuid::new_v4().simple()),
        reference: text("reference"),
        item_code: text("item_code"),
        key,
        details: request.body.clone(),
        cancelled: false,
    };
    memory.bookings.push(booking.clone());
    booking
}

fn find(upstream: &Upstream, request: &Request) -> Option<Booking> {
    let reference = request.path.rsplit('/').next().unwrap_or_default();
    upstream.memory().bookings.iter().find(|b| b.reference == reference).cloned()
}

fn change(upstream: &Upstream, request: &Request) {
    let reference = request.path.rsplit('/').next().unwrap_or_default();
    for booking in upstream.memory().bookings.iter_mut().filter(|b| b.reference == reference) {
        if request.method == "DELETE" {
            booking.cancelled = true;
            continue;
        }
        for name in CHANGEABLE {
            if let Some(value) = request.body.get(name) {
                booking.details[name] = value.clone();
            }
        }
    }
}

fn shown(booking: &Booking) -> Value {
    let mut shown = booking.details.clone();
    shown["booking_id"] = json!(booking.booking_id);
    shown["reference"] = json!(booking.reference);
    shown
}

async fn send_json(wire: &mut Wire, status: u16, body: &Value, more: &[(&str, &str)]) -> Result<bool> {
    send(wire, status, "application/json", more, body.to_string().as_bytes()).await
}

async fn send(wire: &mut Wire, status: u16, media_type: &str, more: &[(&str, &str)], body: &[u8]) -> Result<bool> {
    let mut bytes = head(status, media_type, more, body.len());
    bytes.extend(body);
    wire.write(&bytes).await?;
    Ok(true)
}

fn head(status: u16, media_type: &str, more: &[(&str, &str)], length: usize) -> Vec<u8> {
    let more: String = more.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} Scripted\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n{more}\r\n").into_bytes()
}
