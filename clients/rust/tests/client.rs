//! What is of this language alone; the rest is in ../../cases.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use reservation_client::{ChangeReservation, Client, Error, FileStore, MemoryStore, NewReservation};

const NOBODY: &str = "http://127.0.0.1:1";

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("store.{}", uuid::Uuid::new_v4())))
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder").map(|entry| entry.expect("an entry").file_name());
        entries.map(|name| name.into_string().expect("ASCII")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn room() -> NewReservation {
    NewReservation { item_code: "ROOM".into(), quantity: 1, reserved_by: "taro".into(), ..Default::default() }
}

#[tokio::test]
async fn what_is_no_header_is_not_stored() {
    let folder = Folder::new();
    let client = || Client::new(NOBODY, FileStore::new(&folder.0).expect("a store")).expect("a client");
    let change = ChangeReservation { quantity: Some(2), ..Default::default() };
    let outcome = client().change("change", "1", &change, "\"1\"\r\nX: y").await;
    assert!(matches!(outcome, Err(Error::Request(_))), "{outcome:?}");
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_setting_that_cannot_work_is_named() {
    let client = |url| Client::new(url, MemoryStore::default());
    let zero = Duration::ZERO;
    let outcomes = [
        ("attempt_timeout", "0ns", client(NOBODY).and_then(|client| client.attempt_timeout(zero))),
        ("keep_for", "0ns", client(NOBODY).and_then(|client| client.keep_for(zero))),
        ("pause", "3601s", client(NOBODY).and_then(|client| client.pause(Duration::from_secs(3601)))),
        ("token", "ASCII", client(NOBODY).and_then(|client| client.token("a\nb"))),
        ("token", "ASCII", client(NOBODY).and_then(|client| client.token(""))),
        ("base_url", "ftp://x", client("ftp://x")),
        ("base_url", "127.0.0.1:8000", client("127.0.0.1:8000")),
    ];
    for (name, value, outcome) in outcomes {
        let error = outcome.err().expect(name);
        assert!(matches!(error, Error::Setting { name: named, .. } if named == name), "{error:?}");
        assert!(error.to_string().contains(value), "{error}");
    }
}

#[tokio::test]
async fn a_time_without_end_is_a_long_one() {
    let client = Client::new(NOBODY, MemoryStore::default()).expect("a client");
    let client = client.deadline(Duration::MAX).keep_for(Duration::MAX).and_then(|client| client.attempt_timeout(Duration::MAX));
    let client = client.expect("settings");
    let waiting = tokio::time::timeout(Duration::from_millis(200), client.create("order", &room())).await;
    assert!(waiting.is_err(), "it goes on: {waiting:?}");
}

#[test]
fn what_a_crash_left_half_written_is_removed_in_time() {
    let folder = Folder::new();
    FileStore::new(&folder.0).expect("a store");
    for name in ["old.tmp", "young.tmp"] {
        fs::write(folder.0.join(name), "{\"key\": \"ha").expect("a file");
    }
    let old = fs::File::options().write(true).open(folder.0.join("old.tmp")).expect("a file");
    old.set_modified(SystemTime::now() - Duration::from_secs(7200)).expect("a time");
    FileStore::new(&folder.0).expect("a store");
    assert_eq!(folder.names(), ["young.tmp"]);
}
