//! A clock that steps: the time of day of a process as libfaketime tells it. What measures lengths of time is left as it is.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::dice::Dice;
use super::settings::STEP_MS;

pub struct Clock {
    library: PathBuf,
    /// How far it is off, as the library reads it each time somebody asks for the time.
    file: PathBuf,
    off_ms: Mutex<i64>,
}

impl Clock {
    /// Debian's package is called faketime.
    pub fn library() -> Option<PathBuf> {
        let find = "ls /usr/lib/*/faketime/libfaketime.so.1 /usr/lib*/faketime/libfaketime.so.1 2>/dev/null | head -n 1";
        let found = Command::new("sh").args(["-c", find]).output().expect("a shell");
        let path = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        (!path.is_empty()).then(|| path.into())
    }

    pub fn new(library: &Path, folder: &Path) -> Self {
        let clock = Self { library: library.to_owned(), file: folder.join("clock"), off_ms: Mutex::new(0) };
        clock.show(0);
        clock
    }

    /// So far ahead of ours.
    pub fn off_ms(&self) -> i64 {
        *self.off_ms.lock().unwrap()
    }

    /// By at most [`STEP_MS`], and never further from where it was at any time before, so that steps do not add up.
    pub fn step(&self, dice: &mut Dice) {
        let mut off_ms = self.off_ms.lock().unwrap();
        *off_ms = i64::try_from(dice.between(0, STEP_MS)).unwrap_or_default();
        self.show(*off_ms);
    }

    /// Replaced as a whole: nobody reads half of it.
    fn show(&self, off_ms: i64) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("+{}.{:03}\n", off_ms / 1000, off_ms % 1000)).expect("the clock is written");
        std::fs::rename(new, &self.file).expect("the clock is set");
    }

    /// For whoever is to live by it.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }

    /// What starts that program by this clock, and becomes it.
    pub fn wrapper_of(&self, program: &Path, folder: &Path) -> PathBuf {
        let wrapper = folder.join("by-its-own-clock");
        let environment = self.environment().map(|(name, value)| format!("{name}='{value}'")).join(" ");
        std::fs::write(&wrapper, format!("#!/bin/sh\nexec env {environment} '{}' \"$@\"\n", program.display())).expect("a wrapper");
        std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).expect("a wrapper that runs");
        wrapper
    }

    /// The library leaves two files behind for most processes.
    pub fn forget(process: u32) {
        for file in [format!("faketime_shm_{process}"), format!("sem.faketime_sem_{process}")] {
            let _ = std::fs::remove_file(Path::new("/dev/shm").join(file));
        }
    }
}
