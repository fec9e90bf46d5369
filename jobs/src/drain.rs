//! The end of a process that was asked to stop.

use std::time::Duration;

use migration::start::StopSignal;
use tokio::time::{Instant, timeout_at};

/// The end of the grace is kept for writing things down, whatever still runs: a fifth of it, and no more than this.
const KEPT_AT_MOST: Duration = Duration::from_secs(2);

/// How long running work has, of a grace that also has to last for what comes after it.
#[must_use]
pub fn for_work(grace: Duration) -> Duration {
    grace - (grace / 5).min(KEPT_AT_MOST)
}

/// Waits for `work` and then for `finish`, both together within the grace, until the next signal. Work that takes too long is left, and
/// `finish` begun without it. Whether both came to their end.
pub async fn drain(grace: Duration, stop: &mut StopSignal, work: impl Future<Output = ()>, finish: impl Future<Output = ()>) -> bool {
    let began = Instant::now();
    let both = async {
        let done = timeout_at(began + for_work(grace), work).await.is_ok();
        let finished = timeout_at(began + grace, finish).await.is_ok();
        done && finished
    };
    tokio::select! {
        drained = both => drained,
        () = stop.requested() => false,
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_end_leaves_time_to_finish() {
        let mut stop = StopSignal::receive().unwrap();
        for (grace, finish) in [(20_000, 2000), (1000, 200)].map(|(g, f)| (Duration::from_millis(g), Duration::from_millis(f))) {
            let (began, mut finished) = (Instant::now(), false);
            let finishing = async {
                sleep(finish - Duration::from_millis(1)).await;
                finished = true;
            };
            assert!(!drain(grace, &mut stop, pending(), finishing).await);
            assert!(finished && began.elapsed() < grace, "{:?}", began.elapsed());
            assert!(!drain(grace, &mut stop, ready(()), pending()).await);
            assert!(drain(grace, &mut stop, sleep(grace / 2), sleep(grace / 3)).await);
        }
    }
}
