//! The operations.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use backon::{ExponentialBuilder, Retryable as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, header};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::answer::{Done, Miss, read};
use crate::models::KeyStatus;
use crate::store::check;
use crate::{
    ChangeReservation, Error, NewReservation, Problem, Record, Reservation, Retry, SavedAnswer, SavedRequest, State, Status, Store,
};

const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// No setting and no server makes a client spin.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LARGEST_PAUSE_SETTING: Duration = Duration::from_secs(3600);
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
    expected: fn(&Value) -> bool,
}

impl Client {
    /// A client of the service at `base_url` that keeps its intents in `store`.
    ///
    /// # Errors
    /// [`Error::Setting`] for a base URL that is not one, [`Error::Request`] where no HTTP client can be made.
    pub fn new(base_url: &str, store: impl Store + 'static) -> Result<Self, Error> {
        let url = reqwest::Url::parse(base_url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if url.is_none() {
            return Err(wrong("base_url", &format!("a URL of http:// or https:// with a host, not {base_url:?}")));
        }
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
    ///
    /// # Errors
    /// [`Error::Setting`] where it is no header.
    pub fn token(mut self, token: impl Into<String>) -> Result<Self, Error> {
        let token = token.into();
        let visible = token.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && token.trim() == token;
        if token.is_empty() || !visible {
            return Err(wrong("token", "visible ASCII characters"));
        }
        self.token = Some(token);
        Ok(self)
    }

    /// For one call, all attempts and pauses together, 120 s; whatever the server does, the call ends by then. Zero sends nothing.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// For one attempt; longer than the server's `ANSWER_WITHIN` (25 s) saves retries; 40 s.
    ///
    /// # Errors
    /// [`Error::Setting`] where it is zero.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Result<Self, Error> {
        if timeout.is_zero() {
            return Err(wrong("attempt_timeout", &format!("above 0, not {timeout:?}")));
        }
        self.attempt_timeout = timeout;
        Ok(self)
    }

    /// The first pause where the server names none, 1 s; it doubles up to 30 s. No pause is shorter than 0.1 s.
    ///
    /// # Errors
    /// [`Error::Setting`] where it is longer than an hour.
    pub fn pause(mut self, pause: Duration) -> Result<Self, Error> {
        if pause > LARGEST_PAUSE_SETTING {
            return Err(wrong("pause", &format!("at most {LARGEST_PAUSE_SETTING:?}, not {pause:?}")));
        }
        self.pause = pause;
        Ok(self)
    }

    /// An intent older than this is never sent again, 20 h; keep it below the server's `retention_ms`.
    ///
    /// # Errors
    /// [`Error::Setting`] where it is zero.
    pub fn keep_for(mut self, keep_for: Duration) -> Result<Self, Error> {
        if keep_for.is_zero() {
            return Err(wrong("keep_for", &format!("above 0, not {keep_for:?}")));
        }
        self.keep_for = keep_for;
        Ok(self)
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

    /// Asks the server what happened under the intent's key, and closes the intent or frees it. Books nothing.
    ///
    /// The way out where an attempt had no answer and the next was refused ([`Error::NeedsCorrection`]), so that the intent takes no
    /// other request. Call it with a token of the same account: no other account sees the key.
    ///
    /// Returns the reservation as it is now where the intent was carried out; the intent then has its answer. Returns `None` where
    /// nothing was accepted: [`Client::create`] or [`Client::change`] takes another request under the same intent and key. Should the
    /// lost attempt arrive after that, the key lets only one of the two book.
    ///
    /// # Errors
    /// [`Error::Rejected`] where the booking system said no, [`Error::OutcomeUnknown`] where that cannot be told yet; see [`Error`].
    pub async fn look_up(&self, intent: &str) -> Result<Option<Answer>, Error> {
        self.look_up_key(intent).await.map_err(|error| error.of(intent))
    }

    async fn look_up_key(&self, intent: &str) -> Result<Option<Answer>, Error> {
        let begun = Instant::now();
        let failed = |source| Error::Store { intent: intent.to_owned(), source };
        let Some(mut record) = self.find(intent)?.filter(|record| record.state != State::Mendable) else {
            return Ok(None);
        };
        if let Some(saved) = record.answer {
            return finish(saved, false, 0).map(Some);
        }
        let create = record.method == "POST";
        let operation = if create { "createReservation" } else { "changeReservation" };
        let look = format!("/idempotency-keys/{}?operation={operation}", utf8_percent_encode(&record.key, RESERVED));
        let mut asking = Sending::unkeyed(Method::GET, &look, 200);
        asking.expected = |body| KeyStatus::deserialize(body).is_ok();
        let (found, mut attempts) = match self.settle(&asking, self.deadline).await {
            Ok(found) => found,
            Err(Error::NeedsCorrection { problem, attempts, .. }) if problem.code == "not-found" => {
                if let Some(stored) = self.find(intent)?.and_then(|stored| stored.answer) {
                    return finish(stored, false, attempts).map(Some);
                }
                // After its retention the server has forgotten the key, whatever was booked under it.
                if Duration::from_millis(now_ms().saturating_sub(record.created_at_ms)) >= self.keep_for {
                    let reason = "the server does not know the key, which may be too old: look whether it was booked".to_owned();
                    return Err(Error::OutcomeUnknown { intent: None, reason, problem: Some(problem), attempts });
                }
                record.state = State::Mendable;
                self.store.save(intent, &record).map_err(failed)?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let inconclusive = |reason, attempts| Error::OutcomeUnknown { intent: None, reason, problem: None, attempts };
        let key = KeyStatus::deserialize(found.answer.body).map_err(|error| inconclusive(error.to_string(), attempts))?;
        let completed = key.state == "completed" && key.operation == operation;
        let Some(id) = key.reservation_id.filter(|_| completed) else {
            return Err(inconclusive(format!("the key is {}: make the same call again later", key.state), attempts));
        };
        let left = self.deadline.saturating_sub(begun.elapsed());
        let (done, more) = match self.settle(&Sending::unkeyed(Method::GET, &path(&id), 200), left).await {
            Ok(done) => done,
            Err(error) => return Err(inconclusive(format!("the reservation cannot be read: {error}"), attempts)),
        };
        attempts += more;
        let status = Reservation::deserialize(&done.answer.body).map_err(|error| inconclusive(error.to_string(), attempts))?.status;
        let carried_out = if create {
            matches!(status, Status::Confirmed | Status::Cancelled)
        } else {
            record.request.body.iter().all(|(name, value)| done.answer.body.get(name) == Some(value))
        };
        let answer = if create && status == Status::Rejected {
            SavedAnswer { status: 422, etag: None, body: to_value(&rejected()) }
        } else if carried_out {
            SavedAnswer { status: if create { 201 } else { 200 }, ..done.answer }
        } else {
            return Err(inconclusive(format!("reservation {id} does not show what became of it: look at it"), attempts));
        };
        (record.state, record.answer) = (State::Final, Some(answer.clone()));
        self.store.save(intent, &record).map_err(failed)?;
        finish(answer, false, attempts).map(Some)
    }

    fn find(&self, intent: &str) -> Result<Option<Record>, Error> {
        let found = self.store.find(intent).and_then(|found| found.map(|record| check(intent, record)).transpose());
        found.map_err(|source| Error::Store { intent: intent.to_owned(), source })
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
        self.send_intent(intent, method, path, request, success, respond_async).await.map_err(|error| error.of(intent))
    }

    async fn send_intent(
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
            return Err(Error::IntentMismatch { intent: intent.to_owned() });
        }
        if record.request != wanted.request && record.state != State::Mendable {
            return Err(Error::IntentMismatch { intent: intent.to_owned() });
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
        // Another call may have stored the final answer since this one began: a late refusal must not overwrite it.
        if let Err(error) = &outcome
            && let Some(stored) = self.find(intent)?.and_then(|stored| stored.answer)
        {
            return finish(stored, false, error.attempts());
        }
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
                let pause = least.max(SHORTEST_PAUSE).mul_f64(1.0 + fastrand::f64() / 2.0);
                (Instant::now() + pause < end).then_some(pause)
            })
            .await;
        let attempts = attempts.into_inner();
        match result {
            Ok(done) => Ok((done, attempts)),
            Err(Miss::Final(problem)) => Err(refusal(problem, attempts)),
            Err(Miss::NotYet { reason, .. }) => {
                let problem = last_problem.into_inner().unwrap_or_else(PoisonError::into_inner);
                Err(Error::OutcomeUnknown { intent: None, reason: format!("no final answer in time: {reason}"), problem, attempts })
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
        read(sending.success, sending.expected, answer.status().as_u16(), answer.headers(), &bytes)
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
        Self { method, path, key: None, if_match: None, prefer: Mutex::new(None), body: None, success, expected: is_reservation }
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
            expected: is_reservation,
        }
    }

    fn prefer(&self, value: String) {
        *self.prefer.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }
}

/// As in every language: the path is part of the record.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn is_reservation(body: &Value) -> bool {
    Reservation::deserialize(body).is_ok()
}

/// What the server answers to a create that the booking system refused. [`Client::look_up`] learns of it from the reservation.
fn rejected() -> Problem {
    Problem {
        r#type: "/problems/booking-rejected".to_owned(),
        title: "The booking system rejected the reservation.".to_owned(),
        status: 422,
        detail: "The server shows the reservation as rejected; its own answer was lost.".to_owned(),
        code: "booking-rejected".to_owned(),
        retry: Retry::Never,
        instance: None,
        errors: Vec::new(),
        mismatch: Vec::new(),
    }
}

fn wrong(name: &'static str, wanted: &str) -> Error {
    Error::Setting { name, wanted: wanted.to_owned() }
}

fn path(id: &str) -> String {
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
    Error::OutcomeUnknown { intent: None, reason: reason.to_owned(), problem: None, attempts: 0 }
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
        Retry::Never => Error::Rejected { intent: None, problem, attempts },
        Retry::Corrected => Error::NeedsCorrection { intent: None, problem, attempts },
        _ => Error::KeyReused { intent: None, problem, attempts },
    }
}
