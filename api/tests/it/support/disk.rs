//! A full disk, as a process sees it: no file of it may grow (or be written at all).

use std::process::Command;

/// A line of shell that becomes the program. The signal that comes with the limit would end it; what it gets instead is the error of the
/// write.
pub const BEARS_A_FULL_DISK: &str = "trap '' XFSZ; exec \"$@\"";

/// From now on, or no more. False where there is no such process. Only for one that [`BEARS_A_FULL_DISK`].
pub fn is_full(process: u32, full: bool) -> bool {
    let limit = if full { "--fsize=0:" } else { "--fsize=unlimited:" };
    Command::new("prlimit").args(["--pid", &process.to_string(), limit]).status().expect("prlimit (Debian: util-linux)").success()
}
