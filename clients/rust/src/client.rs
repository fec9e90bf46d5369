//! The operations.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use backon::{ExponentialBuilder, Retryable as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, header};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::answer::{Done, Miss, read};
use crate::store::check;
use crate::{ChangeReservation, Error, NewReservation, Problem, Record, Reservation, Retry, SavedAnswer, SavedRequest, State, Store};

const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_DEADLINE: Duration = Duration::from_secs(366 * 24 * 3600);
const LARGEST_ANSWER: usize = 1 << 20;

/// A final answer: the same on every retry.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The reservation.
    pub reservation: Reservation,
    /// Pass it to [`Client::change`] as `if_match`.
    pub etag: Option<String>,
    /// The server had stored the answer before: an earlier attempt did the work.
    pub replayed: bool,
    /// HTTP requests of this call; 0 where the store had the answer.
    pub attempts: u32,
}

/// Sends each intent under one key until its answer is final.
pub struct Client {
    base_url: String,
    store: Box<dyn Store>,
    http: reqwest::Client,
    token: Option<String>,
    deadline: Duration,
    attempt_timeout: Duration,
    pause: Duration,
    keep_for: Duration,
    respond_async: bool,
}

/// One request, as it is sent on every attempt.
struct Sending<'a> {
    method: Method,
    path: &'a str,
    key: Option<&'a str>,
    if_match: Option<&'a str>,
    prefer: Mutex<Option<String>>,
    body: Option<String>,
    success: u16,
}

impl Client {
    /// A client of the service at `base_url` that keeps its intents in `store`.
    ///
    /// # Errors
    /// Where no HTTP client can be made.
    pub fn new(base_url: &str, store: impl Store + 'static) -> Result<Self, Error> {
        // Redirects would send the body elsewhere, or turn the POST into a GET.
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        Ok(Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            store: Box::new(store),
            http,
            token: None,
            deadline: Duration::from_secs(120),
            attempt_timeout: Duration::from_secs(40),
            pause: Duration::from_secs(1),
            keep_for: Duration::from_secs(20 * 3600),
            respond_async: false,
        })
    }

    /// Sent as a bearer token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// For one call, all attempts and pauses together, 120 s; whatever the server does, the call ends by then. Zero sends nothing.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// For one attempt; longer than the server's `ANSWER_WITHIN` (25 s) saves retries; 40 s.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// The first pause where the server names none, 1 s; it doubles up to 30 s.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// An intent older than this is never sent again, 20 h; keep it below the server's `retention_ms`.
    #[must_use]
    pub fn keep_for(mut self, keep_for: Duration) -> Self {
        self.keep_for = keep_for;
        self
    }

    /// Ask the server not to hold the connection of [`Client::create`]; the answer is then polled.
    #[must_use]
    pub fn respond_async(mut self, respond_async: bool) -> Self {
        self.respond_async = respond_async;
        self
    }

    /// An HTTP client of your own, for proxies or certificates. It should follow no redirects.
    #[must_use]
    pub fn http(mut self, http: reqwest::Client) -> Self {
        self.http = http;
        self
    }

    /// Makes a reservation, once for this intent however often it is called.
    ///
    /// `intent`: your own name of what you want, such as an order number.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create(&self, intent: &str, reservation: &NewReservation) -> Result<Answer, Error> {
        let request = SavedRequest { if_match: None, body: to_map(reservation) };
        self.keyed(intent, Method::POST, "/reservations", request, 201, self.respond_async).await
    }

    /// Changes a reservation, once for this intent. `if_match`: the `ETag` of what the change was decided on.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn change(&self, intent: &str, id: &str, change: &ChangeReservation, if_match: &str) -> Result<Answer, Error> {
        let request = SavedRequest { if_match: Some(if_match.to_owned()), body: to_map(change) };
        self.keyed(intent, Method::PATCH, &path(id), request, 200, false).await
    }

    /// Cancels a reservation. Needs no intent: cancelling twice is cancelling once.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cancel(&self, id: &str) -> Result<(), Error> {
        self.settle(&Sending::unkeyed(Method::DELETE, &path(id), 204), self.deadline).await.map(|_| ())
    }

    /// Reads a reservation.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get(&self, id: &str) -> Result<Answer, Error> {
        let (done, attempts) = self.settle(&Sending::unkeyed(Method::GET, &path(id), 200), self.deadline).await?;
        finish(done.answer, false, attempts)
    }

    async fn keyed(
        &self,
        intent: &str,
        method: Method,
        path: &str,
        request: SavedRequest,
        success: u16,
        respond_async: bool,
    ) -> Result<Answer, Error> {
        let wanted = Record {
            intent: intent.to_owned(),
            key: uuid::Uuid::new_v4().to_string(),
            created_at_ms: now_ms(),
            method: method.to_string(),
            path: path.to_owned(),
            request,
            replaced: Vec::new(),
            state: State::Open,
            answer: None,
        };
        // What cannot be sent is not stored either.
        self.request(&Sending::keyed(method.clone(), &wanted, success), self.attempt_timeout)?;
        let failed = |source| Error::Store { intent: intent.to_owned(), source };
        // The key exists, durably, before the first attempt: whoever comes back after a crash finds it.
        let mut record = self.store.begin(intent, &wanted).and_then(|record| check(intent, record)).map_err(failed)?;
        if (&record.method, &record.path) != (&wanted.method, &wanted.path) {
            return Err(Error::IntentMismatch);
        }
        if record.request != wanted.request && record.state != State::Mendable {
            return Err(Error::IntentMismatch);
        }
        if let Some(saved) = record.answer {
            return finish(saved, false, 0);
        }

        // The server forgets a key after its retention. Sent again after that it would book again.
        let age = Duration::from_millis(now_ms().saturating_sub(record.created_at_ms));
        let Some(left) = self.keep_for.checked_sub(age).filter(|left| !left.is_zero()) else {
            return Err(unknown("this intent is too old to be sent again: look whether it was booked"));
        };
        // Nothing that was sent under this key so far can have been accepted.
        let fresh = record.key == wanted.key || record.state == State::Mendable;
        if record.state == State::Mendable {
            if record.request != wanted.request {
                record.replaced.push(std::mem::replace(&mut record.request, wanted.request));
            }
            record.state = State::Open;
            self.store.save(intent, &record).map_err(failed)?;
        }
        let sending = Sending::keyed(method, &record, success);
        if respond_async {
            sending.prefer("respond-async".to_owned());
        }
        let outcome = self.settle(&sending, self.deadline.min(left)).await;
        match &outcome {
            Ok((done, _)) => (record.state, record.answer) = (State::Final, Some(done.answer.clone())),
            Err(Error::Rejected { problem, .. }) => {
                let answer = SavedAnswer { status: problem.status, etag: None, body: to_value(problem) };
                (record.state, record.answer) = (State::Final, Some(answer));
            }
            // After an attempt of unknown outcome the request may have been accepted: no other may take its place.
            Err(Error::NeedsCorrection { attempts: 1, .. }) if fresh => record.state = State::Mendable,
            // Not this request has the key: rather the one before, whose refusal was not the whole truth.
            Err(Error::KeyReused { .. }) => {
                record.request = record.replaced.pop().unwrap_or(record.request);
                record.state = State::Mendable;
            }
            Err(_) => {}
        }
        if record.state != State::Open {
            self.store.save(intent, &record).map_err(failed)?;
        }
        let (done, attempts) = outcome?;
        finish(done.answer, done.replayed, attempts)
    }

    /// Sends the same request until its answer is final or the deadline is over.
    async fn settle(&self, sending: &Sending<'_>, deadline: Duration) -> Result<(Done, u32), Error> {
        if deadline.is_zero() {
            return Err(unknown("no time to send anything"));
        }
        let end = Instant::now() + deadline.min(LONGEST_DEADLINE);
        let attempts = std::sync::atomic::AtomicU32::new(0);
        let last_problem = Mutex::new(None);
        let pauses =
            ExponentialBuilder::new().with_min_delay(self.pause).with_max_delay(LONGEST_PAUSE).with_factor(2.0).without_max_times();
        let attempt = || async {
            attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let result = self.send(sending, end).await;
            if let Err(Miss::NotYet { problem, accepted, .. }) = &result {
                if problem.is_some() {
                    last_problem.lock().unwrap_or_else(PoisonError::into_inner).clone_from(problem);
                }
                if *accepted {
                    sending.prefer(format!("wait={}", (self.attempt_timeout.as_secs() / 2).clamp(1, 10)));
                }
            }
            result
        };
        let result = attempt
            .retry(pauses)
            .when(|miss| matches!(miss, Miss::NotYet { .. }))
            .adjust(|miss, pause| {
                let Miss::NotYet { after, .. } = miss else { return None };
                let least = after.map_or(pause, |after| Some(after.max(self.pause)))?;
                // Never earlier than asked, and not all clients at once; and never past the deadline.
                let pause = least.mul_f64(1.0 + fastrand::f64() / 2.0);
                (Instant::now() + pause < end).then_some(pause)
            })
            .await;
        let attempts = attempts.into_inner();
        match result {
            Ok(done) => Ok((done, attempts)),
            Err(Miss::Final(problem)) => Err(refusal(problem, attempts)),
            Err(Miss::NotYet { reason, .. }) => {
                let problem = last_problem.into_inner().unwrap_or_else(PoisonError::into_inner);
                Err(Error::OutcomeUnknown { reason, problem, attempts })
            }
            Err(Miss::Request(error)) => Err(error.into()),
        }
    }

    async fn send(&self, sending: &Sending<'_>, end: Instant) -> Result<Done, Miss> {
        let timeout = self.attempt_timeout.min(end.saturating_duration_since(Instant::now()));
        let request = self.request(sending, timeout).map_err(Miss::Request)?;
        let mut answer = self.http.execute(request).await.map_err(|error| Miss::no_answer(&error))?;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| Miss::no_answer(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LARGEST_ANSWER {
                return Err(Miss::no_answer(&"it is too large"));
            }
        }
        read(sending.success, answer.status().as_u16(), answer.headers(), &bytes)
    }

    fn request(&self, sending: &Sending<'_>, timeout: Duration) -> Result<reqwest::Request, reqwest::Error> {
        let url = format!("{}{}", self.base_url, sending.path);
        let mut request = self.http.request(sending.method.clone(), url).timeout(timeout);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(key) = sending.key {
            request = request.header("Idempotency-Key", format!("\"{key}\""));
        }
        if let Some(if_match) = sending.if_match {
            request = request.header(header::IF_MATCH, if_match);
        }
        if let Some(prefer) = sending.prefer.lock().unwrap_or_else(PoisonError::into_inner).as_deref() {
            request = request.header("Prefer", prefer);
        }
        if let Some(body) = &sending.body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body.clone());
        }
        request.build()
    }
}

impl<'a> Sending<'a> {
    fn unkeyed(method: Method, path: &'a str, success: u16) -> Self {
        Self { method, path, key: None, if_match: None, prefer: Mutex::new(None), body: None, success }
    }

    fn keyed(method: Method, record: &'a Record, success: u16) -> Self {
        Self {
            method,
            path: &record.path,
            key: Some(&record.key),
            if_match: record.request.if_match.as_deref(),
            prefer: Mutex::new(None),
            body: Some(to_value(&record.request.body).to_string()),
            success,
        }
    }

    fn prefer(&self, value: String) {
        *self.prefer.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }
}

fn path(id: &str) -> String {
    // As in every language: the path is part of the record.
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    format!("/reservations/{}", utf8_percent_encode(id, RESERVED))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Our own types always serialize.
fn to_value(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Our own requests are structs.
fn to_map(value: &impl serde::Serialize) -> Map<String, Value> {
    if let Value::Object(members) = to_value(value) { members } else { Map::new() }
}

fn unknown(reason: &str) -> Error {
    Error::OutcomeUnknown { reason: reason.to_owned(), problem: None, attempts: 0 }
}

/// The answer was checked when it was read.
fn finish(saved: SavedAnswer, replayed: bool, attempts: u32) -> Result<Answer, Error> {
    if saved.status >= 400 {
        let problem = Problem::deserialize(saved.body).map_err(|error| unknown(&error.to_string()))?;
        return Err(refusal(Box::new(problem), attempts));
    }
    let reservation = Reservation::deserialize(saved.body).map_err(|error| unknown(&error.to_string()))?;
    Ok(Answer { reservation, etag: saved.etag, replayed, attempts })
}

fn refusal(problem: Box<Problem>, attempts: u32) -> Error {
    match problem.retry {
        Retry::Never => Error::Rejected { problem, attempts },
        Retry::Corrected => Error::NeedsCorrection { problem, attempts },
        _ => Error::KeyReused { problem, attempts },
    }
}
