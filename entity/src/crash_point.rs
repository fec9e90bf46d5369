//! Crash points: a debug build can be told to die at any statement and any call, so that a test can die at each. A release build has none.
//!
//! They sit where everything passes: every SQL statement (`database.rs`) and every call to the booking system. So a new one cannot be
//! without. `CRASH_AT=PLACE:before` or `PLACE:after` aborts the process there, `PANIC_AT` panics instead; `CRASH_POINTS_SEEN=FILE` writes
//! down all that were reached.

/// On which side of a statement or call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nothing has been sent.
    Before,
    /// It has been answered, and nobody knows yet.
    After,
}

/// Dies here if this is the place.
#[cfg(debug_assertions)]
pub fn reach(place: &str, moment: Moment) {
    use std::io::Write as _;
    use std::sync::LazyLock;

    static CRASH_AT: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("CRASH_AT").ok());
    static PANIC_AT: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("PANIC_AT").ok());
    static SEEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("CRASH_POINTS_SEEN").ok());
    if CRASH_AT.is_none() && PANIC_AT.is_none() && SEEN.is_none() {
        return;
    }
    let side = match moment {
        Moment::Before => "before",
        Moment::After => "after",
    };
    let here = format!("{place}:{side}");
    if let Some(path) = SEEN.as_deref()
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
    {
        // In one write, so that lines of several tasks do not mix. The test reads what arrived; what did not is missed there.
        let _ = file.write_all(format!("{here}\n").as_bytes());
    }
    if CRASH_AT.as_deref() == Some(here.as_str()) {
        std::process::abort();
    }
    assert!(PANIC_AT.as_deref() != Some(here.as_str()), "told to panic at {here}");
}

/// Nothing, in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn reach(_place: &str, _moment: Moment) {}
