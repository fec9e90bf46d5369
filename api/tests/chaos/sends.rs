//! What was sent for which reference, and whether it might be sent again: a booking system that does not deduplicate keeps this book.

use std::collections::BTreeMap;
use std::time::Instant;

use super::asked::Asked;
use super::booking::Mode;
use super::settings::SETTLES_AFTER;

/// A POST that arrived.
#[derive(Clone, Debug)]
pub struct Sent {
    pub item: String,
    pub process: String,
    pub arrived: Instant,
    /// When the whole truth was written as its answer.
    pub answered: Option<Instant>,
}

#[derive(Default)]
struct Reference {
    sent: Vec<Sent>,
    /// Effects that are still to come.
    coming: usize,
    /// Since the last send a look-up was told that there is no such booking, and no effect was to come any more.
    denied: bool,
    /// The last send that left its worker in doubt.
    in_doubt_since: Option<Instant>,
    /// The last look-up that was told that there is no such booking; when it was asked.
    denied_at: Option<Instant>,
}

#[derive(Default)]
pub struct Sends(BTreeMap<String, Reference>);

impl Sends {
    /// A POST arrives. Where nothing deduplicates, a second one must follow a look-up that could know; where there is no look-up either,
    /// there must be no second one. The rule that is broken, if one is.
    pub fn arrives(&mut self, mode: Mode, asked: &Asked, process: &str, has_effect: bool, leaves_doubt: bool) -> Option<String> {
        let (reference, item) = (asked.text("reference"), asked.text("item_code"));
        let of = self.0.entry(reference.clone()).or_default();
        let broken = match (of.sent.is_empty(), mode.deduplicates, mode.looks_up) {
            (true, ..) | (_, true, _) => None,
            (false, false, false) => Some("sent twice where nothing can tell"),
            (false, false, true) => (!of.denied).then_some("sent again without a look-up that could know"),
        };
        let broken = broken.map(|rule| format!("{rule}: {reference} by {process}, before by {:?}", of.sent));
        of.denied = false;
        of.coming += usize::from(has_effect);
        if leaves_doubt {
            of.in_doubt_since = Some(Instant::now());
        }
        of.sent.push(Sent { item, process: process.to_owned(), arrived: Instant::now(), answered: None });
        broken
    }

    /// Whether who sends now may know that no earlier send is under way: a look-up was denied long after the last one that left a doubt.
    /// Half of what it takes to be sure, so that delays on the way make no difference.
    pub fn may_know(&self, reference: &str) -> bool {
        let Some(of) = self.0.get(reference) else { return true };
        let Some(sent) = of.in_doubt_since else { return true };
        of.denied_at.is_some_and(|asked| asked.saturating_duration_since(sent) >= SETTLES_AFTER / 2)
    }

    /// Everything that was sent.
    pub fn all(&self) -> impl Iterator<Item = &Sent> {
        self.0.values().flat_map(|of| &of.sent)
    }

    /// An effect came about.
    pub fn came(&mut self, reference: &str) {
        if let Some(of) = self.0.get_mut(reference) {
            of.coming -= 1;
        }
    }

    /// A look-up is told that there is none.
    pub fn denied(&mut self, reference: &str) {
        if let Some(of) = self.0.get_mut(reference) {
            of.denied = of.coming == 0;
            of.denied_at = Some(Instant::now());
        }
    }

    /// The last POST was answered with the truth.
    pub fn answered(&mut self, reference: &str) {
        if let Some(last) = self.0.get_mut(reference).and_then(|of| of.sent.last_mut()) {
            last.answered = Some(Instant::now());
        }
    }

    /// Whether something that was sent may still take effect.
    pub fn has_more_to_come(&self) -> bool {
        self.0.values().any(|of| of.coming > 0)
    }

    /// The one POST of this reference; none where there were several.
    pub fn only_one(&self, reference: &str) -> Option<Sent> {
        match self.0.get(reference)?.sent.as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        }
    }
}
