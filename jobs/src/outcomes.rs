//! Counts how attempts ended, those of requests and those of the release job alike.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use entity::key_scope::Operation;

use crate::settle::Outcome;

/// How many attempts of this process ended how, by operation.
#[derive(Debug, Default)]
pub struct Outcomes(Mutex<BTreeMap<(&'static str, &'static str), u64>>);

impl Outcomes {
    pub(crate) fn count(&self, operation: Operation, outcome: &Outcome) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((operation.as_str(), outcome.name())).or_default() += 1;
    }

    /// (operation, outcome) and how often.
    #[must_use]
    pub fn counts(&self) -> Vec<((&'static str, &'static str), u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(labels, count)| (*labels, *count)).collect()
    }
}
