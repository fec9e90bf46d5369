//! Who was asked for what, and who was told that nothing was sent: such a request sends nothing afterwards either.

use std::time::Instant;

/// A request to reserve, at one process.
#[derive(Debug)]
struct Request {
    process: String,
    item: String,
    left: Instant,
    /// Its caller was told that it sent nothing.
    sent_nothing: bool,
}

#[derive(Debug, Default)]
pub struct Requests(Vec<Request>);

/// A request that has left.
pub struct Number(usize);

impl Requests {
    pub fn leaves(&mut self, process: &str, item: &str) -> Number {
        self.0.push(Request { process: process.to_owned(), item: item.to_owned(), left: Instant::now(), sent_nothing: false });
        Number(self.0.len() - 1)
    }

    pub fn sent_nothing(&mut self, Number(of): &Number) {
        self.0[*of].sent_nothing = true;
    }

    /// Whether a request may have made that process send this at that time.
    pub fn explain(&self, process: &str, item: &str, arrived: Instant) -> bool {
        self.0.iter().any(|r| !r.sent_nothing && r.left <= arrived && r.process == process && r.item == item)
    }
}
