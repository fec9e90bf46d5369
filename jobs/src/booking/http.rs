//! The booking system over HTTP: every failure of the client and every status becomes exactly one class.

mod content_coding;

use std::time::{Duration, SystemTime};

use entity::crash_point::{self, Moment};
use entity::reservation::Details;
use reqwest::header::{self, HeaderMap};
use reqwest::{Method, RequestBuilder, Response, Url, redirect};
use serde::{Deserialize, Serialize};

use super::shown::Shown;
use super::{Booking, Looked, Nothing, Sent, Unknown, is_booking_id};

/// An answer beyond this is unreadable, decoded or not.
const ANSWER_LIMIT_BYTES: usize = 1 << 20;
/// A pooled connection older than this may just be closed by the other side: a send on it would be unknown for nothing.
const POOL_IDLE: Duration = Duration::from_secs(5);

/// Where the booking system is and how long it may take.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Base address; `/bookings` is added.
    pub url: Url,
    /// Bearer token.
    pub token: Option<String>,
    /// One call, headers and body together.
    pub timeout: Duration,
    /// Until there is a connection, TLS included.
    pub connect_timeout: Duration,
    /// Whether connections are kept for the next call. Without deduplication and look-up nothing heals a send that died with a
    /// connection the other side had just closed, so there each call has its own.
    pub keep_connections: bool,
}

/// The client. Follows no redirect, which could carry a booking to a second host, and takes no proxy from the environment.
#[derive(Debug, Clone)]
pub struct HttpBookingSystem {
    client: reqwest::Client,
    bookings: Url,
    token: Option<String>,
}

/// No client could be made.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// The address has no host, or is not HTTP.
    #[error("BOOKING_URL must be an http or https address")]
    Address,
    /// The TLS library does not start.
    #[error("no HTTP client: {0}")]
    Client(#[source] reqwest::Error),
}

/// The whole values, as the booking system is sent them.
#[derive(Serialize)]
struct BookingRequest<'a> {
    reference: &'a str,
    item_code: &'a str,
    quantity: i32,
    reserved_by: &'a str,
    starts_at: Option<entity::timestamp::Timestamp>,
    ends_at: Option<entity::timestamp::Timestamp>,
    note: Option<&'a str>,
}

#[derive(Deserialize)]
struct BookingAnswer {
    booking_id: String,
    reference: Option<String>,
}

impl HttpBookingSystem {
    /// Prepares the client; connects to nothing yet.
    ///
    /// # Errors
    /// [`SetUpError`].
    pub fn new(settings: &HttpSettings) -> Result<Self, SetUpError> {
        // Whoever comes first installs it; the second call finds it done.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(settings.timeout)
            .connect_timeout(settings.connect_timeout)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(if settings.keep_connections { usize::MAX } else { 0 })
            .user_agent(concat!("reservation-api/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(SetUpError::Client)?;
        if !matches!(settings.url.scheme(), "http" | "https") || settings.url.host_str().is_none() {
            return Err(SetUpError::Address);
        }
        let mut bookings = settings.url.clone();
        bookings.path_segments_mut().map_err(|()| SetUpError::Address)?.pop_if_empty().push("bookings");
        bookings.set_query(None);
        bookings.set_fragment(None);
        Ok(Self { client, bookings, token: settings.token.clone() })
    }

    /// Books under `reference`, which is the idempotency key there, too.
    pub async fn book(&self, reference: &str, details: &Details) -> Sent<Booking> {
        let request = self.request(Method::POST, None, reference).json(&body(reference, details));
        match self.exchange("book", request).await {
            Err(failed) => failed.into(),
            Ok(Reply { status: status @ (200 | 201), body, .. }) => match booking(&body, reference, false) {
                Some(told) => Sent::Done { status, told },
                None => Sent::Unknown(Unknown::Unreadable),
            },
            Ok(reply @ Reply { status: 404 | 405, .. }) => Sent::Nothing(Nothing::Misconfigured { status: reply.status }),
            Ok(reply) => reply.class(),
        }
    }

    /// Changes the booking of `reference` to these whole values, under the change's own `key`.
    pub async fn change(&self, reference: &str, key: &str, details: &Details) -> Sent {
        let request = self.request(Method::PATCH, Some(reference), key).json(&body(reference, details));
        match self.exchange("change", request).await {
            Err(failed) => failed.into(),
            Ok(Reply { status: status @ (200 | 204), .. }) => Sent::Done { status, told: () },
            Ok(Reply { status: 404, json: true, .. }) => Sent::Refused { status: 404 },
            // A gateway's page says nothing about the booking.
            Ok(Reply { status: 410, json: false, .. }) => Sent::Unknown(Unknown::Status(410)),
            Ok(reply) => reply.class(),
        }
    }

    /// Cancels the booking of `reference`, under the cancellation's own `key`. One that is not there is cancelled.
    pub async fn cancel(&self, reference: &str, key: &str) -> Sent {
        match self.exchange("cancel", self.request(Method::DELETE, Some(reference), key)).await {
            Err(failed) => failed.into(),
            Ok(Reply { status: status @ (200 | 204), .. } | Reply { status: status @ (404 | 410), json: true, .. }) => {
                Sent::Done { status, told: () }
            }
            // A gateway's page says nothing about the booking.
            Ok(Reply { status: 410, .. }) => Sent::Unknown(Unknown::Status(410)),
            Ok(reply) => reply.class(),
        }
    }

    /// Asks for the booking of `reference`.
    pub async fn look_up(&self, reference: &str) -> Looked {
        let request = self.client.request(Method::GET, self.address(Some(reference)));
        match self.exchange("look up", self.authorize(request, reference)).await {
            Ok(Reply { status: 200, body, .. }) => match booking(&body, reference, true) {
                Some(booking) => Looked::Found(booking),
                None => Looked::Unknown(Unknown::Unreadable),
            },
            Ok(Reply { status: 404, json: true, .. }) => Looked::NotThere,
            Ok(reply) => Looked::Unknown(Unknown::Status(reply.status)),
            Err(Failed::Unknown(why)) => Looked::Unknown(why),
            Err(Failed::NotSent) => Looked::Unknown(Unknown::Broken),
        }
    }

    fn address(&self, reference: Option<&str>) -> Url {
        let mut url = self.bookings.clone();
        if let (Some(reference), Ok(mut segments)) = (reference, url.path_segments_mut()) {
            segments.push(reference);
        }
        url
    }

    fn request(&self, method: Method, reference: Option<&str>, key: &str) -> RequestBuilder {
        let request = self.client.request(method, self.address(reference)).header("Idempotency-Key", format!("\"{key}\""));
        self.authorize(request, key)
    }

    /// The trace id is the operation's reference, so that all attempts of one key are one trace there.
    fn authorize(&self, request: RequestBuilder, trace: &str) -> RequestBuilder {
        let trace_id = trace.replace('-', "");
        let request = request
            .header("traceparent", format!("00-{trace_id}-{:016x}-01", rand::random_range(1..=u64::MAX)))
            .header(header::ACCEPT, "application/json")
            .header(header::ACCEPT_ENCODING, content_coding::ACCEPTED);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Every call passes here: with a crash point before it is sent and one after it is answered.
    async fn exchange(&self, name: &str, request: RequestBuilder) -> Result<Reply, Failed> {
        crash_point::reach(name, Moment::Before);
        let reply = self.send(request).await;
        crash_point::reach(name, Moment::After);
        reply
    }

    async fn send(&self, request: RequestBuilder) -> Result<Reply, Failed> {
        let response = request.send().await.map_err(|e| failure(&e))?;
        let (status, retry_after_s, json) = (response.status(), retry_after_s(response.headers()), is_json(&response));
        let headers = response.headers().clone();
        let body = read_limited(response).await.map_err(Failed::Unknown)?;
        let body = content_coding::decode(&headers, body, ANSWER_LIMIT_BYTES).map_err(Failed::Unknown)?;
        let json = json && serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok();
        Ok(Reply { status: status.as_u16(), retry_after_s, json, body })
    }
}

/// No whole answer.
enum Failed {
    /// There was no connection.
    NotSent,
    Unknown(Unknown),
}

impl<T> From<Failed> for Sent<T> {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::NotSent => Self::Nothing(Nothing::NoConnection),
            Failed::Unknown(why) => Self::Unknown(why),
        }
    }
}

/// A whole answer.
struct Reply {
    status: u16,
    retry_after_s: u64,
    json: bool,
    body: Vec<u8>,
}

impl Reply {
    /// The classes that all methods share.
    fn class<T>(&self) -> Sent<T> {
        match self.status {
            status @ (400 | 402 | 409 | 410 | 422) => Sent::Refused { status },
            status @ (401 | 403 | 405) => Sent::Nothing(Nothing::Misconfigured { status }),
            429 => Sent::Nothing(Nothing::Busy { retry_after_s: self.retry_after_s }),
            status => Sent::Unknown(Unknown::Status(status)),
        }
    }
}

fn body<'a>(reference: &'a str, details: &'a Details) -> BookingRequest<'a> {
    BookingRequest {
        reference,
        item_code: &details.item_code,
        quantity: details.quantity,
        reserved_by: &details.reserved_by,
        starts_at: details.starts_at,
        ends_at: details.ends_at,
        note: details.note.as_deref(),
    }
}

/// A readable booking; a look-up must name our reference, an answer to a POST must at least not name another.
fn booking(body: &[u8], reference: &str, must_name: bool) -> Option<Booking> {
    // Read as a struct, an array would do as well.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let answer: BookingAnswer = serde_json::from_slice(body).ok().filter(|_| is_object)?;
    let named = match &answer.reference {
        Some(named) => named == reference,
        None => !must_name,
    };
    if !named || !is_booking_id(&answer.booking_id) {
        return None;
    }
    Some(Booking { booking_id: answer.booking_id, shown: Shown::read(body) })
}

/// A client error: only one before there was a connection proves that nothing was sent.
fn failure(error: &reqwest::Error) -> Failed {
    if error.is_connect() || error.is_builder() {
        Failed::NotSent
    } else if error.is_timeout() {
        Failed::Unknown(Unknown::TimedOut)
    } else {
        Failed::Unknown(Unknown::Broken)
    }
}

fn is_json(response: &Response) -> bool {
    let media_type = response.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// `Retry-After` in seconds, a date converted; 1 where there is none, never more than a day.
fn retry_after_s(headers: &HeaderMap) -> u64 {
    let value = headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()).unwrap_or_default().trim();
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    let seconds = if digits {
        Some(value.parse().unwrap_or(u64::MAX))
    } else {
        let date = headers.get(header::DATE).and_then(|v| v.to_str().ok()).and_then(http_date);
        // Where it says what time it is there, its clock need not agree with ours (RFC 9110, section 10.2.3).
        http_date(value).map(|until| until.duration_since(date.unwrap_or_else(wall_clock)).map_or(0, |left| left.as_secs()))
    };
    seconds.unwrap_or(1).clamp(1, 86_400)
}

#[expect(clippy::disallowed_methods, reason = "what is compared with it is a date of the wall clock")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// In any of the three forms that a recipient must read (RFC 9110, section 5.6.7).
fn http_date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text.trim()).ok()
}

async fn read_limited(mut response: Response) -> Result<Vec<u8>, Unknown> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(body),
            Ok(Some(chunk)) if body.len() + chunk.len() > ANSWER_LIMIT_BYTES => return Err(Unknown::Unreadable),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Err(error) if error.is_timeout() => return Err(Unknown::TimedOut),
            Err(_) => return Err(Unknown::Broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_read_in_seconds_or_as_a_date_by_either_clock() {
        let read = |headers: &[(header::HeaderName, String)]| {
            retry_after_s(&headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect())
        };
        let after = |value: &str| vec![(header::RETRY_AFTER, value.to_owned())];
        let at = |s: i64| wall_clock() - Duration::from_secs(3600) + Duration::from_secs(u64::try_from(3600 + s).unwrap());
        let in_seconds = |s: i64| httpdate::fmt_http_date(at(s));
        for (value, seconds) in [("7", 7), ("0", 1), ("soon", 1), ("-5", 1), ("+5", 1), ("99999999999999999999999999999", 86_400)] {
            assert_eq!(read(&after(value)), seconds, "{value}");
        }
        assert_eq!(read(&[]), 1);
        assert!((15..=20).contains(&read(&after(&in_seconds(20)))), "by our own clock");
        assert_eq!(read(&after(&in_seconds(-20))), 1);
        let theirs = |s: i64| [after(&in_seconds(s)), vec![(header::DATE, in_seconds(3600))]].concat();
        assert!((19..=21).contains(&read(&theirs(3620))), "by theirs, which is an hour ahead");
    }
}
