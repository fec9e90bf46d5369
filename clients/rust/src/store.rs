//! Where intents are kept, so that a client that comes back after a crash finds its key again.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-');

/// Where an intent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No final answer yet.
    Open,
    /// The server asked to correct the request.
    Corrected,
    /// Answered.
    Final,
}

/// A final answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedAnswer {
    /// Its status.
    pub status: u16,
    /// Its `ETag`.
    pub etag: Option<String>,
    /// The reservation or the problem.
    pub body: Value,
}

/// An intent: the request, its key, and its final answer once there is one. JSON, the same in every language's helper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The idempotency key.
    pub key: String,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// Of the request.
    pub method: String,
    /// Of the request.
    pub path: String,
    /// Of the request.
    pub if_match: Option<String>,
    /// Of the request.
    pub body: Value,
    /// Where it stands.
    pub state: State,
    /// The final answer.
    pub answer: Option<SavedAnswer>,
}

/// Supplied by the caller. Both methods return only when a crash cannot undo them any more.
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
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    fn path(&self, intent: &str) -> PathBuf {
        self.folder.join(format!("{}.json", utf8_percent_encode(intent, ESCAPED)))
    }

    fn write(&self, record: &Record) -> io::Result<PathBuf> {
        let temporary = self.folder.join(format!("{}.tmp", uuid::Uuid::new_v4()));
        let mut file = File::create_new(&temporary)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        Ok(temporary)
    }

    fn sync_folder(&self) -> io::Result<()> {
        sync_folder(&self.folder)
    }
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A folder cannot be opened there.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

impl Store for FileStore {
    fn begin(&self, intent: &str, record: &Record) -> io::Result<Record> {
        let path = self.path(intent);
        let temporary = self.write(record)?;
        // A link, not a rename: it fails where the name is taken, and the file behind it is complete.
        let linked = fs::hard_link(&temporary, &path);
        fs::remove_file(&temporary)?;
        match linked {
            Ok(()) => {
                self.sync_folder()?;
                Ok(record.clone())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(serde_json::from_slice(&fs::read(path)?)?),
            Err(error) => Err(error),
        }
    }

    fn save(&self, intent: &str, record: &Record) -> io::Result<()> {
        fs::rename(self.write(record)?, self.path(intent))?;
        self.sync_folder()
    }
}
