//! Requests that wait for another one under the same key. Each costs a task and no connection.
//!
//! A key that is settled in this process wakes its waiters at once; one that another process settles is seen by a read, first after a
//! moment, then less and less often.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use entity::key_scope::KeyDigest;
use tokio::sync::watch;
use tokio::time::Instant;

/// First pause between two reads of a waiter, and the longest.
const READ_EVERY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Who waits for which key.
#[derive(Debug, Default)]
pub struct KeyWaiters(Mutex<HashMap<KeyDigest, Entry>>);

/// Stays as long as somebody waits, however often the key is settled meanwhile.
#[derive(Debug)]
struct Entry {
    settled: watch::Sender<()>,
    waiters: usize,
}

impl KeyWaiters {
    /// Listens for this key from now on. To be followed by a read of its record: what is settled after that read wakes.
    pub fn listen(&self, key: KeyDigest) -> Waiter<'_> {
        let mut entries = self.entries();
        let entry = entries.entry(key).or_insert_with(|| Entry { settled: watch::Sender::new(()), waiters: 0 });
        entry.waiters += 1;
        Waiter { all: self, key, settled: entry.settled.subscribe(), pause: READ_EVERY.0 }
    }

    /// Wakes all who wait for this key.
    pub fn settled(&self, key: &KeyDigest) {
        if let Some(entry) = self.entries().get(key) {
            entry.settled.send_replace(());
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<KeyDigest, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits.
#[derive(Debug)]
pub struct Waiter<'a> {
    all: &'a KeyWaiters,
    key: KeyDigest,
    settled: watch::Receiver<()>,
    pause: Duration,
}

impl Waiter<'_> {
    /// Returns when the record is worth reading again, at `until` at the latest: at once if the key was settled since the last return.
    pub async fn wait(&mut self, until: Instant) {
        let jitter = rand::random_range(0.75..1.25);
        let next_read = (Instant::now() + self.pause.mul_f64(jitter)).min(until);
        self.pause = (self.pause * 3 / 2).min(READ_EVERY.1);
        // The sender lives as long as this waiter is counted, so an end is a settle or the time.
        let _ = tokio::time::timeout_at(next_read, self.settled.changed()).await;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut entries = self.all.entries();
        if let Some(entry) = entries.get_mut(&self.key) {
            entry.waiters -= 1;
            if entry.waiters == 0 {
                let _ = entries.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entity::key_scope::Operation;

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    async fn time_of(wait: impl Future<Output = ()>) -> Duration {
        let began = Instant::now();
        wait.await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_read_less_and_less_often_and_never_beyond_their_time() {
        let waiters = KeyWaiters::default();
        let mut waiter = waiters.listen(KeyDigest::of("a", Operation::Create, "k"));
        assert!(time_of(waiter.wait(far())).await <= Duration::from_millis(70));
        for _ in 0..20 {
            waiter.wait(far()).await;
        }
        assert!(time_of(waiter.wait(far())).await >= Duration::from_millis(750));
        let soon = Instant::now() + Duration::from_millis(100);
        assert!(time_of(waiter.wait(soon)).await <= Duration::from_millis(101));
    }

    #[tokio::test(start_paused = true)]
    async fn a_settled_key_wakes_its_waiters_and_no_others_whenever_it_is_settled() {
        let waiters = KeyWaiters::default();
        let (key, other) = (KeyDigest::of("a", Operation::Create, "k"), KeyDigest::of("a", Operation::Create, "l"));
        let mut waiting = [waiters.listen(key), waiters.listen(key)];
        let mut of_other = waiters.listen(other);
        // Between the listening (or the last return) and the wait, and more than once.
        for _ in 0..3 {
            waiters.settled(&key);
            for waiter in &mut waiting {
                assert_eq!(time_of(waiter.wait(far())).await, Duration::ZERO);
            }
        }
        let ((), ()) = tokio::join!(async { assert_eq!(time_of(waiting[0].wait(far())).await, Duration::ZERO) }, async {
            waiters.settled(&key);
        });
        assert!(time_of(of_other.wait(far())).await > Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_stays_as_long_as_somebody_waits() {
        let waiters = KeyWaiters::default();
        let key = KeyDigest::of("a", Operation::Create, "k");
        let (first, mut second) = (waiters.listen(key), waiters.listen(key));
        drop(first);
        waiters.settled(&key);
        assert_eq!(time_of(second.wait(far())).await, Duration::ZERO);
        drop(second);
        assert!(waiters.entries().is_empty());
        waiters.settled(&key);
    }
}
