//! Where intents are kept, so that a client that comes back after a crash finds its key again.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{Problem, Reservation, Retry};

const LEFTOVER_AFTER: Duration = Duration::from_secs(3600);

/// Where an intent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No final answer yet: the request may have been accepted.
    Open,
    /// The request was not accepted: another may take its place.
    Mendable,
    /// Answered.
    Final,
}

/// What is sent, besides method and path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedRequest {
    /// Its `If-Match`.
    #[serde(deserialize_with = "Option::deserialize")] // or it might be absent
    pub if_match: Option<String>,
    /// Its body.
    pub body: serde_json::Map<String, Value>,
}

/// A final answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedAnswer {
    /// Its status.
    pub status: u16,
    /// Its `ETag`.
    #[serde(deserialize_with = "Option::deserialize")]
    pub etag: Option<String>,
    /// The reservation or the problem.
    pub body: Value,
}

/// An intent: the request, its key, and its final answer once there is one. JSON, the same in every language's helper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The name that the caller gave.
    pub intent: String,
    /// The idempotency key.
    pub key: String,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// Of the request.
    pub method: String,
    /// Of the request.
    pub path: String,
    /// The rest of the request.
    pub request: SavedRequest,
    /// The requests that stood here before they were refused and mended.
    pub replaced: Vec<SavedRequest>,
    /// Where it stands.
    pub state: State,
    /// The final answer.
    #[serde(deserialize_with = "Option::deserialize")]
    pub answer: Option<SavedAnswer>,
}

/// Supplied by the caller. `begin` and `save` return only when a crash cannot undo them any more.
///
/// They are called from asynchronous code: one that takes long should use a thread of its own.
pub trait Store: Send + Sync {
    /// Adds the record unless the intent has one, atomically; returns the one that is there now.
    ///
    /// # Errors
    /// Where it could not be written or read. Nothing is sent then.
    fn begin(&self, intent: &str, record: &Record) -> io::Result<Record>;

    /// Replaces the record.
    ///
    /// # Errors
    /// Where it could not be written.
    fn save(&self, intent: &str, record: &Record) -> io::Result<()>;

    /// Returns the record that is there now, `None` where the intent has none.
    ///
    /// # Errors
    /// Where it could not be read.
    fn find(&self, intent: &str) -> io::Result<Option<Record>>;
}

/// Forgets with the process: for tests, and for callers for whom a crash cannot leave an intent half done.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<HashMap<String, Record>>);

impl Store for MemoryStore {
    fn begin(&self, intent: &str, record: &Record) -> io::Result<Record> {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(records.entry(intent.to_owned()).or_insert_with(|| record.clone()).clone())
    }

    fn save(&self, intent: &str, record: &Record) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(intent.to_owned(), record.clone());
        Ok(())
    }

    fn find(&self, intent: &str) -> io::Result<Option<Record>> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(intent).cloned())
    }
}

/// One file per intent in a folder, for any number of processes on one machine.
#[derive(Debug, Clone)]
pub struct FileStore {
    folder: PathBuf,
}

impl FileStore {
    /// In this folder, which is made if it is not there.
    ///
    /// # Errors
    /// Where the folder cannot be made.
    pub fn new(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = std::path::absolute(folder.into())?;
        make(&folder)?;
        remove_leftovers(&folder)?;
        Ok(Self { folder })
    }

    /// A digest: of one length, and the same on disks that do not tell `a` from `A`. The record says its intent itself.
    fn path(&self, intent: &str) -> PathBuf {
        let digest: String = Sha256::digest(intent).iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(digest + ".json")
    }
}

impl Store for FileStore {
    fn begin(&self, intent: &str, record: &Record) -> io::Result<Record> {
        let path = self.path(intent);
        let temporary = write(&path, record)?;
        // A link, not a rename: it fails where the name is taken, and the file behind it is complete.
        let linked = fs::hard_link(&temporary, &path);
        fs::remove_file(&temporary)?;
        let found = match linked {
            Ok(()) => record.clone(),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(&path, intent)?,
            Err(error) => return Err(error),
        };
        // For a record that was there, too: who wrote it may have been stopped before this.
        sync(&self.folder)?;
        Ok(found)
    }

    fn save(&self, intent: &str, record: &Record) -> io::Result<()> {
        let path = self.path(intent);
        fs::rename(write(&path, record)?, path)?;
        sync(&self.folder)
    }

    fn find(&self, intent: &str) -> io::Result<Option<Record>> {
        match read(&self.path(intent), intent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }
}

/// Fails with `InvalidData` unless it is a record of this intent.
pub(crate) fn check(intent: &str, record: Record) -> io::Result<Record> {
    let right = [
        ("intent", record.intent == intent),
        ("key", (1..=255).contains(&record.key.len()) && record.key.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')),
        ("answer", record.answer.is_some() == (record.state == State::Final) && record.answer.as_ref().is_none_or(is_answer)),
    ];
    match right.iter().find(|(_, right)| !right) {
        Some((member, _)) => Err(damaged(format!("its member {member} is missing or wrong"))),
        None => Ok(record),
    }
}

fn is_answer(answer: &SavedAnswer) -> bool {
    if answer.status < 400 {
        Reservation::deserialize(&answer.body).is_ok()
    } else {
        Problem::deserialize(&answer.body).is_ok_and(|problem| problem.retry == Retry::Never)
    }
}

fn damaged(reason: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the record is damaged: {reason}"))
}

fn read(path: &Path, intent: &str) -> io::Result<Record> {
    let content = fs::read(path)?;
    let record = serde_json::from_slice(&content).map_err(damaged).and_then(|record| check(intent, record));
    record.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn write(path: &Path, record: &Record) -> io::Result<PathBuf> {
    let content = serde_json::to_vec(record)?;
    let temporary = path.with_extension(format!("{}.tmp", uuid::Uuid::new_v4()));
    let written = File::create_new(&temporary).and_then(|mut file| {
        file.write_all(&content)?;
        file.sync_all()
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary); // the first error is the one to tell
    }
    written.map(|()| temporary)
}

/// A new folder, and each above it that is new, is durable when the one that holds it is synced.
fn make(folder: &Path) -> io::Result<()> {
    let Some(parent) = folder.parent().filter(|_| !folder.is_dir()) else { return Ok(()) };
    make(parent)?;
    match fs::create_dir(folder) {
        Err(_) if folder.is_dir() => {} // another process was faster
        made => made?,
    }
    sync(parent)
}

/// Of processes that were killed while they wrote; a young one may be in use.
fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "tmp") {
            continue;
        }
        // Another process may be faster.
        let age = fs::metadata(&path).and_then(|file| file.modified()).ok().and_then(|written| written.elapsed().ok());
        if age.is_some_and(|age| age > LEFTOVER_AFTER) {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

#[cfg(unix)]
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A folder cannot be opened there.
#[cfg(not(unix))]
fn sync(_: &Path) -> io::Result<()> {
    Ok(())
}
