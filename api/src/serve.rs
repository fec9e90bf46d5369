//! The composition root: what is started, in which order, and how it stops.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use entity::api_token::{self, Role};
use entity::database::Database;
use jobs::booking::http::HttpBookingSystem;
use jobs::config as shared;
use jobs::delete_expired_keys::DeleteExpiredKeys;
use jobs::drain;
use jobs::journal::Journal;
use jobs::release_stale_leases::ReleaseStaleLeases;
use jobs::scheduler::{GuardedJob, Scheduler};
use jobs::settle::Settler;
use jobs::telemetry::worker_id;
use migration::start::StopSignal;
use migration::terminal::say;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{SchedulerMode, Settings};
use crate::http::app::{AppSettings, app};
use crate::http::payload::BodyLimits;
use crate::listener::{self, Limits};
use crate::sandbox;
use crate::service::Service;

type Failure = Box<dyn std::error::Error>;

/// Where the sandbox listens if nothing else is said.
const SANDBOX: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8001);
/// A run of the release job takes nothing new after this long.
const RELEASE_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from starting, as one line.
pub async fn serve(program: &'static str, settings: Settings) -> Result<(), Failure> {
    shared::check(&settings.booking, &settings.keys)?;
    let mut stop_signal = StopSignal::receive()?;
    let db = shared::open(program, &settings.database, &mut stop_signal).await?;
    let open = stop_signal.unless("the tokens", is_open(&db, &settings)).await?;
    let api_listener = bind(settings.http.listen, "LISTEN").await?;
    let api_address = api_listener.local_addr()?;

    let stop = CancellationToken::new();
    let mut sandbox = None;
    let booking_url = match settings.booking.booking_url.clone() {
        Some(url) => url,
        None => {
            let listener = sandbox_listener(&settings).await?;
            let url = format!("http://{}", listener.local_addr()?);
            let storage = sandbox::file_beside(&settings.database.database_url);
            sandbox = Some((url.clone(), tokio::spawn(sandbox::serve(listener, storage, CancellationToken::clone(&stop)))));
            url.parse()?
        }
    };
    let tasks = TaskTracker::new();
    let booking = HttpBookingSystem::new(&shared::http_settings(&settings.booking, booking_url.clone()))?;
    let worker = worker_id();
    let journal = Journal::start(db.clone(), worker.clone());
    let settle_settings = shared::settle_settings(&settings.booking, &settings.keys);
    let settler = Settler::new(db.clone(), booking, settle_settings, journal.clone(), tasks.clone());
    let stop_jobs = CancellationToken::new();
    let scheduler = match settings.http.scheduler {
        SchedulerMode::Embedded => Some(start_jobs(&settings, &db, &settler, worker, &stop_jobs).await?),
        SchedulerMode::Off => None,
    };

    say(format_args!("API         http://{api_address}"));
    say(format_args!("Swagger UI  http://{api_address}/docs"));
    match &sandbox {
        Some((url, _)) => say(format_args!("Sandbox     {url} (a booking system to try with; BOOKING_URL names a real one)")),
        None => say(format_args!("Booking     {}", booking_url.origin().ascii_serialization())),
    }
    say(format_args!("Try         {}", try_it(api_address, open)));

    let service = Arc::new(Service::new(db.clone(), settler, open, &settings.http, settings.database.database_acquire_timeout));
    let stopping = CancellationToken::new();
    let app = app(
        service,
        AppSettings {
            open,
            body: BodyLimits { limit_bytes: settings.http.body_limit, timeout: settings.http.body_timeout },
            cors_origins: settings.http.cors_origins.clone().map(|o| o.0).unwrap_or_default(),
            public_base: settings.keys.public_base(),
            stopping: stopping.clone(),
        },
    );
    let grace = settings.schedule.shutdown_grace;
    let listening = tokio::spawn(listener::serve(api_listener, app, Limits::default(), stopping.clone(), drain::for_work(grace)));

    stop_signal.requested().await;
    say(format_args!("Stopping: no new requests; running work has {} to end", humantime::format_duration(grace)));
    let began = Instant::now();
    stopping.cancel();
    stop_jobs.cancel();
    let work = async {
        let _ = listening.await;
        if let Some(scheduler) = scheduler {
            scheduler.stop().await;
        }
        tasks.close();
        tasks.wait().await;
    };
    let drained = drain::drain(grace, &mut stop_signal, work, journal.close()).await;
    if !drained {
        say(format_args!("What still runs is left under its lease"));
    }
    stop.cancel();
    if let Some((_, sandbox)) = sandbox {
        let left = grace.saturating_sub(began.elapsed()).max(Duration::from_millis(100));
        let _ = tokio::time::timeout(left, sandbox).await;
    }
    // What still runs may yet store its outcome.
    if drained {
        let _ = tokio::time::timeout(Duration::from_secs(1), db.close()).await;
    }
    Ok(())
}

/// Whether there is no token; then only this machine may call.
async fn is_open(db: &Database, settings: &Settings) -> Result<bool, Failure> {
    for (account, token) in settings.http.api_tokens.iter().flat_map(|list| &list.0) {
        if !api_token::add(db, token, account, Role::Client).await? {
            return Err(format!("API_TOKENS: the token given to {account} belongs to another account already").into());
        }
    }
    let open = !api_token::any(db).await?;
    if open && !settings.http.listen.ip().is_loopback() {
        let listen = settings.http.listen;
        return Err(
            format!("LISTEN ({listen}) must be a loopback address as long as there is no token; make one with `api token create`").into()
        );
    }
    Ok(open)
}

async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {address} ({setting}): {error}").into())
}

/// The address that was asked for; else the usual one; else a free port beside it.
async fn sandbox_listener(settings: &Settings) -> Result<TcpListener, Failure> {
    if let Some(address) = settings.http.sandbox_listen {
        return bind(address, "SANDBOX_LISTEN").await;
    }
    match TcpListener::bind(SANDBOX).await {
        Ok(listener) => Ok(listener),
        Err(_taken) => bind(SocketAddr::new(SANDBOX.ip(), 0), "SANDBOX_LISTEN").await,
    }
}

async fn start_jobs(
    settings: &Settings,
    db: &Database,
    settler: &Settler,
    worker: String,
    stop: &CancellationToken,
) -> Result<Scheduler, Failure> {
    let calls = usize::try_from(settings.booking.recovery_calls)?;
    let release = ReleaseStaleLeases { settler: settler.clone(), calls, time_limit: RELEASE_TIME_LIMIT };
    let release = GuardedJob::release(release, db.clone(), worker.clone(), stop.clone());
    let cleanup = GuardedJob::cleanup(DeleteExpiredKeys::new(db.clone(), settings.keys.key_retention), db.clone(), worker, stop.clone());
    let schedule = &settings.schedule;
    Ok(Scheduler::start(vec![(schedule.release_schedule.clone(), release), (schedule.cleanup_schedule.clone(), cleanup)]).await?)
}

fn try_it(address: SocketAddr, open: bool) -> String {
    let authorization = if open { "" } else { "-H 'Authorization: Bearer TOKEN' " };
    format!(
        "curl -i http://{address}/reservations {authorization}-H 'Content-Type: application/json' -H 'Idempotency-Key: \"{}\"' \
         -d '{{\"item_code\":\"ROOM-101\",\"quantity\":1,\"reserved_by\":\"taro\"}}'",
        uuid::Uuid::new_v4()
    )
}

/// The sandbox alone, until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from starting, as one line.
pub async fn serve_sandbox(settings: Settings) -> Result<(), Failure> {
    let mut stop_signal = StopSignal::receive()?;
    let listener = bind(settings.http.sandbox_listen.unwrap_or(SANDBOX), "SANDBOX_LISTEN").await?;
    say(format_args!("Sandbox     http://{}", listener.local_addr()?));
    let stop = CancellationToken::new();
    let storage = sandbox::file_beside(&settings.database.database_url);
    let serving = tokio::spawn(sandbox::serve(listener, storage, stop.clone()));
    stop_signal.requested().await;
    stop.cancel();
    serving.await??;
    Ok(())
}
