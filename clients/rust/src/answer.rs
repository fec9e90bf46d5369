//! Reads one answer and decides: done, final error, or once more under the same key.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use reqwest::header::{ETAG, HeaderMap, HeaderValue, RETRY_AFTER};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{Problem, Retry, SavedAnswer};

/// A success that can be read.
pub(crate) struct Done {
    pub answer: SavedAnswer,
    pub replayed: bool,
}

/// What is no success.
pub(crate) enum Miss {
    /// A problem that no retry of the same request can change.
    Final(Box<Problem>),
    /// The outcome is not known yet: send the same request again under the same key.
    NotYet { reason: String, after: Option<Duration>, problem: Option<Box<Problem>>, accepted: bool },
    /// The request cannot be built: it would fail every time.
    Request(reqwest::Error),
}

impl Miss {
    pub(crate) fn no_answer(error: &dyn Display) -> Self {
        Self::NotYet { reason: format!("no complete answer: {error}"), after: None, problem: None, accepted: false }
    }
}

/// `success`: the one status that means done; `expected`: what its body must be.
pub(crate) fn read(success: u16, expected: fn(&Value) -> bool, status: u16, headers: &HeaderMap, bytes: &[u8]) -> Result<Done, Miss> {
    let after = headers.get(RETRY_AFTER).and_then(retry_after);
    if status == 202 {
        return Err(Miss::NotYet { reason: "accepted, not finished".to_owned(), after, problem: None, accepted: true });
    }
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    if status == success && (success == 204 || expected(&body)) {
        return Ok(Done {
            answer: SavedAnswer { status, etag: headers.get(ETAG).and_then(|value| value.to_str().ok()).map(str::to_owned), body },
            replayed: headers.get("idempotent-replayed").is_some_and(|value| value == "true"),
        });
    }
    if let Ok(problem) = Problem::deserialize(&body)
        && problem.status == status
    {
        match problem.retry {
            Retry::Never | Retry::Corrected | Retry::NewKey => return Err(Miss::Final(Box::new(problem))),
            Retry::SameKey | Retry::Ask => {
                return Err(Miss::NotYet { reason: problem.code.clone(), after, problem: Some(Box::new(problem)), accepted: false });
            }
            Retry::Other => {}
        }
    }
    // A gateway's page, a truncated body, a redirect, advice from a later version: it says nothing about the booking.
    let reason = format!("status {status} without an answer of the server");
    Err(Miss::NotYet { reason, after, problem: None, accepted: false })
}

/// Seconds, or a date as gateways send it.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse::<u32>().unwrap_or(u32::MAX).into()));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}
