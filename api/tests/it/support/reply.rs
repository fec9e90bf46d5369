//! One answer of the service, and what can be asked of it.

use super::wire::Message;
use serde_json::Value;
use std::fmt;

/// What the service answered.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub message: Message,
}

impl Reply {
    pub fn new(message: Message) -> Self {
        let status = message.start_line.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        Self { status, message }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.message.header(name)
    }

    pub fn body(&self) -> &[u8] {
        &self.message.body
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.body()).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(self.body()).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The problem's code; `None` where the answer is no problem.
    pub fn code(&self) -> Option<String> {
        let problem = self.header("content-type").is_some_and(|t| t.starts_with("application/problem+json"));
        let body: Value = serde_json::from_slice(self.body()).ok()?;
        problem.then(|| body["code"].as_str().map(str::to_owned)).flatten()
    }

    /// The id of the reservation in the body.
    #[track_caller]
    pub fn id(&self) -> String {
        self.json()["id"].as_str().unwrap_or_else(|| panic!("no id: {self:?}")).to_owned()
    }

    #[track_caller]
    pub fn etag(&self) -> String {
        self.header("etag").unwrap_or_else(|| panic!("no ETag: {self:?}")).to_owned()
    }

    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// Whether this is one of the answers that are stored under a key.
    pub fn is_final(&self) -> bool {
        matches!(self.status, 200 | 201) || self.code().as_deref() == Some("booking-rejected")
    }

    /// All that must be the same for every caller who gets the final answer.
    pub fn stored_part(&self) -> (u16, [Option<String>; 3], Vec<u8>) {
        let header = |name| self.header(name).map(str::to_owned);
        (self.status, [header("content-type"), header("location"), header("etag")], self.body().to_vec())
    }

    /// It is this problem; its form was checked when it came (see `ledger.rs`).
    #[track_caller]
    pub fn expect_problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, self.code().as_deref()), (status, Some(code)), "{self:?}");
        assert!(!self.is_replay() || code == "booking-rejected", "a problem that is not stored is marked as a replay: {self:?}");
        self
    }

    /// It is the first answer to a request that booked; the reservation in it.
    #[track_caller]
    pub fn expect_created(&self) -> Value {
        assert_eq!(self.status, 201, "{self:?}");
        assert!(!self.is_replay(), "the first answer is marked as a replay: {self:?}");
        let reservation = self.json();
        assert_eq!(reservation["status"], "confirmed", "{self:?}");
        assert!(reservation["booking_id"].is_string(), "{self:?}");
        reservation
    }

    /// It is 204 without a body.
    #[track_caller]
    pub fn expect_no_content(&self) -> &Self {
        assert_eq!((self.status, self.body()), (204, &b""[..]), "{self:?}");
        self
    }

    /// It is the same answer once more, and says so.
    #[track_caller]
    pub fn expect_replay_of(&self, first: &Reply) -> &Self {
        assert!(self.is_replay(), "not marked as a replay: {self:?}");
        assert_eq!(self.stored_part(), first.stored_part(), "the replay differs: {self:?}, first: {first:?}");
        self
    }

    /// It shows the same reservation, as it was then.
    #[track_caller]
    pub fn expect_same_reservation(&self, first: &Reply) -> &Self {
        assert_eq!((self.status, self.json(), self.etag()), (200, first.json(), first.etag()), "{self:?}");
        self
    }

    /// `Retry-After` in whole seconds.
    #[track_caller]
    pub fn retry_after(&self) -> u64 {
        let value = self.header("retry-after").unwrap_or_else(|| panic!("no Retry-After: {self:?}"));
        value.parse().unwrap_or_else(|_| panic!("Retry-After {value:?}: {self:?}"))
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.text().chars().take(400).collect();
        let replay = if self.is_replay() { " (replay)" } else { "" };
        write!(f, "{}{replay} {text}", self.status)
    }
}
