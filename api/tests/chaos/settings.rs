//! Short times for a world in which much goes wrong, and why they are as they are.

use std::collections::BTreeMap;

use super::booking::Mode;

pub const LEASE_MS: u64 = 1200;
/// A pause ends somebody's lease. Where the booking system does not deduplicate, a process that is paused between its check of the lease
/// and the send is what `docs/guarantees.md` leaves open; it can book twice only if it sleeps on until "not there" is believed. So no
/// pause is that long: what holds a send up adds up to less than `BOOKING_TIMEOUT` + `ABSENT_AFTER` = 4700 ms, namely a pause, a wire that
/// is held, and a booking system that is late (1900 + 1000 + 1200 ms).
pub const PAUSE_MS: (u64, u64) = (LEASE_MS + 100, 1900);
pub const HOLD_MS: (u64, u64) = (100, 1000);

pub fn of_processes(mode: Mode, booking_port: u16) -> BTreeMap<String, String> {
    let settings = [
        ("LEASE", format!("{LEASE_MS}ms")),
        ("BOOKING_CONNECT_TIMEOUT", "200ms".into()),
        ("BOOKING_TIMEOUT", "700ms".into()),
        ("ABSENT_AFTER", "4s".into()),
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
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
