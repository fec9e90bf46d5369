//! A bound on the requests that are worked on at once, and so on the memory that their bodies take.

use std::sync::Arc;

use poem::{Endpoint, Middleware, Request, Result};
use tokio::sync::Semaphore;

use super::problem::{Code, Problem};

/// Refuses what comes while so many requests are under way, with the problem `too-many-requests`; nothing of it was read.
#[derive(Debug, Clone, Copy)]
pub struct InFlight(pub usize);

impl<E: Endpoint> Middleware<E> for InFlight {
    type Output = WithInFlight<E>;

    fn transform(&self, inner: E) -> Self::Output {
        WithInFlight { inner, slots: Arc::new(Semaphore::new(self.0)) }
    }
}

/// The endpoint that [`InFlight`] makes.
#[derive(Debug)]
pub struct WithInFlight<E> {
    inner: E,
    slots: Arc<Semaphore>,
}

impl<E: Endpoint> Endpoint for WithInFlight<E> {
    type Output = E::Output;

    async fn call(&self, request: Request) -> Result<Self::Output> {
        let Ok(_slot) = self.slots.try_acquire() else {
            let problem = Problem::new(Code::TooManyRequests, "The service has more requests under way than it takes. Nothing was done.");
            return Err(problem.retry_after_s(rand::random_range(1..=5)).into());
        };
        self.inner.call(request).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use poem::endpoint::make;
    use poem::http::StatusCode;
    use poem::{EndpointExt, Response};

    #[tokio::test]
    async fn one_too_many_is_refused_until_there_is_room() {
        let gate = Arc::new(Semaphore::new(0));
        let inside = Arc::clone(&gate);
        let endpoint = Arc::new(
            make(move |_| {
                let gate = Arc::clone(&inside);
                async move {
                    let _ = gate.acquire().await.map(tokio::sync::SemaphorePermit::forget);
                    Response::builder().finish()
                }
            })
            .with(InFlight(1)),
        );
        let first = tokio::spawn({
            let endpoint = Arc::clone(&endpoint);
            async move { endpoint.get_response(Request::default()).await.status() }
        });
        tokio::task::yield_now().await;
        let refused = endpoint.get_response(Request::default()).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(refused.header("retry-after").is_some());
        gate.add_permits(2);
        assert_eq!(first.await.unwrap(), StatusCode::OK);
        assert_eq!(endpoint.get_response(Request::default()).await.status(), StatusCode::OK);
    }
}
