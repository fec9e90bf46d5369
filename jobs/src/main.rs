//! `jobs`: the scheduler alone, one run for a cron or a Kubernetes CronJob (`--once`), and the operator's tool (`keys`).
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints its answer and its one line of error")]

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use entity::database::Database;
use jobs::booking::http::HttpBookingSystem;
use jobs::config::{self, BookingArgs, DatabaseArgs, KeyArgs, ScheduleArgs};
use jobs::delete_expired_keys::DeleteExpiredKeys;
use jobs::journal::Journal;
use jobs::operator::{self, KeysCommand};
use jobs::release_stale_leases::ReleaseStaleLeases;
use jobs::scheduler::{GuardedJob, Scheduler};
use jobs::settle::Settler;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Releases stale leases and deletes expired keys, by schedule or once; shows and resolves keys.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Run each job once and exit: 0 if all succeeded
    #[arg(long)]
    once: bool,
    /// With --once: only this job
    #[arg(long, value_name = "JOB", requires = "once")]
    job: Option<JobName>,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    booking: BookingArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    schedule: ScheduleArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Operator's tool: list, show, release and resolve keys; works while everything runs
    #[command(subcommand)]
    Keys(KeysCommand),
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum JobName {
    Release,
    Cleanup,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Arguments = match config::parse("jobs") {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if let Err(error) = jobs::telemetry::start() {
        eprintln!("jobs: {error}");
        return ExitCode::from(2);
    }
    match run(arguments).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("jobs: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    config::check(&arguments.booking, &arguments.keys)?;
    if arguments.once && arguments.command.is_some() {
        return Err("--once runs the jobs; it does not go with keys".into());
    }
    let db = Database::connect(&arguments.database.settings()).await?;
    db.migrate().await?;
    if let Some(Command::Keys(command)) = &arguments.command {
        return Ok(match operator::run(&db, command, &config::settle_settings(&arguments.booking, &arguments.keys)).await {
            Ok(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("jobs: {error}");
                ExitCode::FAILURE
            }
        });
    }

    let stop = CancellationToken::new();
    let worker = jobs::telemetry::worker_id();
    let cleanup =
        GuardedJob::cleanup(DeleteExpiredKeys::new(db.clone(), arguments.keys.key_retention), db.clone(), worker.clone(), stop.clone());
    if arguments.once && arguments.job == Some(JobName::Cleanup) {
        return Ok(exit_code(cleanup.run().await));
    }
    let Some(url) = arguments.booking.booking_url.clone() else {
        return Err("BOOKING_URL is not set: name the booking system that api uses (beside its own sandbox: \
             http://127.0.0.1:8001). Without it only --once --job cleanup, keys list and keys show work"
            .into());
    };
    let booking = HttpBookingSystem::new(&config::http_settings(&arguments.booking, url))?;
    let tasks = TaskTracker::new();
    let journal = Journal::start(db.clone(), worker.clone());
    let settings = config::settle_settings(&arguments.booking, &arguments.keys);
    let settler = Settler::new(db.clone(), booking, settings, journal.clone(), tasks.clone());
    let release = ReleaseStaleLeases { settler, calls: arguments.booking.recovery_calls as usize, time_limit: Duration::from_secs(60) };
    let release = GuardedJob::release(release, db.clone(), worker, stop.clone());

    if arguments.once {
        let mut succeeded = release.run().await;
        if arguments.job.is_none() {
            succeeded &= cleanup.run().await;
        }
        journal.close().await;
        return Ok(exit_code(succeeded));
    }

    let schedule = &arguments.schedule;
    let scheduler =
        Scheduler::start(vec![(schedule.release_schedule.clone(), release), (schedule.cleanup_schedule.clone(), cleanup)]).await?;
    jobs::telemetry::say("jobs: the scheduler runs; stop it with SIGTERM or Ctrl-C");
    jobs::telemetry::stop_requested().await;
    stop.cancel();
    tasks.close();
    let all = async {
        scheduler.stop().await;
        tasks.wait().await;
        journal.close().await;
    };
    if tokio::time::timeout(schedule.shutdown_grace, all).await.is_err() {
        jobs::telemetry::say("jobs: SHUTDOWN_GRACE is over; what still runs is left under its lease");
    }
    Ok(ExitCode::SUCCESS)
}

fn exit_code(succeeded: bool) -> ExitCode {
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
