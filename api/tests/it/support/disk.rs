//! A full disk, as a process sees it: no file of it may grow (or be written at all).

use std::process::{Command, Stdio};

/// From now on, or no more. False where there is no such process.
pub fn is_full(process: u32, full: bool) -> bool {
    let limit = if full { "--fsize=0:" } else { "--fsize=unlimited:" };
    let mut set = Command::new("prlimit");
    set.args(["--pid", &process.to_string(), limit]).stderr(Stdio::null());
    set.status().expect("prlimit (Debian: util-linux)").success()
}
