//! What to measure, and for how long.

const USAGE: &str = "usage: cargo bench -p api --bench requests -- \
     [--seconds N] [--connections N,N,...] [--database sqlite|postgres|both] [--part speed|slow-senders|all] \
     [--slow-seconds N] [--set NAME=VALUE]...";

pub struct Arguments {
    /// Of one cell.
    pub seconds: u64,
    pub connections: Vec<usize>,
    pub sqlite: bool,
    pub postgres: bool,
    /// Requests per second and latency.
    pub speed: bool,
    /// Memory and latency beside bodies that do not come or do not end.
    pub slow_senders: bool,
    /// Of one measurement beside slow senders: several body time-outs, so that all phases of a slow body are in it.
    pub slow_seconds: u64,
    /// Settings of the server that are not to have their default.
    pub settings: Vec<(String, String)>,
}

impl Arguments {
    pub fn parse() -> Self {
        let mut arguments = Self {
            seconds: 3,
            connections: vec![1, 16, 64],
            sqlite: true,
            postgres: true,
            speed: true,
            slow_senders: true,
            slow_seconds: 20,
            settings: Vec::new(),
        };
        // Cargo itself adds --bench.
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(name) = words.next() {
            let value = words.next().expect(USAGE);
            match name.as_str() {
                "--seconds" => arguments.seconds = value.parse().expect(USAGE),
                "--slow-seconds" => arguments.slow_seconds = value.parse().expect(USAGE),
                "--connections" => arguments.connections = value.split(',').map(|n| n.parse().expect(USAGE)).collect(),
                "--database" => {
                    assert!(["sqlite", "postgres", "both"].contains(&value.as_str()), "{USAGE}");
                    (arguments.sqlite, arguments.postgres) = (value != "postgres", value != "sqlite");
                }
                "--part" => {
                    assert!(["speed", "slow-senders", "all"].contains(&value.as_str()), "{USAGE}");
                    (arguments.speed, arguments.slow_senders) = (value != "slow-senders", value != "speed");
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
