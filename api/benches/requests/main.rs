//! Requests per second and latency of the real server on both databases, beside `pgbench` with the very same statements.
//!
//! `make bench` runs it; `docs/benchmarks.md` says how to read its table. Everything runs on one machine and shares its
//! processors, so only ratios within one run mean something.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a benchmark that cannot go on says so and stops")]

mod arguments;
mod booking;
mod http;
mod inspection;
mod load;
mod pgbench;
mod postgres;
mod server;
mod slow;
mod statements;

use arguments::Arguments;
use load::{Figures, Load};
use pgbench::Pgbench;
use postgres::Postgres;
use server::Server;
use tempfile::TempDir;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Each request under a key of its own: claim, booking, finalize.
    Fresh,
    /// The stored answer of one of a few keys that this process knows to be completed.
    Replay,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Replay => "hot replay",
        }
    }
}

fn main() {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(&arguments));
}

async fn run(arguments: &Arguments) {
    let booking_url = booking::start().await;
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    println!("{} s a cell, {cores} processors shared by load, server, database and booking system", arguments.seconds);
    let postgres = if arguments.postgres { Postgres::create().await } else { None };
    for (name, value) in &arguments.settings {
        println!("{name}={value}");
    }
    let baseline = match &postgres {
        Some(postgres) => {
            println!("PostgreSQL: {}", postgres.describe().await);
            let statements = statements::capture(postgres, &booking_url).await;
            Pgbench::prepare(postgres, &statements).await
        }
        None => None,
    };
    println!("SQLite: journal_mode=WAL, synchronous=FULL");
    let folder = TempDir::with_prefix("reservation-bench-").expect("a folder");
    let file = arguments.sqlite.then(|| format!("sqlite://{}?mode=rwc", folder.path().join("reservations.db").display()));
    let databases = [("SQLite", file, None), ("PostgreSQL", postgres.as_ref().map(Postgres::url), baseline.as_ref())];
    let databases: Vec<_> = databases.into_iter().filter_map(|(name, url, baseline)| Some((name, url?, baseline))).collect();
    if arguments.speed {
        println!(
            "\n| database | request | connections | requests/s | p50 ms | p99 ms | CPU of api, µs a request | pgbench/s | ours/pgbench |"
        );
        println!("|---|---|---:|---:|---:|---:|---:|---:|---:|");
        for (name, url, baseline) in &databases {
            measure(arguments, name, url, &booking_url, *baseline).await;
        }
    }
    if arguments.slow_senders {
        slow::head(arguments.slow_seconds);
        for (name, url, _) in &databases {
            slow::measure(arguments, name, url, &booking_url).await;
        }
    }
    if let Some(postgres) = postgres {
        postgres.remove().await;
    }
}

/// All cells of one database. The cell of `pgbench` follows ours at once, so that both meet the same machine.
async fn measure(arguments: &Arguments, database: &str, url: &str, booking_url: &str, baseline: Option<&Pgbench>) {
    let server = Server::start(url, booking_url, &arguments.settings).await;
    let load = Load::new(server.port);
    for kind in [Kind::Fresh, Kind::Replay] {
        for &connections in &arguments.connections {
            let figures = load.run(kind, connections, arguments.seconds, &server).await;
            let theirs = baseline.map(|pgbench| pgbench.run(kind, connections, arguments.seconds));
            print(database, kind, connections, &figures, theirs);
        }
    }
}

fn print(database: &str, kind: Kind, connections: usize, figures: &Figures, theirs: Option<f64>) {
    let Figures { per_second, p50_ms, p99_ms, cpu_us } = figures;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    println!(
        "| {database} | {} | {connections} | {per_second:.0} | {p50_ms:.2} | {p99_ms:.2} | {} | {} | {} |",
        kind.name(),
        or_none(cpu_us.map(|us| format!("{us:.0}"))),
        or_none(theirs.map(|n| format!("{n:.0}"))),
        or_none(theirs.map(|n| format!("{:.2}", per_second / n))),
    );
}
