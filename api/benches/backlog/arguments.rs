//! How much is left behind, and how much goes on meanwhile.

use std::time::Duration;

const USAGE: &str = "usage: cargo bench -p api --bench backlog -- [--leases N] [--expired N] [--rate REQUESTS_A_SECOND] \
     [--quiet SECONDS] [--database sqlite|postgres|both] [--set NAME=VALUE]...";

pub struct Arguments {
    /// Keys whose worker is gone; 0 leaves that part out.
    pub leases: usize,
    /// Keys whose retention is over; 0 leaves that part out.
    pub expired: usize,
    /// Live requests a second.
    pub rate: u64,
    /// How long live requests are measured without a backlog, before it and after it.
    pub quiet: Duration,
    pub sqlite: bool,
    pub postgres: bool,
    /// Settings of the processes that are not to have their default.
    pub settings: Vec<(String, String)>,
}

impl Arguments {
    pub fn parse() -> Self {
        let mut arguments = Self {
            leases: 10_000,
            expired: 200_000,
            rate: 50,
            quiet: Duration::from_secs(8),
            sqlite: true,
            postgres: true,
            settings: Vec::new(),
        };
        // Cargo itself adds --bench.
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(name) = words.next() {
            let value = words.next().expect(USAGE);
            match name.as_str() {
                "--leases" => arguments.leases = value.parse().expect(USAGE),
                "--expired" => arguments.expired = value.parse().expect(USAGE),
                "--rate" => arguments.rate = value.parse().expect(USAGE),
                "--quiet" => arguments.quiet = Duration::from_secs(value.parse().expect(USAGE)),
                "--database" => {
                    assert!(["sqlite", "postgres", "both"].contains(&value.as_str()), "{USAGE}");
                    (arguments.sqlite, arguments.postgres) = (value != "postgres", value != "sqlite");
                }
                "--set" => {
                    let (name, value) = value.split_once('=').expect(USAGE);
                    arguments.settings.push((name.to_owned(), value.to_owned()));
                }
                _ => panic!("{USAGE}"),
            }
        }
        arguments
    }
}
