//! `jobs`: the scheduler alone, one run for a cron or a Kubernetes CronJob (`--once`), and the operator's tool (`keys`).

use std::error::Error;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use jobs::booking::http::HttpBookingSystem;
use jobs::config::{self, BookingArgs, DatabaseArgs, KeyArgs, ScheduleArgs};
use jobs::delete_expired_keys::DeleteExpiredKeys;
use jobs::drain::drain;
use jobs::journal::Journal;
use jobs::operator::{self, KeysCommand};
use jobs::release_stale_leases::ReleaseStaleLeases;
use jobs::scheduler::{GuardedJob, Scheduler};
use jobs::settle::Settler;
use migration::start::StopSignal;
use migration::terminal::{complain, say, show};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const PROGRAM: &str = "jobs";

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
    let arguments: Arguments = match config::parse(PROGRAM) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if let Err(error) = jobs::telemetry::start() {
        complain(PROGRAM, error);
        return ExitCode::from(2);
    }
    match run(arguments).await {
        Ok(code) => code,
        Err(error) => {
            complain(PROGRAM, error);
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    config::check(&arguments.booking, &arguments.keys)?;
    if arguments.once && arguments.command.is_some() {
        return Err("--once runs the jobs; it does not go with keys".into());
    }
    let mut stop_signal = StopSignal::receive()?;
    let db = config::open(PROGRAM, &arguments.database, &mut stop_signal).await?;
    if let Some(Command::Keys(command)) = &arguments.command {
        let settings = config::settle_settings(&arguments.booking, &arguments.keys);
        show(&stop_signal.unless("the database", operator::run(&db, command, &settings)).await?);
        return Ok(ExitCode::SUCCESS);
    }

    let stop = CancellationToken::new();
    let worker = jobs::telemetry::worker_id();
    let cleanup =
        GuardedJob::cleanup(DeleteExpiredKeys::new(db.clone(), arguments.keys.key_retention), db.clone(), worker.clone(), stop.clone());
    if arguments.once && arguments.job == Some(JobName::Cleanup) {
        return once(cleanup.run(), &stop, &mut stop_signal, arguments.schedule.shutdown_grace).await;
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
        let runs = async {
            let mut succeeded = release.run().await;
            if arguments.job.is_none() {
                succeeded &= cleanup.run().await;
            }
            journal.close().await;
            succeeded
        };
        return once(runs, &stop, &mut stop_signal, arguments.schedule.shutdown_grace).await;
    }

    let schedule = &arguments.schedule;
    let scheduler =
        Scheduler::start(vec![(schedule.release_schedule.clone(), release), (schedule.cleanup_schedule.clone(), cleanup)]).await?;
    say("jobs: the scheduler runs; stop it with SIGTERM or Ctrl-C");
    stop_signal.requested().await;
    stop.cancel();
    tasks.close();
    let work = async {
        scheduler.stop().await;
        tasks.wait().await;
    };
    if !drain(schedule.shutdown_grace, &mut stop_signal, work, journal.close()).await {
        say("jobs: what still runs is left under its lease");
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs jobs to their end. At a signal they take nothing new, and have the grace to end what they have: not all was done then.
async fn once(
    runs: impl Future<Output = bool>,
    stop: &CancellationToken,
    stop_signal: &mut StopSignal,
    grace: Duration,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut runs = pin!(runs);
    tokio::select! {
        succeeded = &mut runs => return Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        () = stop_signal.requested() => stop.cancel(),
    }
    tokio::select! {
        _ = tokio::time::timeout(grace, runs) => {}
        () = stop_signal.requested() => {}
    }
    Err("stopped before all was done; what still runs is left under its lease".into())
}
