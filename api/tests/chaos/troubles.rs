//! What went wrong for whom, and when: so that the oracle can tell what a fault explains from what nothing explains.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Something that kept processes from their work.
#[derive(Clone, Debug)]
struct Trouble {
    /// One process; none for all of them.
    whom: Option<String>,
    /// Over as soon as it began: whoever tries again has nothing to wait for.
    sudden: bool,
    from: Instant,
    /// None while it lasts.
    to: Option<Instant>,
}

#[derive(Default)]
pub struct Troubles(Mutex<Vec<Trouble>>);

/// A trouble lasts until this is dropped.
pub struct Lasting<'a>(&'a Troubles, usize);

impl Troubles {
    pub fn begin(&self, whom: Option<&str>, sudden: bool) -> Lasting<'_> {
        let mut all = self.0.lock().unwrap();
        all.push(Trouble { whom: whom.map(str::to_owned), sudden, from: Instant::now(), to: None });
        Lasting(self, all.len() - 1)
    }

    /// Whether anything that cannot just be tried again troubled that process in this time.
    pub fn explain(&self, process: &str, from: Instant, to: Instant) -> bool {
        let touches = |t: &Trouble| t.from <= to && t.to.is_none_or(|end| end >= from);
        self.0.lock().unwrap().iter().any(|t| !t.sudden && t.whom.as_deref().is_none_or(|whom| whom == process) && touches(t))
    }

    /// Notes when this machine has no time for us: then it has none for the processes either. Never returns; gives the longest stall
    /// to `tell`.
    pub async fn watch_the_machine(&self, tell: impl Fn(Duration)) {
        const TICK: Duration = Duration::from_millis(50);
        const STALL: Duration = Duration::from_millis(200);
        loop {
            let from = Instant::now();
            tokio::time::sleep(TICK).await;
            let late = from.elapsed().saturating_sub(TICK);
            if late > STALL {
                self.0.lock().unwrap().push(Trouble { whom: None, sudden: false, from, to: Some(Instant::now()) });
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
