//! The row of a key: read in one place into [`Record`], whose state carries just the data that state has.

use sea_orm::QueryResult;

use crate::key_scope::{KeyDigest, Operation};
use crate::key_state::KeyState;
use crate::store_error::StoreError;

/// A key as stored, and the database's time at which it was read. Times are milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its address.
    pub digest: KeyDigest,
    /// Whose it is.
    pub account: String,
    /// What it is for.
    pub operation: Operation,
    /// Version in which `fingerprint` was made.
    pub fingerprint_version: u16,
    /// SHA-256 of the request.
    pub fingerprint: [u8; 32],
    /// The validated body, RFC 8785.
    pub request: Vec<u8>,
    /// For a change: the whole new values, RFC 8785.
    pub change_to: Option<Vec<u8>>,
    /// The reservation it makes, changes or cancels.
    pub reservation_id: String,
    /// Under which the booking system knows this operation; for a creation the reservation's id.
    pub reference: String,
    /// Attempts so far, the running one included.
    pub attempt: i64,
    /// Token of the last lease.
    pub lease_token: Option<String>,
    /// The last moment a send that may have had an effect could have begun.
    pub maybe_sent_until_ms: Option<i64>,
    /// Looks so far that settled nothing.
    pub looks: i64,
    /// When the reference was made.
    pub created_at_ms: i64,
    /// State with its data.
    pub state: State,
    /// The database's time when this was read.
    pub now_ms: i64,
}

/// A state with the data that it alone has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// A worker has, or had, the lease.
    InProgress {
        /// Deadline of the lease.
        lease_until_ms: i64,
        /// Whether the worker ended its lease itself, writing down when it last sent.
        ended_by_worker: bool,
    },
    /// The answer is stored.
    Completed {
        /// What every caller gets.
        answer: Answer,
        /// When it was stored.
        completed_at_ms: i64,
        /// End of the retention.
        expires_at_ms: i64,
    },
    /// There is no such booking.
    Released {
        /// When the second look is due; `None` once the release is final.
        next_look_at_ms: Option<i64>,
        /// End of the retention; `None` until the release is final.
        expires_at_ms: Option<i64>,
    },
    /// Nobody can tell yet.
    OutcomeUnknown {
        /// When the release job asks again; `None` where only an operator can tell.
        next_look_at_ms: Option<i64>,
    },
}

/// The stored answer: what every caller gets, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`; absent only without a body.
    pub content_type: Option<String>,
    /// `Location`.
    pub location: Option<String>,
    /// `ETag`, with its quotes.
    pub etag: Option<String>,
    /// The body, uncompressed.
    pub body: Vec<u8>,
}

impl Answer {
    /// The schema stores no answer that says nothing; one that is there all the same was written by somebody else, and is nobody's answer.
    fn read(row: &QueryResult) -> Result<Self, StoreError> {
        let unreadable = || StoreError::Unreadable("idempotency_key.answer: a completed key without one".into());
        let answer = Self {
            status: u16::try_from(row.try_get::<i64>("", "answer_status")?).map_err(|_| unreadable())?,
            content_type: row.try_get("", "answer_content_type")?,
            location: row.try_get("", "answer_location")?,
            etag: row.try_get("", "answer_etag")?,
            body: row.try_get("", "answer_body")?,
        };
        let says_something = answer.status == 204 || (answer.content_type.is_some() && !answer.body.is_empty());
        if says_something { Ok(answer) } else { Err(unreadable()) }
    }
}

/// The columns [`Record::read`] needs, `{now}` included.
pub(crate) const COLUMNS: &str = "digest, account, operation, fingerprint_version, fingerprint, request, change_to, reservation_id, \
     reference, state, attempt, lease_token, lease_until_ms, lease_ended_at_ms, maybe_sent_until_ms, next_look_at_ms, looks, \
     answer_status, answer_content_type, answer_location, answer_etag, answer_body, created_at_ms, completed_at_ms, expires_at_ms, \
     {now} AS now_ms";

impl Record {
    pub(crate) fn read(row: &QueryResult) -> Result<Self, StoreError> {
        let unreadable = |what: &str| StoreError::Unreadable(format!("idempotency_key.{what}"));
        let text = |column: &str| row.try_get::<String>("", column);
        let state = text("state")?;
        let state = match KeyState::from_name(&state).ok_or_else(|| unreadable("state"))? {
            KeyState::InProgress => State::InProgress {
                lease_until_ms: row.try_get("", "lease_until_ms")?,
                ended_by_worker: row.try_get::<Option<i64>>("", "lease_ended_at_ms")?.is_some(),
            },
            KeyState::Completed => State::Completed {
                answer: Answer::read(row)?,
                completed_at_ms: row.try_get("", "completed_at_ms")?,
                expires_at_ms: row.try_get("", "expires_at_ms")?,
            },
            KeyState::Released => {
                State::Released { next_look_at_ms: row.try_get("", "next_look_at_ms")?, expires_at_ms: row.try_get("", "expires_at_ms")? }
            }
            KeyState::OutcomeUnknown => State::OutcomeUnknown { next_look_at_ms: row.try_get("", "next_look_at_ms")? },
        };
        let version: i64 = row.try_get("", "fingerprint_version")?;
        Ok(Self {
            digest: KeyDigest::from_bytes(&row.try_get::<Vec<u8>>("", "digest")?).ok_or_else(|| unreadable("digest"))?,
            account: text("account")?,
            operation: Operation::from_name(&text("operation")?).ok_or_else(|| unreadable("operation"))?,
            fingerprint_version: u16::try_from(version).map_err(|_| unreadable("fingerprint_version"))?,
            fingerprint: row.try_get::<Vec<u8>>("", "fingerprint")?.try_into().map_err(|_| unreadable("fingerprint"))?,
            request: row.try_get("", "request")?,
            change_to: row.try_get("", "change_to")?,
            reservation_id: text("reservation_id")?,
            reference: text("reference")?,
            attempt: row.try_get("", "attempt")?,
            lease_token: row.try_get("", "lease_token")?,
            maybe_sent_until_ms: row.try_get("", "maybe_sent_until_ms")?,
            looks: row.try_get("", "looks")?,
            created_at_ms: row.try_get("", "created_at_ms")?,
            state,
            now_ms: row.try_get("", "now_ms")?,
        })
    }

    /// Those that can be read; one that cannot must not keep the others waiting, and is logged for somebody to look at.
    pub(crate) fn read_all(rows: &[QueryResult]) -> Vec<Self> {
        let readable = |row: &QueryResult| {
            let reference = row.try_get::<String>("", "reference").unwrap_or_default();
            Self::read(row).inspect_err(|error| tracing::error!(%error, reference, "passed over a key that cannot be read")).ok()
        };
        rows.iter().filter_map(readable).collect()
    }

    /// Its state, without the data.
    #[must_use]
    pub const fn key_state(&self) -> KeyState {
        match self.state {
            State::InProgress { .. } => KeyState::InProgress,
            State::Completed { .. } => KeyState::Completed,
            State::Released { .. } => KeyState::Released,
            State::OutcomeUnknown { .. } => KeyState::OutcomeUnknown,
        }
    }

    /// Whether the retention is over: such a key behaves exactly like none.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        match self.state {
            State::Completed { expires_at_ms, .. } => expires_at_ms <= self.now_ms,
            State::Released { expires_at_ms, .. } => expires_at_ms.is_some_and(|at| at <= self.now_ms),
            State::InProgress { .. } | State::OutcomeUnknown { .. } => false,
        }
    }

    /// What is left of the lease: 0 where it has lapsed, `None` where there is none.
    #[must_use]
    pub fn lease_left_ms(&self) -> Option<i64> {
        match self.state {
            State::InProgress { lease_until_ms, .. } => Some((lease_until_ms - self.now_ms).max(0)),
            State::Completed { .. } | State::Released { .. } | State::OutcomeUnknown { .. } => None,
        }
    }
}
