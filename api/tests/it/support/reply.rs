//! One answer of the service, and what can be read off it.

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

    /// The problem's code; `None` where the answer is no problem.
    pub fn code(&self) -> Option<String> {
        let problem = self.header("content-type").is_some_and(|t| t.starts_with("application/problem+json"));
        let body: Value = serde_json::from_slice(self.body()).ok()?;
        problem.then(|| body["code"].as_str().map(str::to_owned)).flatten()
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
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.text().chars().take(400).collect();
        let replay = if self.is_replay() { " (replay)" } else { "" };
        write!(f, "{}{replay} {text}", self.status)
    }
}
