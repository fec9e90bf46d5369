//! What went wrong for whom, and when: so that the oracle can tell what a fault explains from what nothing explains.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A process stands still or is gone, or its wire to the booking system is not as it should be, or the machine has no time: whatever
    /// it sends may arrive any time later.
    Sending,
    /// It does not get at its database.
    Storing,
    /// Its connections to the database ended, and it can have new ones: whoever tries again has nothing to wait for.
    Sudden,
    /// The database's clock has just stepped: a lease may be over sooner than its worker knows.
    Stepped,
}

#[derive(Clone, Debug)]
struct Trouble {
    kind: Kind,
    /// One process; none for all of them.
    whom: Option<String>,
    from: Instant,
    /// None while it lasts.
    to: Option<Instant>,
}

#[derive(Default)]
pub struct Troubles(Mutex<Vec<Trouble>>);

/// A trouble lasts until this is dropped.
pub struct Lasting<'a>(&'a Troubles, usize);

impl Troubles {
    pub fn begin(&self, kind: Kind, whom: Option<&str>) -> Lasting<'_> {
        let mut all = self.0.lock().unwrap();
        all.push(Trouble { kind, whom: whom.map(str::to_owned), from: Instant::now(), to: None });
        Lasting(self, all.len() - 1)
    }

    /// Whether one of these troubled that process in this time.
    pub fn met(&self, kinds: &[Kind], process: &str, from: Instant, to: Instant) -> bool {
        let touches = |t: &Trouble| t.from <= to && t.to.is_none_or(|end| end >= from);
        let of = |t: &Trouble| t.whom.as_deref().is_none_or(|whom| whom == process);
        self.0.lock().unwrap().iter().any(|t| kinds.contains(&t.kind) && of(t) && touches(t))
    }

    /// Notes when this machine has no time for us: then it has none for the processes either. Never returns; each delay is told.
    pub async fn watch_the_machine(&self, tell: impl Fn(Duration)) {
        const TICK: Duration = Duration::from_millis(50);
        const STALL: Duration = Duration::from_millis(150);
        loop {
            let from = Instant::now();
            tokio::time::sleep(TICK).await;
            let late = from.elapsed().saturating_sub(TICK);
            if late > STALL {
                let to = Some(Instant::now());
                self.0.lock().unwrap().push(Trouble { kind: Kind::Sending, whom: None, from, to });
            }
            tell(late);
        }
    }
}

impl Drop for Lasting<'_> {
    fn drop(&mut self) {
        self.0.0.lock().unwrap()[self.1].to = Some(Instant::now());
    }
}
