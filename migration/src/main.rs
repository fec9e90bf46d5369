//! `cargo run -p migration -- up|status`: the schema by hand. `api` and `jobs` also run `up` at their start.

use clap::{Parser, Subcommand};
use migration::session::Sessions;
use migration::start::{Start, StopSignal};
use migration::terminal::{complain, say};
use sea_orm_migration::sea_orm::ConnectOptions;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

const PROGRAM: &str = "migration";

/// The schema of the reservation API.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Database to migrate: `sqlite://FILE?mode=rwc` or `postgres://USER@HOST/NAME`
    #[arg(long, env = "DATABASE_URL", default_value = "sqlite://data/reservations.db?mode=rwc", hide_env_values = true, global = true)]
    database_url: String,
    /// How long to wait for the database
    #[arg(long, env = "DATABASE_ACQUIRE_TIMEOUT", default_value = "5s", value_parser = humantime::parse_duration, global = true)]
    database_acquire_timeout: Duration,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Apply what is pending; safe with many processes at once
    Up,
    /// List all migrations and whether they are applied
    Status,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let text = error.to_string();
            let lines: Vec<_> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
            complain(PROGRAM, lines.join(" ").trim_start_matches("error: "));
            return ExitCode::from(2);
        }
    };
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(PROGRAM, error);
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let mut stop = StopSignal::receive()?;
    let mut start = Start { program: PROGRAM, database_url: &arguments.database_url, stop: &mut stop };
    let sessions = Sessions::of(&arguments.database_url);
    let mut options = ConnectOptions::new(arguments.database_url.clone());
    options.max_connections(1);
    let db = start.step("the database", migration::connect::open(options, arguments.database_acquire_timeout)).await?;
    if matches!(arguments.command, Command::Up) {
        start.step("the migration of its schema", migration::up(&db, sessions)).await?;
    }
    for (name, applied) in start.step("its schema", migration::status(&db, sessions)).await? {
        say(format_args!("{} {name}", if applied { "applied" } else { "pending" }));
    }
    Ok(())
}
