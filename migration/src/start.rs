//! How every program starts: it can be stopped at any time, and what it waits for long it says, and who holds it up.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::path::Path;
use std::time::Duration;

use sea_orm_migration::sea_orm::sqlx::{self, ConnectOptions as _, Connection as _, Row as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use crate::ADVISORY_LOCK;
use crate::connect::{Place, words};
use crate::sqlite_files::locked_by;
use crate::terminal;

/// A step of a start that takes longer says what it waits for.
const SILENT_FOR: Duration = Duration::from_secs(2);
/// And again after so long.
const SAY_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Who holds a lock is asked by a session of its own, for so long.
const ASK_FOR: Duration = Duration::from_secs(1);
/// A migration that waits for a lock asks for it only now and then: it is looked for as often, with a short pause.
const ASK_TIMES: u32 = 10;
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// Whoever is stopped by SIGTERM or SIGINT ends in order. A process with id 1 gets such a signal only if it receives it, so this is made
/// before anything else is done.
#[derive(Debug)]
pub struct StopSignal {
    terminate: Signal,
    interrupt: Signal,
}

/// It was asked to stop before it was done.
#[derive(Debug, thiserror::Error)]
#[error("stopped before it was done, while it waited for {0}")]
pub struct Stopped(String);

impl StopSignal {
    /// From now on signals are received, and end nothing by themselves.
    ///
    /// # Errors
    /// The system's own.
    pub fn receive() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Returns at the next signal, or at once if one came since the last.
    pub async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Does `work`, unless a signal comes first. `what`: what it waits for, for the user.
    ///
    /// # Errors
    /// [`Stopped`], or the error of the work.
    pub async fn unless<T, E: Into<Box<dyn Error>>>(
        &mut self,
        what: impl Display,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Box<dyn Error>> {
        tokio::select! {
            biased;
            () = self.requested() => Err(Stopped(what.to_string()).into()),
            done = work => done.map_err(Into::into),
        }
    }
}

/// The database that a program waits for at its start.
#[derive(Debug)]
pub struct Start<'a> {
    /// Name of the program, before its lines.
    pub program: &'static str,
    /// `DATABASE_URL`.
    pub database_url: &'a str,
    /// What ends it.
    pub stop: &'a mut StopSignal,
}

impl Start<'_> {
    /// Does one step. `what`: what it waits for, for the user.
    ///
    /// # Errors
    /// [`Stopped`], or the error of the step. Stopped, the database is as it was before the step: what was begun there is rolled back.
    pub async fn step<T, E: Into<Box<dyn Error>>>(
        &mut self,
        what: &str,
        step: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Box<dyn Error>> {
        let (program, database_url) = (self.program, self.database_url);
        let aloud = async {
            tokio::select! {
                done = step => done,
                never = tell(program, database_url, what) => match never {},
            }
        };
        self.stop.unless(what, aloud).await
    }
}

/// Says what is waited for, after a while and then now and then.
async fn tell(program: &str, database_url: &str, what: &str) -> std::convert::Infallible {
    tokio::time::sleep(SILENT_FOR).await;
    loop {
        match hold_up(database_url).await {
            Some(why) => terminal::complain(program, format_args!("still waits for {what}: {why}")),
            None => terminal::complain(program, format_args!("still waits for {what}")),
        }
        tokio::time::sleep(SAY_AGAIN_AFTER).await;
    }
}

/// What holds it up, if that can be found out.
async fn hold_up(database_url: &str) -> Option<String> {
    match Place::of(database_url).ok()? {
        Place::Sqlite(file) => sqlite_hold_up(&file),
        Place::Postgres(options) => {
            let (host, port) = (options.get_host().to_owned(), options.get_port());
            match timeout(ASK_FOR, options.connect()).await {
                Err(_elapsed) => Some(format!("{host}:{port} does not answer")),
                Ok(Err(error)) => Some(format!("{host}:{port}: {}", words(&error))),
                Ok(Ok(mut session)) => {
                    let holders = timeout(ASK_FOR * 2, lock_holders(&mut session)).await;
                    let _ = timeout(ASK_FOR, session.close()).await;
                    match holders {
                        Err(_elapsed) => Some(format!("{host}:{port} does not answer")),
                        Ok(holders) => holders.ok().filter(|holders| !holders.is_empty()).map(|holders| holders.join("; ")),
                    }
                }
            }
        }
    }
}

fn sqlite_hold_up(file: &Path) -> Option<String> {
    let holders: Vec<_> = locked_by(file).into_iter().map(|id| format!("process {id}")).collect();
    (!holders.is_empty()).then(|| format!("{} is locked by {}", file.display(), holders.join(" and ")))
}

/// Sessions that hold what somebody in this database waits for, and wait for nothing themselves. Locks on rows are none of a start's.
async fn lock_holders(session: &mut sqlx::PgConnection) -> Result<Vec<String>, sqlx::Error> {
    let (high, low) = (ADVISORY_LOCK >> 32, ADVISORY_LOCK & 0xffff_ffff);
    let ask = format!(
        "SELECT DISTINCT CASE waits.locktype WHEN 'relation' THEN 'the table ' || waits.relation::regclass ELSE 'the lock of the migration' END, \
         holder.pid, coalesce(nullif(holder.application_name, ''), '-'), coalesce(holder.usename, '-'), \
         coalesce(nullif(holder.state, ''), 'not shown'), coalesce(extract(epoch FROM now() - holder.xact_start)::bigint, 0) \
         FROM pg_locks AS waits CROSS JOIN LATERAL unnest(pg_blocking_pids(waits.pid)) AS blocker (pid) \
         JOIN pg_stat_activity AS holder ON holder.pid = blocker.pid \
         WHERE NOT waits.granted AND waits.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND (waits.locktype = 'relation' OR waits.locktype = 'advisory' AND waits.classid::bigint = {high} AND waits.objid::bigint = {low}) \
         AND NOT EXISTS (SELECT 1 FROM pg_locks AS other WHERE other.pid = holder.pid AND NOT other.granted)"
    );
    let mut holders = BTreeSet::new();
    for _ in 0..ASK_TIMES {
        // Nothing is prepared: it may be a pooler that gives each statement another session.
        for row in sqlx::raw_sql(sqlx::AssertSqlSafe(ask.clone())).fetch_all(&mut *session).await? {
            let (held, id, application): (String, i32, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let (role, state, seconds): (String, String, i64) = (row.try_get(3)?, row.try_get(4)?, row.try_get(5)?);
            let since = humantime::format_duration(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
            holders
                .insert(format!("{held} is held by session {id} ({application}, role {role}, {state}, its transaction runs for {since})"));
        }
        if !holders.is_empty() {
            break;
        }
        tokio::time::sleep(ASK_PAUSE).await;
    }
    Ok(holders.into_iter().collect())
}
