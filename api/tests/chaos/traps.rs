//! Waiting for the worst moment: the booking system stops where it is until the fault has happened.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::oneshot;

/// A moment worth waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Some process is about to be told that it has booked.
    Booked,
    /// Some process is about to be told that something scarce is sold out.
    Refused,
    /// Some process is about to learn nothing of what it sent, which may be sent again.
    Unknown,
    /// Some process has booked, and is about to learn nothing of it.
    Lost,
    /// A booking was sent under this reference.
    Sent { reference: String },
}

/// The moment has come, and lasts until this is dropped.
pub struct Caught {
    pub reference: String,
    /// Who sent.
    pub process: String,
    _go_on: oneshot::Sender<()>,
}

#[derive(Default)]
pub struct Traps(Mutex<Vec<(When, oneshot::Sender<Caught>)>>);

impl Traps {
    /// None where the moment does not come in that time.
    pub async fn wait(&self, when: When, patience: Duration) -> Option<Caught> {
        let (tell, told) = oneshot::channel();
        self.0.lock().unwrap().push((when, tell));
        tokio::time::timeout(patience, told).await.ok()?.ok()
    }

    /// The moment has come; whoever waits for it has a second for what it has in mind.
    pub async fn spring(&self, now: &When, reference: &str, process: &str) {
        let waiting = {
            let mut all = self.0.lock().unwrap();
            all.retain(|(_, tell)| !tell.is_closed());
            all.iter().position(|(when, _)| when == now).map(|at| all.swap_remove(at))
        };
        let Some((_, tell)) = waiting else { return };
        let (go_on, goes_on) = oneshot::channel();
        if tell.send(Caught { reference: reference.to_owned(), process: process.to_owned(), _go_on: go_on }).is_ok() {
            let _ = tokio::time::timeout(Duration::from_secs(1), goes_on).await;
        }
    }
}
