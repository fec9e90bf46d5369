//! The booking system's answers: whatever comes back over a real connection falls into the class that the contract's table says.

use super::runner::{bytes, fuzz};
use entity::reservation::Details;
use jobs::booking::http::{HttpBookingSystem, HttpSettings};
use jobs::booking::{Booking, Looked, Nothing, Sent, Unknown};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const REFERENCE: &str = "01900000-0000-7000-8000-000000000000";
const WORDS: &[&str] = &[
    "{",
    "}",
    "\"",
    ":",
    ",",
    "null",
    "\"booking_id\":",
    "\"reference\":",
    "\"01900000-0000-7000-8000-000000000000\"",
    "\"BK-1\"",
    "\\u0000",
    "[",
    "]",
    "1",
    "\"quantity\":",
    "<",
];

#[derive(Clone, Debug)]
struct Script {
    status: u16,
    content_type: &'static str,
    retry_after: &'static str,
    body: Vec<u8>,
    /// So much of the answer comes before the connection ends.
    whole: bool,
}

fn script() -> impl Strategy<Value = Script> {
    let known = vec![200_u16, 201, 202, 204, 301, 307, 400, 401, 402, 403, 404, 405, 408, 409, 410, 418, 422, 425, 429, 500, 502, 503, 504];
    let status = prop_oneof![3 => prop::sample::select(known), 1 => 200..600_u16];
    let content_type =
        prop::sample::select(vec!["application/json", "application/problem+json", "text/html", "Application/JSON; charset=utf-8", ""]);
    let retry_after = prop::sample::select(vec!["", "7", "0", "-1", "1e3", "99999999999", "Wed, 02 Dec 2026 05:00:00 GMT", "soon"]);
    let body = bytes(include_str!("corpus/answers.txt"), WORDS);
    (status, content_type, retry_after, body, prop::bool::weighted(0.9))
        .prop_map(|(status, content_type, retry_after, body, whole)| Script { status, content_type, retry_after, body, whole })
}

impl Script {
    fn has_body(&self) -> bool {
        !matches!(self.status, 204 | 304)
    }

    fn encoded(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} x\r\nContent-Length: {}\r\n", self.status, self.body.len());
        for (name, value) in [("Content-Type", self.content_type), ("Retry-After", self.retry_after)] {
            if !value.is_empty() {
                head += &format!("{name}: {value}\r\n");
            }
        }
        let mut answer = format!("{head}\r\n").into_bytes();
        if self.has_body() {
            answer.extend_from_slice(&self.body);
        }
        if !self.whole {
            answer.pop();
        }
        answer
    }

    /// The id of a booking that the body shows; a member that is there twice is not readable.
    fn booking_id(&self, must_name: bool) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Shown {
            booking_id: String,
            reference: Option<String>,
        }
        // An array of the members in their order is no object.
        let Shown { booking_id, reference } = serde_json::from_slice(&self.body).ok().filter(|_| self.body.contains(&b'{'))?;
        let named = reference.map_or(!must_name, |reference| reference == REFERENCE);
        let blank = booking_id.chars().all(char::is_whitespace);
        let length = booking_id.chars().count();
        (named && !blank && length <= 255 && !booking_id.contains(char::is_control)).then_some(booking_id)
    }

    fn is_json(&self) -> bool {
        self.content_type.to_lowercase().contains("json") && serde_json::from_slice::<IgnoredAny>(&self.body).is_ok()
    }
}

/// Which booking system each method was told to be.
type Told = Arc<Mutex<Vec<u8>>>;

async fn serve(listener: tokio::net::TcpListener, told: Told) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let answer = told.lock().unwrap().clone();
        tokio::spawn(async move {
            let mut seen = Vec::new();
            let mut part = [0; 4096];
            // A head, and after it a body that ends with its brace: nothing else is sent here.
            loop {
                let n = stream.read(&mut part).await.unwrap_or(0);
                seen.extend_from_slice(&part[..n]);
                let whole = if seen.starts_with(b"POST") || seen.starts_with(b"PATCH") {
                    seen.ends_with(b"}")
                } else {
                    seen.ends_with(b"\r\n\r\n")
                };
                if n == 0 || whole {
                    break;
                }
            }
            let _ = stream.write_all(&answer).await;
        });
    }
}

#[test]
fn any_answer_falls_into_its_class() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told = Told::default();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    runtime.spawn(serve(listener, Arc::clone(&told)));
    let second = Duration::from_secs(10);
    let settings = HttpSettings { url, token: None, timeout: second, connect_timeout: second, keep_connections: false };
    let there = HttpBookingSystem::new(&settings).unwrap();
    let details = Details { item_code: "A".into(), quantity: 1, reserved_by: "b".into(), starts_at: None, ends_at: None, note: None };
    fuzz("answers", script(), |script| {
        *told.lock().unwrap() = script.encoded();
        let (booked, changed, cancelled, looked) = runtime.block_on(async {
            (
                there.book(REFERENCE, &details).await,
                there.change(REFERENCE, "k", &details).await,
                there.cancel(REFERENCE, "k").await,
                there.look_up(REFERENCE).await,
            )
        });
        let id = |sent: &Sent<Booking>| if let Sent::Done { told, .. } = sent { Some(told.booking_id.clone()) } else { None };
        let done = Sent::Done { status: script.status, told: () };
        let status = script.status;
        let broken = !script.whole && script.has_body() && !script.body.is_empty();
        let cut_head = !script.whole && (!script.has_body() || script.body.is_empty());
        if broken || cut_head {
            let broken = Sent::Unknown(Unknown::Broken);
            prop_assert_eq!((booked, &changed, &cancelled), (Sent::Unknown(Unknown::Broken), &broken, &broken));
            prop_assert_eq!(looked, Looked::Unknown(Unknown::Broken));
            return Ok(());
        }
        match status {
            200 | 201 => match script.booking_id(false) {
                Some(want) => prop_assert_eq!(id(&booked), Some(want)),
                None => prop_assert_eq!(&booked, &Sent::Unknown(Unknown::Unreadable)),
            },
            400 | 402 | 409 | 410 | 422 => prop_assert_eq!(&booked, &Sent::Refused { status }),
            401 | 403 | 404 | 405 => prop_assert_eq!(&booked, &Sent::Nothing(Nothing::Misconfigured { status })),
            429 => {
                let Sent::Nothing(Nothing::Busy { retry_after_s }) = booked else { panic!("{booked:?}") };
                prop_assert!((1..=86_400).contains(&retry_after_s));
                prop_assert!(script.retry_after != "7" || retry_after_s == 7);
            }
            _ => prop_assert_eq!(&booked, &Sent::Unknown(Unknown::Status(status))),
        }
        let json = script.is_json();
        match (status, json) {
            (200 | 204, _) => prop_assert_eq!((&changed, &cancelled), (&done, &done)),
            (404, true) => prop_assert_eq!((&changed, &cancelled), (&Sent::Refused { status }, &done)),
            (410, true) => prop_assert_eq!((&changed, &cancelled), (&Sent::Refused { status }, &done)),
            // A gateway's page says nothing about the booking.
            (404 | 410, false) => {
                let unknown = Sent::Unknown(Unknown::Status(status));
                prop_assert_eq!((&changed, &cancelled), (&unknown, &unknown));
            }
            (400 | 402 | 409 | 422, _) => prop_assert_eq!((&changed, &cancelled), (&Sent::Refused { status }, &Sent::Refused { status })),
            (401 | 403 | 405 | 429, _) => prop_assert!(matches!((&changed, &cancelled), (Sent::Nothing(_), Sent::Nothing(_)))),
            _ => prop_assert!(matches!((&changed, &cancelled), (Sent::Unknown(_), Sent::Unknown(_)))),
        }
        match (status, script.booking_id(true)) {
            (200, Some(want)) => prop_assert!(matches!(&looked, Looked::Found(booking) if booking.booking_id == want), "{:?}", looked),
            (200, None) => prop_assert_eq!(looked, Looked::Unknown(Unknown::Unreadable)),
            (404, _) if json => prop_assert_eq!(looked, Looked::NotThere),
            (status, _) => prop_assert_eq!(looked, Looked::Unknown(Unknown::Status(status))),
        }
        Ok(())
    });
}
