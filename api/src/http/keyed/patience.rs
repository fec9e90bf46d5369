//! How long a caller waits for an answer: `Prefer` (RFC 7240), `ON_DUPLICATE` and their limits.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::OnDuplicate;
use crate::http::prefer::Preference;
use crate::service::Service;

/// How long a caller waits, and what it gets then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) preference: Preference,
    /// `wait=N` as it is applied.
    pub(super) wait: Option<Duration>,
    /// A duplicate waits until then.
    pub(super) duplicate_until: Instant,
}

impl Patience {
    pub(super) fn of(service: &Service, preference: Preference) -> Self {
        let wait = preference.wait_s.map(|s| Duration::from_secs(s).min(service.wait_limit));
        let default = match service.on_duplicate {
            // Who asked for nothing is answered within `ANSWER_WITHIN`.
            OnDuplicate::Wait if !preference.respond_async => service.wait_limit.min(service.settler.settings().answer_within),
            OnDuplicate::Wait | OnDuplicate::Conflict => Duration::ZERO,
        };
        Self { preference, wait, duplicate_until: Instant::now() + wait.unwrap_or(default) }
    }

    /// `Preference-Applied` of an answer; `accepted` for a 202.
    pub(super) fn applied(&self, accepted: bool) -> Option<String> {
        let wait = self.wait.map(|wait| format!("wait={}", wait.as_secs()));
        match (accepted && self.preference.respond_async, wait) {
            (true, Some(wait)) => Some(format!("respond-async, {wait}")),
            (true, None) => Some("respond-async".into()),
            (false, wait) => wait,
        }
    }
}
