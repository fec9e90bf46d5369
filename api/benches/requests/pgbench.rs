//! `pgbench` with the server's own statements: what the database alone can do on this machine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::Kind;
use crate::load::BODY;
use crate::postgres::Postgres;
use crate::statements::Statements;

/// Rows that the replays read.
const HOT_ROWS: u32 = 256;

pub struct Pgbench {
    program: PathBuf,
    url: String,
    folder: TempDir,
    runs: AtomicU32,
}

impl Pgbench {
    /// Writes the scripts and the rows to be read. `None`, with a line that says so, where there is no `pgbench`.
    pub async fn prepare(postgres: &Postgres, statements: &Statements) -> Option<Self> {
        let Some(program) = find_program() else {
            println!("pgbench: not found beside psql, its columns stay empty");
            return None;
        };
        let folder = TempDir::with_prefix("reservation-bench-").expect("a folder");
        let digest = |number: &str| format!("decode(lpad(to_hex(CAST({number} AS bigint)), 64, '0'), 'hex')");
        let fresh = |digest_of: &str, reference_of: &str| fresh(statements, &digest(digest_of), reference_of);
        let counted =
            "\\set n :n + 1\n\\set r (:run * 1000 + :client_id) * 1000000000 + :n\n\\set a random(1000000, 9000000000000000000)\n";
        let find = fill(&statements.find, &[digest(":k")]);
        let random = format!("\\set k random(0, {})\n", HOT_ROWS - 1);
        write(&folder, Kind::Fresh, &format!("{counted}{}", fresh(":a", ":r")));
        write(&folder, Kind::Replay, &format!("{random}{find};\n"));
        for number in 0..HOT_ROWS {
            postgres.execute(&fresh(&number.to_string(), &number.to_string())).await;
        }
        Some(Self { program, url: postgres.url(), folder, runs: AtomicU32::new(1) })
    }

    /// Scripts a second.
    pub fn run(&self, kind: Kind, clients: usize, seconds: u64) -> f64 {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let output = Command::new(&self.program)
            .args(["--no-vacuum", "--protocol=prepared", "--define=n=0"])
            .arg(format!("--define=run={run}"))
            .arg(format!("--client={clients}"))
            .arg(format!("--jobs={}", clients.min(2)))
            .arg(format!("--time={seconds}"))
            .arg(format!("--file={}", script(self.folder.path(), kind).display()))
            .arg(&self.url)
            .output()
            .expect("pgbench runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !complaint.contains("ERROR"), "pgbench: {text}{complaint}");
        let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")).and_then(|rest| rest.split(' ').next());
        tps.and_then(|tps| tps.parse().ok()).unwrap_or_else(|| panic!("pgbench: {text}{complaint}"))
    }
}

/// Claim and finalize, each committed by itself, as the server does it. Parameters in the order in which `entity` binds them.
fn fresh(statements: &Statements, digest: &str, number: &str) -> String {
    let reference = format!("lpad(to_hex(CAST({number} AS bigint)), 36, '0')");
    let token = "'8e03978e-40d5-43e8-bc93-6894a57f9324'";
    let null = |kind: &str| format!("CAST(NULL AS {kind})");
    let claim = [
        digest.to_owned(),
        "'local'".into(),
        "'createReservation'".into(),
        "1".into(),
        bytes(&[0xab; 32]),
        bytes(BODY.as_bytes()),
        reference.clone(),
        reference.clone(),
        token.into(),
        "30000".into(),
        null("bytea"),
    ];
    let finalize = [
        digest.to_owned(),
        token.into(),
        "201".into(),
        "'application/json'".into(),
        format!("'/reservations/' || {reference}"),
        "'\"1\"'".into(),
        bytes(&statements.body),
        "86400000".into(),
        reference,
        "'local'".into(),
        "'ROOM-101'".into(),
        "1".into(),
        "'taro'".into(),
        null("bigint"),
        null("bigint"),
        null("text"),
        "'BK-8e03978e40d543e8bc'".into(),
        "1790000000000".into(),
        "1790000000000".into(),
    ];
    format!("{};\n{};\n", fill(&statements.claim, &claim), fill(&statements.finalize, &finalize))
}

/// The statement with these in the place of `$1`, `$2` ...; the last ones first, since `$1` is the beginning of `$10`.
fn fill(statement: &str, values: &[String]) -> String {
    let filled = values.iter().enumerate().rev().fold(statement.to_owned(), |sql, (at, value)| sql.replace(&format!("${}", at + 1), value));
    assert!(!filled.contains('$'), "the statement has other parameters than this benchmark knows: {statement}");
    filled
}

fn bytes(bytes: &[u8]) -> String {
    let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("CAST('\\x{hex}' AS bytea)")
}

fn script(folder: &Path, kind: Kind) -> PathBuf {
    folder.join(match kind {
        Kind::Fresh => "fresh.sql",
        Kind::Replay => "replay.sql",
    })
}

fn write(folder: &TempDir, kind: Kind, text: &str) {
    std::fs::write(script(folder.path(), kind), text).expect("the script is written");
}

/// Debian keeps it out of PATH, beside the server's programs.
fn find_program() -> Option<PathBuf> {
    let beside = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = beside.collect();
    folders.sort();
    folders.into_iter().rev().chain(std::env::split_paths(&path)).map(|folder| folder.join("pgbench")).find(|program| program.exists())
}
