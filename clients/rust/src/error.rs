//! How an operation can end without a reservation.

use crate::Problem;

/// Why there is no reservation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Final: the booking system said no. The same intent gives the same error for ever.
    #[error("{} {}", problem.title, problem.detail)]
    Rejected {
        /// The server's answer.
        problem: Box<Problem>,
        /// HTTP requests of this call.
        attempts: u32,
    },
    /// A mistake in the request, or in the token. The key is kept: call again under the same intent with what was wrong put right.
    ///
    /// Where an earlier attempt had no answer it may have booked: then the intent takes the same request only.
    #[error("{} {}", problem.title, problem.detail)]
    NeedsCorrection {
        /// The server's answer.
        problem: Box<Problem>,
        /// HTTP requests of this call.
        attempts: u32,
    },
    /// The key belongs to another request: a mistake in the program. Never "mend" it with a new key.
    #[error("{} {}", problem.title, problem.detail)]
    KeyReused {
        /// The server's answer.
        problem: Box<Problem>,
        /// HTTP requests of this call.
        attempts: u32,
    },
    /// Not known (yet) whether it is booked. Call again later under the same intent; never make a new one for it.
    #[error("no final answer in time: {reason}")]
    OutcomeUnknown {
        /// How the last attempt ended.
        reason: String,
        /// The last problem document, if the server sent one.
        problem: Option<Box<Problem>>,
        /// HTTP requests of this call.
        attempts: u32,
    },
    /// This intent was begun with another request, which may have been booked. Nothing was sent.
    #[error("this intent was begun with another request, which may have been booked: call with that one")]
    IntentMismatch,
    /// The store failed, or what it has under this intent is no record of it (`InvalidData`). Call again under the same intent.
    #[error("the store failed for intent {intent:?}: {source}")]
    Store {
        /// The name that the caller gave.
        intent: String,
        /// What the store says.
        source: std::io::Error,
    },
    /// The request could not be built, for instance from a base URL that is not one. Nothing was sent.
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
            Self::IntentMismatch | Self::Store { .. } | Self::Request(_) => None,
        }
    }

    /// HTTP requests of the call that failed.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        match self {
            Self::Rejected { attempts, .. }
            | Self::NeedsCorrection { attempts, .. }
            | Self::KeyReused { attempts, .. }
            | Self::OutcomeUnknown { attempts, .. } => *attempts,
            Self::IntentMismatch | Self::Store { .. } | Self::Request(_) => 0,
        }
    }
}
