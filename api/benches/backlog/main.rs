//! What a large backlog costs: stale leases after the booking system was down, and expired keys. Each beside live requests, in one run
//! with and without the backlog, so that the ratio means something on any machine.
//!
//! `make backlog` runs it; `docs/benchmarks.md` says how to read its tables.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a benchmark that cannot go on says so and stops")]

mod arguments;
#[path = "../../tests/it/support/backlog.rs"]
mod backlog;
mod booking;
mod expired;
#[path = "../requests/http.rs"]
mod http;
mod leases;
mod live;
#[path = "../requests/postgres.rs"]
mod postgres;
mod process;
mod store;

use arguments::Arguments;
use postgres::Postgres;
use store::Store;
use tempfile::TempDir;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Leases,
    Expired,
}

fn main() {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(&arguments));
}

async fn run(arguments: &Arguments) {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    println!("{} live requests a second, {cores} processors shared by everything", arguments.rate);
    for (name, value) in &arguments.settings {
        println!("{name}={value}");
    }
    for (part, head, rows) in [(Part::Leases, leases::HEAD, arguments.leases), (Part::Expired, expired::HEAD, arguments.expired)] {
        if rows == 0 {
            continue;
        }
        println!("\n{head}");
        if arguments.sqlite {
            let folder = TempDir::with_prefix("reservation-bench-").expect("a folder");
            measure(part, arguments, Store::sqlite(folder.path()), &folder).await;
        }
        if arguments.postgres
            && let Some(postgres) = Postgres::create().await
        {
            let folder = TempDir::with_prefix("reservation-bench-").expect("a folder");
            measure(part, arguments, Store::Postgres(postgres), &folder).await;
        }
    }
}

async fn measure(part: Part, arguments: &Arguments, store: Store, folder: &TempDir) {
    match part {
        Part::Leases => leases::measure(arguments, &store, folder.path()).await,
        Part::Expired => expired::measure(arguments, &store, folder.path()).await,
    }
    store.remove().await;
}
