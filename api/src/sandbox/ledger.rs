//! The bookings that were made: an append-only list of events, kept in a file of JSON lines or in memory.
//!
//! A call holds the file's advisory lock from reading what others appended to appending its own event, so that processes
//! that share the file make one booking for one key. A process killed in mid-write leaves a last line without its end; the
//! next call cuts that off: nobody was told of it. The file is not flushed to the disk: it survives a process, and need not
//! survive a power cut.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::Storage;
use super::booking::{Booking, NewBooking, NewValues};

/// One line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Booked { key: String, booking: Booking },
    Changed { key: String, reference: String, values: NewValues },
    Cancelled { reference: String },
}

/// What became of a `POST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Booked {
    /// This call made the booking.
    New(Booking),
    /// The key had made it before.
    Before(Booking),
    /// Another key has made a booking under this reference.
    ReferenceTaken,
}

/// A booking in the list for people.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Entry {
    #[serde(flatten)]
    pub booking: Booking,
    pub cancelled: bool,
}

/// The bookings as the events read so far say.
#[derive(Debug, Default)]
struct Bookings {
    entries: Vec<Entry>,
    by_key: HashMap<String, usize>,
    by_reference: HashMap<String, usize>,
    /// What each change answered, by its key, so that a late repetition undoes no later change.
    changes: HashMap<String, Booking>,
}

#[derive(Debug, Default)]
struct Known {
    bookings: Bookings,
    /// How much of the file has been read, and of which file: one that was removed and made anew is read from its start.
    read_bytes: u64,
    identity: Option<u64>,
}

/// The ledger of one process. Its calls block: on the file's lock, and on the file.
#[derive(Debug)]
pub(super) struct Ledger {
    storage: Storage,
    known: Mutex<Known>,
}

impl Ledger {
    pub(super) fn new(storage: Storage) -> Self {
        Self { storage, known: Mutex::default() }
    }

    /// Books under `key`, once.
    pub(super) fn book(&self, key: &str, request: NewBooking) -> io::Result<Booked> {
        self.transact(|bookings| {
            if let Some(&index) = bookings.by_key.get(key) {
                return (Booked::Before(bookings.entries[index].booking.clone()), None);
            }
            if bookings.by_reference.contains_key(&request.reference) {
                return (Booked::ReferenceTaken, None);
            }
            let booking = Booking::new(request);
            (Booked::New(booking.clone()), Some(Event::Booked { key: key.to_owned(), booking }))
        })
    }

    /// Has this key made a booking?
    pub(super) fn booked_under(&self, key: &str) -> io::Result<Option<Booking>> {
        self.transact(|bookings| (bookings.by_key.get(key).map(|&index| bookings.entries[index].booking.clone()), None))
    }

    /// The booking of a reference, unless there is none or it is cancelled.
    pub(super) fn find(&self, reference: &str) -> io::Result<Option<Booking>> {
        self.transact(|bookings| (bookings.live(reference).cloned(), None))
    }

    /// Sets new values, once a key; `None` where [`Self::find`] finds nothing.
    pub(super) fn change(&self, key: &str, reference: &str, values: NewValues) -> io::Result<Option<Booking>> {
        self.transact(|bookings| {
            if let Some(answered) = bookings.changes.get(key).filter(|booking| booking.request.reference == reference) {
                return (Some(answered.clone()), None);
            }
            let Some(mut booking) = bookings.live(reference).cloned() else { return (None, None) };
            booking.apply(values.clone());
            (Some(booking), Some(Event::Changed { key: key.to_owned(), reference: reference.to_owned(), values }))
        })
    }

    /// Cancels; `None` where [`Self::find`] finds nothing.
    pub(super) fn cancel(&self, reference: &str) -> io::Result<Option<Booking>> {
        self.transact(|bookings| match bookings.live(reference).cloned() {
            Some(booking) => (Some(booking), Some(Event::Cancelled { reference: reference.to_owned() })),
            None => (None, None),
        })
    }

    /// The newest bookings, cancelled ones too, newest first.
    pub(super) fn newest(&self, limit: usize) -> io::Result<Vec<Entry>> {
        self.transact(|bookings| (bookings.entries.iter().rev().take(limit).cloned().collect(), None))
    }

    /// Lets `decide` see all bookings there are, and appends the event it wants before anyone else can see them.
    fn transact<T>(&self, decide: impl FnOnce(&Bookings) -> (T, Option<Event>)) -> io::Result<T> {
        // A panic leaves at worst an event of the file unread, never half of one applied.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = match &self.storage {
            Storage::Memory => None,
            Storage::File(path) => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
                // Given back when the file is closed, at the end of this call or of the process.
                file.lock()?;
                Some(file)
            }
        };
        if let Some(file) = &mut file {
            known.catch_up(file)?;
        }
        let (answer, event) = decide(&known.bookings);
        if let Some(event) = event {
            if let Some(file) = &mut file {
                let mut line = serde_json::to_vec(&event)?;
                line.push(b'\n');
                file.write_all(&line)?;
                known.read_bytes += line.len() as u64;
            }
            known.bookings.apply(event);
        }
        Ok(answer)
    }
}

impl Known {
    /// Applies what was appended since the last call, and cuts off a torn last line. The caller holds the file's lock.
    fn catch_up(&mut self, file: &mut File) -> io::Result<()> {
        let metadata = file.metadata()?;
        let identity = Some(identity(&metadata));
        if identity != self.identity || metadata.len() < self.read_bytes {
            *self = Self { identity, ..Self::default() };
        }
        if metadata.len() == self.read_bytes {
            return Ok(());
        }
        file.seek(SeekFrom::Start(self.read_bytes))?;
        let mut appended = Vec::new();
        file.read_to_end(&mut appended)?;
        let whole = appended.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        for line in appended[..whole].split_inclusive(|&byte| byte == b'\n') {
            // Not skipped: a booking that is forgotten would be made twice.
            let event = serde_json::from_slice(line)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("byte {}: {error}", self.read_bytes)))?;
            self.bookings.apply(event);
            self.read_bytes += line.len() as u64;
        }
        if whole < appended.len() {
            tracing::warn!(torn_bytes = appended.len() - whole, "the sandbox's file ends in a torn line, which is cut off");
            file.set_len(self.read_bytes)?;
        }
        Ok(())
    }
}

#[cfg(unix)]
fn identity(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

/// Elsewhere a file that is replaced is noticed only by its being shorter.
#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> u64 {
    0
}

impl Bookings {
    fn live(&self, reference: &str) -> Option<&Booking> {
        let entry = &self.entries[*self.by_reference.get(reference)?];
        (!entry.cancelled).then_some(&entry.booking)
    }

    fn entry_mut(&mut self, reference: &str) -> Option<&mut Entry> {
        self.by_reference.get(reference).map(|&index| &mut self.entries[index])
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Booked { key, booking } => {
                let index = self.entries.len();
                self.by_key.insert(key, index);
                self.by_reference.insert(booking.request.reference.clone(), index);
                self.entries.push(Entry { booking, cancelled: false });
            }
            Event::Changed { key, reference, values } => {
                if let Some(entry) = self.entry_mut(&reference) {
                    entry.booking.apply(values);
                    let answer = entry.booking.clone();
                    self.changes.insert(key, answer);
                }
            }
            Event::Cancelled { reference } => {
                if let Some(entry) = self.entry_mut(&reference) {
                    entry.cancelled = true;
                }
            }
        }
    }
}
