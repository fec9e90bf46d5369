//! What must hold whatever a test does: it is written down as it happens and judged at the end.

use super::document::undeclared;
use super::reply::Reply;
use super::upstream::Upstream;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// A key in its scope. A key that expired or was freed begins another life, whose answers owe nothing to the last one's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Life {
    account: String,
    operation: String,
    key: String,
    number: u32,
}

#[derive(Default)]
struct Seen {
    finals: BTreeMap<Life, Vec<Reply>>,
    /// Which lives asked for an item: there may not be more bookings of it.
    items: BTreeMap<String, BTreeSet<Life>>,
    lives: BTreeMap<String, u32>,
    faults: BTreeSet<String>,
}

/// What was asked and answered in one test.
#[derive(Default)]
pub struct Ledger(Mutex<Seen>);

impl Ledger {
    /// From here on the key is judged anew.
    pub fn new_life(&self, key: &str) {
        *self.0.lock().unwrap().lives.entry(key.to_owned()).or_default() += 1;
    }

    /// Before a keyed request leaves: even one that is never answered may book.
    pub fn asked(&self, account: &str, operation: &str, key: &str, body: &[u8]) {
        let mut seen = self.0.lock().unwrap();
        let life = seen.life(account, operation, key);
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if let Some(item) = body["item_code"].as_str() {
            seen.items.entry(item.to_owned()).or_default().insert(life);
        }
    }

    /// A keyed request was answered.
    pub fn told(&self, account: &str, operation: &str, key: &str, reply: &Reply) {
        let mut seen = self.0.lock().unwrap();
        let life = seen.life(account, operation, key);
        if reply.is_final() {
            seen.finals.entry(life).or_default().push(reply.clone());
        }
    }

    /// Any request was answered.
    pub fn saw(&self, method: &str, target: &str, reply: &Reply) {
        let faults = [problem_fault(reply), retry_fault(reply), undeclared(method, target, reply)];
        self.0.lock().unwrap().faults.extend(faults.into_iter().flatten().map(|fault| format!("{method} {target}: {fault}")));
    }

    /// The verdict.
    pub fn judge(&self, upstreams: &[Upstream]) {
        let seen = self.0.lock().unwrap();
        for upstream in upstreams {
            let mut per_reference = BTreeMap::<String, usize>::new();
            let mut per_item = BTreeMap::<String, usize>::new();
            for booking in upstream.bookings() {
                *per_reference.entry(booking.reference.clone()).or_default() += 1;
                *per_item.entry(booking.item_code.clone()).or_default() += 1;
            }
            for (reference, n) in per_reference {
                assert!(n <= 1, "{n} bookings under the reference {reference}");
            }
            for (item, n) in per_item {
                let keys = seen.items.get(&item).map_or(usize::MAX, BTreeSet::len);
                assert!(n <= keys, "{n} bookings of {item} for {keys} keys");
            }
        }
        for (life, replies) in &seen.finals {
            let different: BTreeSet<_> = replies.iter().map(Reply::stored_part).collect();
            assert!(different.len() <= 1, "two final answers for one key, {life:?}: {replies:?}");
        }
        assert!(
            seen.faults.is_empty(),
            "answers that are not as promised:\n  {}",
            seen.faults.iter().cloned().collect::<Vec<_>>().join("\n  ")
        );
    }
}

impl Seen {
    fn life(&self, account: &str, operation: &str, key: &str) -> Life {
        let number = self.lives.get(key).copied().unwrap_or_default();
        Life { account: account.into(), operation: operation.into(), key: key.into(), number }
    }
}

/// The members of a problem, in the one order that a fresh and a stored one have.
const MEMBERS: [&str; 9] = ["type", "title", "status", "detail", "instance", "code", "retry", "errors", "mismatch"];

/// What a caller may do about each problem.
pub const RETRY: &[(&str, &[&str])] = &[
    (
        "corrected",
        &[
            "key-missing",
            "key-malformed",
            "request-invalid",
            "unauthenticated",
            "forbidden",
            "not-found",
            "method-not-allowed",
            "version-stale",
            "if-match-missing",
            "body-too-large",
            "media-type-unsupported",
        ],
    ),
    (
        "same_key",
        &[
            "request-timeout",
            "too-many-requests",
            "key-in-progress",
            "reservation-busy",
            "internal",
            "booking-system-misconfigured",
            "booking-system-unavailable",
            "booking-system-busy",
            "outcome-pending",
            "storage-unavailable",
        ],
    ),
    ("ask", &["outcome-unknown"]),
    ("new_key", &["key-reused"]),
    ("never", &["booking-rejected"]),
];

/// B53: every error is a problem document, with the code and the advice that belong together, and gives nothing away.
pub fn problem_fault(reply: &Reply) -> Option<String> {
    if reply.status < 400 {
        return None;
    }
    let Some(code) = reply.code() else { return Some(format!("no problem document: {:?} {reply:?}", reply.header("content-type"))) };
    let problem = reply.json();
    let advice = RETRY.iter().find(|(_, codes)| codes.contains(&code.as_str())).map(|(retry, _)| *retry);
    if problem["status"] != reply.status || problem["retry"].as_str() != advice || advice.is_none() {
        return Some(format!("status, code and retry disagree: {reply:?}"));
    }
    if !problem["title"].is_string() || !problem["detail"].is_string() || !ends_with(&problem["type"], &format!("/problems/{code}")) {
        return Some(format!("title, detail or type is missing: {reply:?}"));
    }
    let link = reply.header("link").unwrap_or_default();
    if !link.contains(&format!("/problems/{code}>")) || !link.contains("describedby") {
        return Some(format!("Link {link:?} does not lead to the explanation of {code}"));
    }
    let text = reply.text();
    let places: Vec<_> = MEMBERS.iter().filter_map(|name| text.find(&format!("\"{name}\":"))).collect();
    if !places.is_sorted() {
        return Some(format!("members in another order than elsewhere: {reply:?}"));
    }
    ["sqlx", "sea_orm", "sea-orm", "serde", "panicked", "::", "SELECT ", "INSERT ", "UPDATE "]
        .iter()
        .find(|inside| text.contains(*inside))
        .map(|inside| format!("shows {inside:?}: {reply:?}"))
}

fn ends_with(value: &Value, end: &str) -> bool {
    value.as_str().is_some_and(|v| v.ends_with(end))
}

/// Who is told to send it again is told when.
fn retry_fault(reply: &Reply) -> Option<String> {
    let again = reply.status == 202 || (reply.status >= 400 && reply.code().is_some() && reply.json()["retry"] == "same_key");
    let when = reply.header("retry-after").and_then(|v| v.parse::<u64>().ok());
    (again && when.is_none()).then(|| format!("Retry-After {:?}: {reply:?}", reply.header("retry-after")))
}
