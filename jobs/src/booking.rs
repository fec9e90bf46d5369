//! What the booking system can say to us, in classes: every outcome of a call falls into exactly one (contract, section 5).

pub mod http;
pub mod shown;

/// A booking as the booking system tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booking {
    /// Its id there; 1..=255 characters.
    pub booking_id: String,
    /// What it shows of the members that a change can change.
    pub shown: shown::Shown,
}

/// Whether a text can be the id of a booking: one that a person can read and repeat.
#[must_use]
pub fn is_booking_id(text: &str) -> bool {
    (1..=255).contains(&text.chars().count()) && !text.trim().is_empty() && !text.contains(char::is_control)
}

/// Provably nothing happened there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {
    /// No connection came about.
    NoConnection,
    /// 401, 403, 404 or 405: our credentials or our address are wrong.
    Misconfigured {
        /// The status there.
        status: u16,
    },
    /// 429.
    Busy {
        /// When to come again, in seconds; 1 where it did not say.
        retry_after_s: u64,
    },
}

/// What a send (POST, PATCH, DELETE) came to; a POST is told a [`Booking`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent<T = ()> {
    /// Done.
    Done {
        /// The status there.
        status: u16,
        /// What it says of it.
        told: T,
    },
    /// A final no.
    Refused {
        /// The status there.
        status: u16,
    },
    /// Provably nothing happened: if this was the first send, that is.
    Nothing(Nothing),
    /// It may have happened, or may still happen.
    Unknown(Unknown),
}

/// What a look-up by reference came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// There it is.
    Found(Booking),
    /// There is none now.
    NotThere,
    /// No believable answer.
    Unknown(Unknown),
}

/// Why nobody can tell, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// Not answered within `BOOKING_TIMEOUT`.
    TimedOut,
    /// The connection broke.
    Broken,
    /// A status that says nothing.
    Status(u16),
    /// An answer that cannot be read, is too large, or names another booking.
    Unreadable,
    /// The answer has a content coding of this name, which we cannot undo.
    Coding(String),
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Broken => f.write_str("the connection broke"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Unreadable => f.write_str("an unreadable answer"),
            Self::Coding(name) => write!(f, "an answer with the unknown content coding {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_booking_id;

    #[test]
    fn a_booking_id_can_be_read_and_repeated_by_a_person() {
        for good in ["B", "BK-1", "予約 1", &"x".repeat(255)] {
            assert!(is_booking_id(good), "{good:?}");
        }
        for bad in ["", " ", "\u{3000}", "BK\n1", "\u{0}", &"x".repeat(256)] {
            assert!(!is_booking_id(bad), "{bad:?}");
        }
    }
}
