//! How an operation can end without a reservation.

use crate::Problem;

/// Why there is no reservation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Final: the booking system said no. The same intent gives the same error for ever.
    #[error("{}{} {}", named(intent), problem.title, problem.detail)]
    Rejected {
        /// The name that the caller gave; `None` where the operation has none.
        intent: Option<String>,
        /// The server's answer.
        problem: Box<Problem>,
        /// HTTP requests of this call.
        attempts: u32,
    },
    /// A mistake in the request, or in the token. The key is kept: call again under the same intent with what was wrong put right.
    ///
    /// Where an earlier attempt had no answer it may have booked: then the intent takes the same request only.
    #[error("{}{} {}", named(intent), problem.title, problem.detail)]
    NeedsCorrection {
        /// The name that the caller gave; `None` where the operation has none.
        intent: Option<String>,
        /// The server's answer.
        problem: Box<Problem>,
        /// HTTP requests of this call.
        attempts: u32,
    },
    /// The key belongs to another request: a mistake in the program. Never "mend" it with a new key.
    #[error("{}{} {}", named(intent), problem.title, problem.detail)]
    KeyReused {
        /// The name that the caller gave; `None` where the operation has none.
        intent: Option<String>,
        /// The server's answer.
        problem: Box<Problem>,
        /// HTTP requests of this call.
        attempts: u32,
    },
    /// Not known (yet) whether it is booked. Call again later under the same intent; never make a new one for it.
    #[error("{}the outcome is not known: {reason}", named(intent))]
    OutcomeUnknown {
        /// The name that the caller gave; `None` where the operation has none.
        intent: Option<String>,
        /// How the last attempt ended.
        reason: String,
        /// The last problem document, if the server sent one.
        problem: Option<Box<Problem>>,
        /// HTTP requests of this call.
        attempts: u32,
    },
    /// This intent was begun with another request, which may have been booked. Nothing was sent.
    #[error("intent {intent:?}: it was begun with another request, which may have been booked: call with that one")]
    IntentMismatch {
        /// The name that the caller gave.
        intent: String,
    },
    /// The store failed, or what it has under this intent is no record of it (`InvalidData`). Call again under the same intent.
    #[error("the store failed for intent {intent:?}: {source}")]
    Store {
        /// The name that the caller gave.
        intent: String,
        /// What the store says.
        source: std::io::Error,
    },
    /// A setting that cannot work. It is refused when it is set.
    #[error("{name} must be {wanted}")]
    Setting {
        /// Which one.
        name: &'static str,
        /// What it must be, and what it is; but never the token.
        wanted: String,
    },
    /// The request could not be built, for instance from an `if_match` that is no header. Nothing was sent.
    #[error("the request cannot be sent")]
    Request(#[from] reqwest::Error),
}

impl Error {
    /// The server's last problem document, if it sent one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Rejected { problem, .. } | Self::NeedsCorrection { problem, .. } | Self::KeyReused { problem, .. } => Some(problem),
            Self::OutcomeUnknown { problem, .. } => problem.as_deref(),
            Self::IntentMismatch { .. } | Self::Store { .. } | Self::Setting { .. } | Self::Request(_) => None,
        }
    }

    /// The intent that the error belongs to; `None` where the operation has none.
    #[must_use]
    pub fn intent(&self) -> Option<&str> {
        match self {
            Self::Rejected { intent, .. }
            | Self::NeedsCorrection { intent, .. }
            | Self::KeyReused { intent, .. }
            | Self::OutcomeUnknown { intent, .. } => intent.as_deref(),
            Self::IntentMismatch { intent } | Self::Store { intent, .. } => Some(intent),
            Self::Setting { .. } | Self::Request(_) => None,
        }
    }

    /// Says which intent it belongs to.
    pub(crate) fn of(mut self, name: &str) -> Self {
        if let Self::Rejected { intent, .. }
        | Self::NeedsCorrection { intent, .. }
        | Self::KeyReused { intent, .. }
        | Self::OutcomeUnknown { intent, .. } = &mut self
        {
            *intent = Some(name.to_owned());
        }
        self
    }

    /// HTTP requests of the call that failed.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        match self {
            Self::Rejected { attempts, .. }
            | Self::NeedsCorrection { attempts, .. }
            | Self::KeyReused { attempts, .. }
            | Self::OutcomeUnknown { attempts, .. } => *attempts,
            Self::IntentMismatch { .. } | Self::Store { .. } | Self::Setting { .. } | Self::Request(_) => 0,
        }
    }
}

fn named(intent: &Option<String>) -> String {
    intent.as_ref().map(|intent| format!("intent {intent:?}: ")).unwrap_or_default()
}
