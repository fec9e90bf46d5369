//! What happened, counted, and every promise that was seen broken, with the moment.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use super::reply::Reply;
use super::requests::{Number, Requests};
use super::troubles::Troubles;

/// What is the same for every caller who gets a final answer.
pub type Stored = (u16, [Option<String>; 3], Vec<u8>);

/// A keyed request that some caller means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    pub method: &'static str,
    pub target: String,
    /// None for a cancellation.
    pub key: Option<String>,
    pub if_match: Option<String>,
    pub body: String,
}

#[derive(Default)]
struct Seen {
    counts: BTreeMap<(&'static str, String), u64>,
    violations: Vec<String>,
    /// Every keyed request that ever left, in order, with its final answer.
    intents: BTreeMap<String, (Intent, Option<Stored>)>,
    /// What a reservation must be in the end.
    last: BTreeMap<String, Last>,
    /// References whose worker lost its connections just before it was told that it has booked.
    cut_when_booked: Vec<String>,
    requests: Requests,
}

/// A reservation as its caller was told last: nobody else changes it.
#[derive(Clone, Copy, Debug)]
pub struct Last {
    pub quantity: i64,
    pub cancelled: bool,
}

pub struct Ledger {
    pub began: Instant,
    pub troubles: Troubles,
    seen: Mutex<Seen>,
}

impl Ledger {
    pub fn new() -> Self {
        Self { began: Instant::now(), troubles: Troubles::default(), seen: Mutex::default() }
    }

    pub fn count(&self, what: &'static str, kind: impl Into<String>) {
        *self.seen().counts.entry((what, kind.into())).or_default() += 1;
    }

    pub fn violation(&self, what: impl Into<String>) {
        let at = self.began.elapsed().as_secs_f64();
        self.seen().violations.push(format!("after {at:.1} s: {}", what.into()));
    }

    /// Before it leaves: even a request that is never answered may book.
    pub fn meant(&self, intent: &Intent) {
        if let Some(key) = &intent.key {
            self.seen().intents.entry(key.clone()).or_insert_with(|| (intent.clone(), None));
        }
    }

    /// A final answer came: the same as ever, or a promise is broken.
    pub fn told(&self, intent: &Intent, reply: &Reply) {
        let stored = reply.stored_part();
        let other = {
            let mut seen = self.seen();
            let Some((_, known)) = intent.key.as_ref().and_then(|key| seen.intents.get_mut(key)) else { return };
            match known {
                Some(first) if *first != stored => Some(first.clone()),
                Some(_) => None,
                None => {
                    *known = Some(stored.clone());
                    None
                }
            }
        };
        if let Some(first) = other {
            self.violation(format!("two final answers for one key, {intent:?}: {} and {}", show(&first), show(&stored)));
        }
    }

    /// A request to reserve leaves for that process.
    pub fn leaves(&self, process: &str, item: &str) -> Number {
        self.seen().requests.leaves(process, item)
    }

    pub fn sent_nothing(&self, number: &Number) {
        self.seen().requests.sent_nothing(number);
    }

    pub fn explains(&self, process: &str, item: &str, arrived: Instant) -> bool {
        self.seen().requests.explain(process, item, arrived)
    }

    pub fn cut_when_booked(&self, reference: String) {
        self.seen().cut_when_booked.push(reference);
    }

    pub fn all_cut_when_booked(&self) -> Vec<String> {
        self.seen().cut_when_booked.clone()
    }

    pub fn told_last(&self, reservation: String, last: Last) {
        self.seen().last.insert(reservation, last);
    }

    pub fn last(&self) -> BTreeMap<String, Last> {
        self.seen().last.clone()
    }

    /// Every keyed request with its final answer.
    pub fn intents(&self) -> Vec<(Intent, Option<Stored>)> {
        self.seen().intents.values().cloned().collect()
    }

    pub fn violations(&self) -> Vec<String> {
        self.seen().violations.clone()
    }

    /// All counts of one kind, in one line.
    pub fn counted(&self, what: &str) -> String {
        let seen = self.seen();
        let of_kind: Vec<_> = seen.counts.iter().filter(|((of, _), _)| *of == what).collect();
        let sum: u64 = of_kind.iter().map(|(_, n)| **n).sum();
        let each: Vec<_> = of_kind.iter().map(|((_, kind), n)| format!("{kind} {n}")).collect();
        format!("{sum} ({})", each.join(", "))
    }

    pub fn count_of(&self, what: &'static str, kind: &str) -> u64 {
        self.seen().counts.get(&(what, kind.to_owned())).copied().unwrap_or(0)
    }

    pub fn sum(&self, what: &str) -> u64 {
        self.seen().counts.iter().filter(|((of, _), _)| *of == what).map(|(_, n)| n).sum()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }
}

pub fn show((status, headers, body): &Stored) -> String {
    format!("{status} {headers:?} {}", String::from_utf8_lossy(body))
}
