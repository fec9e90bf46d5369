//! A monotonic clock that runs on while the machine is suspended (`CLOCK_BOOTTIME`; `std::time::Instant` stands still then).
//!
//! A lease is measured by it: a process that slept must not believe that its lease slept, too.

use std::time::Duration;

#[cfg(target_os = "linux")]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// There the monotonic clock runs on by itself.
#[cfg(not(target_os = "linux"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// A moment since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        let t = rustix::time::clock_gettime(CLOCK);
        Self(Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0)))
    }

    /// Time passed since then.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }

    /// Milliseconds passed since then.
    #[must_use]
    pub fn elapsed_ms(self) -> i64 {
        millis(self.elapsed())
    }

    /// That much later.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0 + Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
    }

    /// Time from now until then; none if it has passed.
    #[must_use]
    pub fn left(self) -> Duration {
        self.0.saturating_sub(Self::now().0)
    }
}

/// Whole milliseconds of a duration.
#[must_use]
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
