//! Writes the attempt journal beside the work: an entry costs its attempt a send on a channel, and one statement carries hundreds.
//!
//! A full channel or a storage that does not answer loses entries, never time: the journal is evidence, not state.

use std::time::Duration;

use entity::attempt_journal::{self, BATCH, Entry};
use entity::database::Database;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::booking::{Looked, Nothing, Sent, Unknown};
use crate::boot_clock::BootInstant;

/// Entries that wait at most.
const WAITING: usize = 10_000;
/// How long entries are gathered.
const GATHER: Duration = Duration::from_millis(250);

/// Where attempts leave their entries. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal {
    entries: mpsc::Sender<(BootInstant, Entry)>,
    closing: CancellationToken,
    writer: TaskTracker,
}

impl Journal {
    /// Starts the writer.
    #[must_use]
    pub fn start(db: Database, worker: String) -> Self {
        let (entries, waiting) = mpsc::channel(WAITING);
        let (closing, writer) = (CancellationToken::new(), TaskTracker::new());
        writer.spawn(write(db, worker, waiting, closing.clone()));
        writer.close();
        Self { entries, closing, writer }
    }

    /// Writes what is waiting, and ends the writer.
    pub async fn close(&self) {
        self.closing.cancel();
        self.writer.wait().await;
    }

    pub(crate) fn note(&self, entry: Entry) {
        if self.entries.try_send((BootInstant::now(), entry)).is_err() {
            tracing::debug!("the journal is full or closed: an entry is lost");
        }
    }
}

async fn write(db: Database, worker: String, mut waiting: mpsc::Receiver<(BootInstant, Entry)>, closing: CancellationToken) {
    let mut gathered = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => waiting.close(),
            _ = waiting.recv_many(&mut gathered, BATCH) => tokio::select! {
                () = closing.cancelled() => {}
                () = tokio::time::sleep(GATHER) => {}
            },
        }
        while gathered.len() < BATCH
            && let Ok(entry) = waiting.try_recv()
        {
            gathered.push(entry);
        }
        if gathered.is_empty() && closing.is_cancelled() {
            return;
        }
        let entries: Vec<Entry> = gathered.drain(..).map(|(ended, entry)| Entry { ended_ms_ago: ended.elapsed_ms(), ..entry }).collect();
        if let Err(error) = attempt_journal::write(&db, &worker, &entries).await {
            tracing::warn!(%error, lost = entries.len(), "the journal could not be written");
        }
    }
}

/// Class of a send, and the status there where it says more.
pub(crate) fn of_sent<T>(sent: &Sent<T>) -> (String, Option<u16>) {
    match sent {
        Sent::Done { status, .. } => ("done".into(), Some(*status)),
        Sent::Refused { status } => ("refused".into(), Some(*status)),
        Sent::Nothing(Nothing::NoConnection) => ("no connection".into(), None),
        Sent::Nothing(Nothing::Misconfigured { status }) => ("not accepted".into(), Some(*status)),
        Sent::Nothing(Nothing::Busy { .. }) => ("busy".into(), Some(429)),
        Sent::Unknown(why) => unknown(why),
    }
}

/// Class of a look-up, and the status there where it says more.
pub(crate) fn of_looked(looked: &Looked) -> (String, Option<u16>) {
    match looked {
        Looked::Found(_) => ("found".into(), Some(200)),
        Looked::NotThere => ("not there".into(), Some(404)),
        Looked::Unknown(why) => unknown(why),
    }
}

fn unknown(why: &Unknown) -> (String, Option<u16>) {
    match why {
        Unknown::Status(status) => ("unknown".into(), Some(*status)),
        Unknown::TimedOut | Unknown::Broken | Unknown::Unreadable | Unknown::Coding(_) => (format!("unknown: {why}"), None),
    }
}
