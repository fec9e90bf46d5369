//! What a handler leaves unread of a body is read and dropped after the answer, within limits: a connection that is closed on unread
//! bytes is reset, and a caller that is still sending would never see why it was refused.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use hyper::body::Bytes;
use poem::http::header;
use poem::{Body, Request};

const LIMIT_BYTES: usize = 8 * 1024 * 1024;
const LIMIT_TIME: Duration = Duration::from_secs(5);

type Chunks = BoxStream<'static, std::io::Result<Bytes>>;

/// What is still to come of a body; shared with the request that may read it.
pub struct Leftover(Shared);

#[derive(Clone)]
struct Shared(Arc<Mutex<Option<Chunks>>>);

impl Leftover {
    /// Of a request that has a body. A caller that asked first (`Expect: 100-continue`) has not begun, and is not made to.
    pub fn of(request: &mut Request) -> Option<Self> {
        let headers = request.headers();
        let has_body = headers.contains_key(header::TRANSFER_ENCODING)
            || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length.as_bytes() != b"0");
        if !has_body || headers.contains_key(header::EXPECT) {
            return None;
        }
        let shared = Shared(Arc::new(Mutex::new(Some(request.take_body().into_bytes_stream().boxed()))));
        request.set_body(Body::from_bytes_stream(shared.clone()));
        Some(Self(shared))
    }

    /// Reads on in a task of its own; the answer does not wait for it.
    pub fn discard(self) {
        if self.0.is_at_its_end() {
            return;
        }
        tokio::spawn(async move {
            let reading = async move {
                let mut chunks = self.0;
                let mut seen_bytes = 0;
                while let Some(Ok(chunk)) = chunks.next().await {
                    seen_bytes += chunk.len();
                    if seen_bytes > LIMIT_BYTES {
                        return;
                    }
                }
            };
            let _ = tokio::time::timeout(LIMIT_TIME, reading).await;
        });
    }
}

impl Shared {
    fn is_at_its_end(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Stream for Shared {
    type Item = std::io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut chunks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let polled = chunks.as_mut().map_or(Poll::Ready(None), |chunks| chunks.poll_next_unpin(context));
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            *chunks = None;
        }
        polled
    }
}
