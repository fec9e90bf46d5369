//! Waiting for things to happen, and making things happen at once.

use std::future::{Future, IntoFuture};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; a test that holds never waits for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until the answer is `Some`; fails with `what` when it never becomes so.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = ask().await {
            return value;
        }
        assert!(Instant::now() < end, "never came about: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// All of them at the same time; the results in order.
pub async fn together<F: IntoFuture>(all: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F::IntoFuture: Future<Output = F::Output>,
{
    futures_util::future::join_all(all.into_iter().map(IntoFuture::into_future)).await
}

/// Time itself is what is waited for: a lease or a retention that must run out.
pub async fn pass(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}
