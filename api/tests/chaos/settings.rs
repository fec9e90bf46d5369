//! Short times for a world in which much goes wrong, and why they are as they are.

use std::collections::BTreeMap;
use std::time::Duration;

use super::booking::Mode;

/// The server that has the jobs inside as well.
pub const WITH_JOBS_INSIDE: &str = "api-1";
pub const LEASE_MS: u64 = 1200;
/// A pause ends somebody's lease. Where the booking system does not deduplicate, a process that is paused between its check of the lease
/// and the send is what `docs/guarantees.md` leaves open; it can book twice only if it sleeps on until "not there" is believed. So no
/// pause is that long: what holds a send up adds up to 3500 ms, namely a pause, a wire that is held, and a booking system that is late
/// (1700 + 800 + 1000 ms, `behaviour::LATEST_MS`); `BOOKING_TIMEOUT` + `ABSENT_AFTER` are 5700 ms, and the rest is for a slow machine.
pub const PAUSE_MS: (u64, u64) = (LEASE_MS + 100, 1700);
pub const HOLD_MS: (u64, u64) = (100, 800);
/// The wire of one process to its database is silent for longer than a lease: what it was told or tells by it comes too late. It goes on
/// meanwhile, and its checks of the lease with it, so this may be as long as it likes: until everybody believes that it sent nothing.
pub const SILENCE_MS: (u64, u64) = (LEASE_MS, 4000);
/// Only what it is told comes too late, and later than everybody else needs to settle it.
pub const DEAF_MS: (u64, u64) = (7000, 10_000);
/// The database's clock steps by at most so much: `docs/guarantees.md` bears a fraction of a lease.
pub const STEP_MS: u64 = LEASE_MS * 3 / 10;
/// A disk is full for so long.
pub const FULL_MS: (u64, u64) = (1000, 4000);
/// A whole process sleeps for so long.
pub const SLEEP_MS: u64 = 9000;

/// `BOOKING_TIMEOUT` + `ABSENT_AFTER`: a send that leaves a doubt is believed to be over after so long.
pub const SETTLES_AFTER: Duration = Duration::from_millis(5700);
/// `BOOKING_KEY_RETENTION` of a booking system that forgets.
pub const REMEMBERED_MS: u64 = 7000;

pub fn of_processes(mode: Mode, booking_port: u16) -> BTreeMap<String, String> {
    let settings = [
        ("LEASE", format!("{LEASE_MS}ms")),
        ("BOOKING_CONNECT_TIMEOUT", "200ms".into()),
        ("BOOKING_TIMEOUT", "700ms".into()),
        ("ABSENT_AFTER", "5s".into()),
        ("ANSWER_WITHIN", "2500ms".into()),
        ("KEY_RETENTION", "1h".into()),
        ("RELEASE_SCHEDULE", "* * * * * *".into()),
        ("CLEANUP_SCHEDULE", "* * * * * *".into()),
        ("SHUTDOWN_GRACE", "1500ms".into()),
        ("DATABASE_POOL", "4".into()),
        ("DATABASE_ACQUIRE_TIMEOUT", "1s".into()),
        ("BOOKING_URL", format!("http://127.0.0.1:{booking_port}")),
        ("BOOKING_IDEMPOTENT", mode.deduplicates.to_string()),
        ("BOOKING_LOOKUP", mode.looks_up.to_string()),
    ];
    let retention = mode.forgets.then(|| ("BOOKING_KEY_RETENTION", format!("{REMEMBERED_MS}ms")));
    settings.into_iter().chain(retention).map(|(name, value)| (name.to_owned(), value)).collect()
}
