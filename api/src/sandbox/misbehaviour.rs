//! Which item codes make the sandbox misbehave, and how.

use std::time::Duration;

/// The longest wait that `SLOW-n` asks for.
const SLOWEST: Duration = Duration::from_secs(600);

/// What a `POST` of an item code does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Books and says so.
    Proper,
    /// Refuses with 409.
    SoldOut,
    /// Waits, then books; goes on where the caller has gone.
    Slow(Duration),
    /// Books and never answers.
    Timeout,
    /// Books and cuts the connection.
    Drop,
    /// Books and answers 500.
    Error,
    /// Books nothing and answers 429.
    Busy,
    /// Books and answers 201 with a body that nobody can read.
    Garbage,
}

/// The item codes that misbehave, for people.
pub(super) const CATALOGUE: [(&str, &str); 7] = [
    ("SOLD-OUT", "refuses with 409"),
    ("SLOW-n", "waits n seconds (600 at most), then books, also where the caller has gone; a key that has booked is answered at once"),
    ("TIMEOUT", "books, and never answers"),
    ("DROP", "books, and cuts the connection without an answer"),
    ("ERROR", "books, and answers 500"),
    ("BUSY", "books nothing, and answers 429 with Retry-After"),
    ("GARBAGE", "books, and answers 201 with an unreadable body"),
];

impl Behaviour {
    pub(super) fn of(item_code: &str) -> Self {
        match item_code {
            "SOLD-OUT" => Self::SoldOut,
            "TIMEOUT" => Self::Timeout,
            "DROP" => Self::Drop,
            "ERROR" => Self::Error,
            "BUSY" => Self::Busy,
            "GARBAGE" => Self::Garbage,
            _ => item_code
                .strip_prefix("SLOW-")
                .and_then(|seconds| seconds.parse().ok())
                .map_or(Self::Proper, |seconds| Self::Slow(Duration::from_secs(seconds).min(SLOWEST))),
        }
    }
}
