//! What is under way on one connection, so that its task knows when nothing is.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body, Frame, SizeHint};

/// Counts running handlers and unsent answers, and remembers when something last moved.
///
/// Plain atomics, because every request passes here; a reader that is late by one change only looks again.
#[derive(Debug)]
pub(super) struct Activity {
    began: Instant,
    moved_at_ms: AtomicU64,
    saw_request: AtomicBool,
    running: AtomicUsize,
    answering: AtomicUsize,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            moved_at_ms: AtomicU64::new(0),
            saw_request: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            answering: AtomicUsize::new(0),
        }
    }

    /// A whole head has arrived; its handler runs until the value is dropped or becomes an answer.
    pub(super) fn request_begins(self: &Arc<Self>) -> Running {
        self.saw_request.store(true, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(self))
    }

    pub(super) fn saw_request(&self) -> bool {
        self.saw_request.load(Ordering::Relaxed)
    }

    pub(super) fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed) > 0
    }

    /// How long nothing has moved; zero while a handler runs, which is for the handler to bound.
    pub(super) fn quiet_for(&self) -> Duration {
        if self.running.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        self.began.elapsed().saturating_sub(Duration::from_millis(self.moved_at_ms.load(Ordering::Relaxed)))
    }

    fn moved(&self) {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_at_ms.store(now_ms, Ordering::Relaxed);
    }
}

/// A handler at work.
pub(super) struct Running(Arc<Activity>);

impl Running {
    pub(super) fn answer_begins<B>(self, body: B) -> Answer<B> {
        self.0.answering.fetch_add(1, Ordering::Relaxed);
        Answer { body, activity: Arc::clone(&self.0) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.moved();
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer; counts as unsent until hyper has taken all of it.
pub(super) struct Answer<B> {
    body: B,
    activity: Arc<Activity>,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_ready() {
            self.activity.moved();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Answer<B> {
    fn drop(&mut self) {
        self.activity.moved();
        self.activity.answering.fetch_sub(1, Ordering::Relaxed);
    }
}
