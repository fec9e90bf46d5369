//! The waiting rooms: a request that waits for another one under the same key costs a task and no connection.
//!
//! A key that is settled in this process wakes its waiters at once; one that another process settles is seen by a read, first after a
//! moment, then less and less often.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use entity::key_scope::KeyDigest;
use tokio::sync::Notify;
use tokio::time::Instant;

/// First pause between two reads of a waiter, and the longest.
const READ_EVERY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Who waits for which key. A room is gone when its last waiter leaves.
#[derive(Debug, Default)]
pub struct WaitingRooms(Mutex<HashMap<KeyDigest, Weak<Notify>>>);

impl WaitingRooms {
    /// Enters the room of a key, before its record is read: what is settled after that read wakes.
    pub fn enter(&self, key: KeyDigest) -> Waiter {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rooms.len() > 1000 {
            rooms.retain(|_, room| room.strong_count() > 0);
        }
        let room = rooms.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let room = Arc::new(Notify::new());
            rooms.insert(key, Arc::downgrade(&room));
            room
        });
        Waiter { room, pause: READ_EVERY.0 }
    }

    /// Wakes all who wait for this key.
    pub fn settled(&self, key: &KeyDigest) {
        let room = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        if let Some(room) = room.and_then(|room| room.upgrade()) {
            room.notify_waiters();
        }
    }
}

/// A request that waits.
#[derive(Debug)]
pub struct Waiter {
    room: Arc<Notify>,
    pause: Duration,
}

impl Waiter {
    /// Returns when the record is worth reading again, at `until` at the latest; false if that is over already.
    pub async fn wait(&mut self, until: Instant) -> bool {
        let now = Instant::now();
        if now >= until {
            return false;
        }
        let jitter = rand::random_range(0.75..1.25);
        let next_read = (now + self.pause.mul_f64(jitter)).min(until);
        self.pause = (self.pause * 3 / 2).min(READ_EVERY.1);
        tokio::select! {
            () = self.room.notified() => {}
            () = tokio::time::sleep_until(next_read) => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entity::key_scope::Operation;

    #[tokio::test(start_paused = true)]
    async fn waiters_wake_when_their_key_is_settled_and_read_less_and_less_often() {
        let rooms = WaitingRooms::default();
        let (key, other) = (KeyDigest::of("a", Operation::Create, "k"), KeyDigest::of("a", Operation::Create, "l"));
        let far = Instant::now() + Duration::from_secs(600);
        let mut waiter = rooms.enter(key);
        for _ in 0..20 {
            assert!(waiter.wait(far).await);
        }
        let began = Instant::now();
        assert!(waiter.wait(far).await);
        assert!(began.elapsed() >= Duration::from_millis(750));

        let mut second = rooms.enter(key);
        let began = Instant::now();
        let (woke, ()) = tokio::join!(second.wait(far), async {
            rooms.settled(&other);
            rooms.settled(&key);
        });
        assert!(woke && began.elapsed() < Duration::from_millis(30));
        assert!(!second.wait(Instant::now()).await);
    }
}
