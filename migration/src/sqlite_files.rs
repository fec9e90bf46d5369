//! The file of a SQLite database and those that SQLite keeps beside it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Device and number of the file that has this name now.
pub(crate) fn identity(file: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(file).ok().map(|file| (file.dev(), file.ino()))
}

/// The database, if we may only read it; or a file beside it that SQLite would need and cannot use, or would overwrite though somebody else
/// wrote it; and why. SQLite's own errors name the database instead, or nothing.
pub(crate) fn unusable(database: &Path) -> Option<(PathBuf, String)> {
    // First: SQLite gives the files that it makes beside it the same permissions.
    if access(database, Access::READ_OK).is_ok() && access(database, Access::WRITE_OK).is_err() {
        return Some((database.to_owned(), "it is read-only for this user".into()));
    }
    ["-wal", "-shm", "-journal"].iter().find_map(|suffix| {
        let file = beside(database, suffix);
        let what = std::fs::metadata(&file).ok()?;
        let why = if !what.is_file() {
            "it is not a file".into()
        } else if let Err(error) = access(&file, Access::READ_OK | Access::WRITE_OK) {
            io::Error::from(error).to_string()
        } else if *suffix == "-wal" && what.len() > 0 && !is_write_ahead_log(&file) {
            "it is not a write-ahead log of SQLite".into()
        } else {
            return None;
        };
        Some((file, why))
    })
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(suffix);
    name.into()
}

/// By its first bytes (sqlite.org/fileformat2.html, section 4.1); a power failure may have left zeros there. Only this file is opened: a
/// process that closes one of the others gives up the locks that its connections hold there.
fn is_write_ahead_log(file: &Path) -> bool {
    let mut magic = [0; 4];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut magic));
    read.is_err() || matches!(u32::from_be_bytes(magic), 0 | 0x377f_0682 | 0x377f_0683)
}

/// Ids of the other processes that hold a lock for writing on the database, as far as the system says so (Linux).
pub(crate) fn locked_by(database: &Path) -> Vec<u32> {
    let files: Vec<_> = [database.to_owned(), beside(database, "-shm")].iter().filter_map(|file| identity(file)).collect();
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut holders: Vec<_> = locks.lines().filter_map(|line| writer(line, &files)).filter(|id| *id != std::process::id()).collect();
    holders.sort_unstable();
    holders.dedup();
    holders
}

/// `1: POSIX  ADVISORY  WRITE 1234 fd:01:131090 120 120`: the process, if the lock is on one of these files. Those that wait for a lock
/// have an arrow behind the number.
fn writer(line: &str, files: &[(u64, u64)]) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    let (_kind, _manner, access, process, file) = (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    let number: u64 = file.rsplit(':').next()?.parse().ok()?;
    (access == "WRITE" && files.iter().any(|(_, own)| *own == number)).then(|| process.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_tells_its_process() {
        let files = [(64769, 131_090)];
        assert_eq!(writer("1: POSIX  ADVISORY  WRITE 1234 fd:01:131090 120 120", &files), Some(1234));
        assert_eq!(writer("1: POSIX  ADVISORY  READ 1234 fd:01:131090 120 120", &files), None);
        assert_eq!(writer("2: POSIX  ADVISORY  WRITE 1234 fd:01:131091 120 120", &files), None);
        assert_eq!(writer("1: -> POSIX  ADVISORY  WRITE 99 fd:01:131090 120 120", &files), None);
    }
}
