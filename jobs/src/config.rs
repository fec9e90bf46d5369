//! The settings that `api` and `jobs` share: each a flag and an environment variable from one definition, checked at the start.

use std::error::Error as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, ValueEnum};
use entity::database::{Database, DatabaseSettings};
use migration::start::{Start, StopSignal};
use migration::terminal::complain;
use reqwest::Url;

use crate::booking::http::HttpSettings;
use crate::boot_clock::millis;
use crate::rules::{Bounds, Offer};
use crate::scheduler::check_schedule;
use crate::settle::SettleSettings;

/// Where keys and reservations are kept.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Database")]
pub struct DatabaseArgs {
    /// `sqlite://FILE?mode=rwc` or `postgres://USER@HOST/NAME`; the schema is brought up to date at the start
    #[arg(long, env, value_name = "URL", default_value = "sqlite://data/reservations.db?mode=rwc", hide_env_values = true, global = true)]
    pub database_url: String,
    /// Connections at most
    #[arg(long, env, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000), global = true)]
    pub database_pool: u32,
    /// How long to wait for the database before a request is answered with 503
    #[arg(long, env, value_name = "DURATION", default_value = "5s", value_parser = duration, global = true)]
    pub database_acquire_timeout: Duration,
}

impl DatabaseArgs {
    /// For [`entity::database::Database::connect`].
    #[must_use]
    pub fn settings(&self) -> DatabaseSettings {
        DatabaseSettings { url: self.database_url.clone(), pool: self.database_pool, acquire_timeout: self.database_acquire_timeout }
    }
}

/// The external booking system.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Booking system")]
pub struct BookingArgs {
    /// Base address of the booking system; without it `api` starts its sandbox
    #[arg(long, env, value_name = "URL", hide_env_values = true, value_parser = base_address, global = true)]
    pub booking_url: Option<Url>,
    /// Bearer token for the booking system
    #[arg(long, env, value_name = "TOKEN", hide_env_values = true, value_parser = bearer_token, global = true)]
    pub booking_token: Option<String>,
    /// One call to the booking system, headers and body together
    #[arg(long, env, value_name = "DURATION", default_value = "10s", value_parser = duration, global = true)]
    pub booking_timeout: Duration,
    /// Until there is a connection to the booking system, TLS included
    #[arg(long, env, value_name = "DURATION", default_value = "2s", value_parser = duration, global = true)]
    pub booking_connect_timeout: Duration,
    /// Whether the booking system deduplicates by our idempotency key
    #[arg(long, env, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, global = true)]
    pub booking_idempotent: bool,
    /// Whether the booking system answers look-ups by reference
    #[arg(long, env, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, global = true)]
    pub booking_lookup: bool,
    /// How long the booking system remembers our key
    #[arg(long, env, value_name = "DURATION", default_value = "24h", value_parser = duration, global = true)]
    pub booking_key_retention: Duration,
    /// How long after BOOKING_TIMEOUT a send may still take effect there: until then neither a refusal nor, without deduplication, "no such booking" is believed
    #[arg(long, env, value_name = "DURATION", default_value = "60s", value_parser = duration_or_zero, global = true)]
    pub absent_after: Duration,
    /// A caller is answered within this, and an attempt stops sending again by then
    #[arg(long, env, value_name = "DURATION", default_value = "25s", value_parser = duration, global = true)]
    pub answer_within: Duration,
    /// Calls to the booking system at once by the release job of one process
    #[arg(long, env, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000), global = true)]
    pub recovery_calls: u32,
    /// What the release job does with a booking that is not there: release the key, or send it again under the same reference
    #[arg(long, env, value_name = "WHAT", default_value = "release", global = true)]
    pub on_absent: OnAbsent,
}

/// What the release job does with a booking that is believed absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnAbsent {
    /// Release the key: the same request may run again.
    Release,
    /// Send it again under the same reference.
    Rebook,
}

/// The life of a key.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Keys")]
pub struct KeyArgs {
    /// How long a worker has a key to itself; renewed while it lives
    #[arg(long, env, value_name = "DURATION", default_value = "30s", value_parser = duration, global = true)]
    pub lease: Duration,
    /// How long an answer is kept, from its completion
    #[arg(long, env, value_name = "DURATION", default_value = "24h", value_parser = duration, global = true)]
    pub key_retention: Duration,
    /// Base address as callers see it through a proxy, sub-path included; part of stored answers, so the same in every process
    #[arg(long, env, value_name = "URL", hide_env_values = true, value_parser = base_address, global = true)]
    pub public_url: Option<Url>,
}

impl KeyArgs {
    /// `PUBLIC_URL` without its trailing slash; empty where there is none.
    #[must_use]
    pub fn public_base(&self) -> String {
        self.public_url.as_ref().map(|url| url.as_str().trim_end_matches('/').to_owned()).unwrap_or_default()
    }
}

/// The scheduled jobs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Jobs")]
pub struct ScheduleArgs {
    /// When stale leases are released: cron with seconds, UTC
    #[arg(long, env, value_name = "CRON", default_value = "*/5 * * * * *", value_parser = check_schedule, global = true)]
    pub release_schedule: String,
    /// When expired keys are deleted: cron with seconds, UTC
    #[arg(long, env, value_name = "CRON", default_value = "0 */5 * * * *", value_parser = check_schedule, global = true)]
    pub cleanup_schedule: String,
    /// How long running work may take to end after SIGTERM
    #[arg(long, env, value_name = "DURATION", default_value = "20s", value_parser = duration_or_zero, global = true)]
    pub shutdown_grace: Duration,
}

/// Two settings that do not go together.
///
/// # Errors
/// One line for the user.
pub fn check(booking: &BookingArgs, keys: &KeyArgs) -> Result<(), String> {
    let shown = humantime::format_duration;
    if booking.answer_within < booking.booking_timeout {
        return Err(format!(
            "ANSWER_WITHIN ({}) must be at least BOOKING_TIMEOUT ({})",
            shown(booking.answer_within),
            shown(booking.booking_timeout)
        ));
    }
    if keys.lease < booking.booking_connect_timeout * 2 {
        return Err(format!(
            "LEASE ({}) must be at least twice BOOKING_CONNECT_TIMEOUT ({})",
            shown(keys.lease),
            shown(booking.booking_connect_timeout)
        ));
    }
    if keys.key_retention < keys.lease + booking.booking_timeout {
        return Err(format!(
            "KEY_RETENTION ({}) must be at least LEASE + BOOKING_TIMEOUT ({})",
            shown(keys.key_retention),
            shown(keys.lease + booking.booking_timeout)
        ));
    }
    let settles = booking.booking_timeout + booking.absent_after;
    if booking.booking_idempotent && booking.booking_key_retention <= settles {
        return Err(format!(
            "BOOKING_KEY_RETENTION ({}) must be more than BOOKING_TIMEOUT + ABSENT_AFTER ({}); \
             a booking system that forgets sooner is BOOKING_IDEMPOTENT=false",
            shown(booking.booking_key_retention),
            shown(settles)
        ));
    }
    Ok(())
}

/// Settings of the client.
#[must_use]
pub fn http_settings(booking: &BookingArgs, url: Url) -> HttpSettings {
    HttpSettings {
        url,
        token: booking.booking_token.clone(),
        timeout: booking.booking_timeout,
        connect_timeout: booking.booking_connect_timeout,
        keep_connections: booking.booking_idempotent || booking.booking_lookup,
    }
}

/// Settings of the settler.
#[must_use]
pub fn settle_settings(booking: &BookingArgs, keys: &KeyArgs) -> SettleSettings {
    SettleSettings {
        offer: Offer { idempotent: booking.booking_idempotent, lookup: booking.booking_lookup },
        bounds: Bounds {
            booking_timeout_ms: millis(booking.booking_timeout),
            absent_after_ms: millis(booking.absent_after),
            booking_key_retention_ms: millis(booking.booking_key_retention),
        },
        connect_timeout: booking.booking_connect_timeout,
        lease: keys.lease,
        retention: keys.key_retention,
        answer_within: booking.answer_within,
        public_base: keys.public_base(),
        rebook: booking.on_absent == OnAbsent::Rebook,
    }
}

/// Opens the database and brings its schema up to date. Says what it waits for, and ends at a signal.
///
/// # Errors
/// One line for the user; the schema is as it was then.
pub async fn open(program: &'static str, database: &DatabaseArgs, stop: &mut StopSignal) -> Result<Database, Box<dyn std::error::Error>> {
    let mut start = Start { program, database_url: &database.database_url, stop };
    let db = start.step("the database", Database::connect(&database.settings())).await?;
    start.step("the migration of its schema", db.migrate()).await?;
    Ok(db)
}

/// Reads flags and environment; a mistake becomes one line on standard error, which repeats no secret.
///
/// # Errors
/// The exit status: 0 after `--help` and `--version`, else 2.
pub fn parse<T: Parser>(program: &str) -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        if !error.use_stderr() {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        let mut command = T::command();
        // Only a built one knows how its arguments are shown.
        command.build();
        complain(program, one_line(&error, &command));
        ExitCode::from(2)
    })
}

/// What clap says, in one line and without the value of a setting that hides it.
fn one_line(error: &clap::Error, command: &clap::Command) -> String {
    let text = error.to_string();
    let first: Vec<_> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let line = first.join(" ").trim_start_matches("error: ").to_owned();
    let (Some(ContextValue::String(name)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return line;
    };
    let secret = command.get_arguments().any(|a| a.is_hide_env_values_set() && a.to_string() == *name);
    if !secret {
        return line;
    }
    match error.source() {
        Some(why) => format!("invalid value for '{name}': {why}"),
        None => line.replace(value, "..."),
    }
}

/// A duration above zero, at most ten years.
///
/// # Errors
/// A sentence for the user.
pub fn duration(text: &str) -> Result<Duration, String> {
    duration_or_zero(text).and_then(|d| if d.as_millis() == 0 { Err("must be at least 1ms".into()) } else { Ok(d) })
}

/// A duration, at most ten years.
///
/// # Errors
/// A sentence for the user.
pub fn duration_or_zero(text: &str) -> Result<Duration, String> {
    const TEN_YEARS: Duration = Duration::from_secs(10 * 366 * 86_400);
    match humantime::parse_duration(text) {
        Ok(duration) if duration <= TEN_YEARS => Ok(duration),
        Ok(_) => Err("must be at most ten years".into()),
        Err(_) => Err("not a duration such as 500ms, 30s or 24h".into()),
    }
}

/// Base address of a service: http or https, with a host, and nothing behind its path.
fn base_address(text: &str) -> Result<Url, String> {
    // What a browser would mend is a slip here.
    let has_host = text.split_once("://").is_some_and(|(_, rest)| !rest.starts_with('/'));
    if !has_host || text.contains(char::is_whitespace) {
        return Err("must be an address such as https://booking.example/v1".into());
    }
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("must be an http or https address".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must hold neither user nor password".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have neither a query nor a fragment".into());
    }
    Ok(url)
}

/// Goes into a header (RFC 6750).
fn bearer_token(text: &str) -> Result<String, String> {
    let fits = (1..=4096).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if fits { Ok(text.to_owned()) } else { Err("a token is 1 to 4096 visible ASCII characters".into()) }
}
