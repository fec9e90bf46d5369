//! How a database is opened, by this tool and by the service alike: two that open one new SQLite file differently lock each other out.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use sea_orm_migration::sea_orm::sqlx::postgres::PgConnectOptions;
use sea_orm_migration::sea_orm::sqlx::sqlite::SqliteConnectOptions;
use sea_orm_migration::sea_orm::sqlx::{self, ConnectOptions as _, Connection as _};
use sea_orm_migration::sea_orm::{ConnectOptions, Database, DatabaseConnection, DbErr, RuntimeErr};

use crate::server;
use crate::session::{Outdated, Sessions};
use crate::sqlite_files::{identity, unusable};

/// Why a database was not opened. No message holds the URL, which may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL names no database we know.
    #[error("DATABASE_URL must begin with sqlite:// or postgres://")]
    Scheme,
    /// The URL cannot be read.
    #[error("DATABASE_URL cannot be read: {0}")]
    Url(String),
    /// Every connection to an in-memory database would be a database of its own, and a forgotten key books twice.
    #[error("DATABASE_URL: an in-memory SQLite database would forget its keys; name a file")]
    InMemory,
    /// Keys could not be claimed.
    #[error("DATABASE_URL: a read-only database cannot keep keys; use mode=rwc")]
    ReadOnly,
    /// The folder of the SQLite file cannot be made.
    #[error("cannot make the folder {folder}: {1}", folder = .0.display())]
    Folder(PathBuf, #[source] std::io::Error),
    /// A request may hold any character of Unicode, and a booking that is made could not be written down.
    #[error("the database's encoding is {0}: it must be UTF8 (CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0)")]
    Encoding(String),
    /// A session that is somebody else's after each transaction has prepared statements that are not ours under the names of ours.
    #[error(
        "DATABASE_URL leads to a connection pooler in transaction mode: add statement-cache-capacity=0 to its parameters, \
         or use the pooler's session mode (PgBouncer: pool_mode = session)"
    )]
    TransactionMode,
    /// No two statements are one transaction.
    #[error(
        "DATABASE_URL leads to a connection pooler in statement mode, which has no transactions: \
         use its session or transaction mode (PgBouncer: pool_mode = session)"
    )]
    StatementMode,
    /// The database does not answer.
    #[error("cannot open the database {place}: {reason}")]
    Unreachable {
        /// The file, or host and port.
        place: String,
        /// The database's or the system's own words.
        reason: String,
    },
}

/// What may follow the `?` of a PostgreSQL URL.
const POSTGRES_PARAMETERS: [&str; 18] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

/// Bytes to which SQLite's write-ahead log is cut when it is begun anew; otherwise it keeps the size that a long reader let it grow to. A
/// checkpoint every 1000 pages, of 4 KiB each, keeps it about as large while nobody reads for long.
const WRITE_AHEAD_LIMIT: &str = "4194304";

/// A database that can be opened: its URL was read.
#[derive(Debug)]
pub(crate) enum Place {
    Sqlite(PathBuf),
    Postgres(Box<PgConnectOptions>),
}

/// Opens a pool as [`open_renewed`] does, for those who end before a session can go out of date.
///
/// # Errors
/// [`ConnectError`]; nothing is left open then.
pub async fn open(options: ConnectOptions, patience: Duration) -> Result<DatabaseConnection, ConnectError> {
    open_renewed(options, patience, &Outdated::default()).await
}

/// Opens a pool; `patience` is how long another process's lock or a server that does not listen yet is waited for. Sessions that
/// are `outdated` are not used again.
///
/// # Errors
/// [`ConnectError`]; nothing is left open then.
pub async fn open_renewed(
    mut options: ConnectOptions,
    patience: Duration,
    outdated: &Outdated,
) -> Result<DatabaseConnection, ConnectError> {
    let url = &options.get_url().to_owned();
    let place = Place::of(url)?;
    options.acquire_timeout(patience).connect_timeout(patience).sqlx_logging(false);
    let opened = Arc::new(OnceLock::new());
    let outdated = outdated.clone();
    options.map_sqlx_postgres_opts(plain);
    options.map_sqlx_postgres_before_acquire(move |_, session| {
        let usable = !outdated.includes(session.age);
        Box::pin(async move { Ok(usable) })
    });
    if let Place::Sqlite(file) = &place {
        make_folder(file)?;
        if let Some((file, reason)) = unusable(file) {
            return Err(ConnectError::Unreachable { place: file.display().to_string(), reason });
        }
        let (file, opened) = (file.clone(), Arc::clone(&opened));
        options.map_sqlx_sqlite_opts(move |o| {
            o.pragma("journal_mode", "WAL")
                .pragma("synchronous", "FULL")
                .pragma("foreign_keys", "ON")
                .pragma("journal_size_limit", WRITE_AHEAD_LIMIT)
                .busy_timeout(patience)
        });
        // A full disk makes SQLite end a transaction by itself; the library goes on counting it, and would make every later one a
        // part of a transaction that never commits. And a file that was moved away or replaced keeps what nobody will ever read again.
        // Such a connection is closed, and a new one opened.
        options.map_sqlx_sqlite_before_acquire(move |connection, _| {
            let usable = !connection.is_in_transaction() && opened.get().is_none_or(|opened| *opened == identity(&file));
            Box::pin(async move { Ok(usable) })
        });
    }
    // `busy_timeout` does not cover the change of a new file to a write-ahead log while somebody else is in it.
    let backoff = ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(10))
        .with_max_delay(Duration::from_millis(200))
        .with_jitter()
        .without_max_times()
        .with_total_delay(Some(patience));
    match (|| Database::connect(options.clone())).retry(backoff).when(is_busy).await {
        Ok(connection) => {
            let usable = match &place {
                Place::Sqlite(file) => {
                    opened.get_or_init(|| identity(file));
                    Ok(())
                }
                Place::Postgres(options) => server::suits(options, Sessions::of(url), backoff).await,
            };
            match usable {
                Ok(()) => Ok(connection),
                Err(error) => {
                    // The first error says more than one of the close could.
                    let _ = connection.close().await;
                    Err(error)
                }
            }
        }
        Err(error) => Err(place.unreachable(&error).await),
    }
}

impl Place {
    pub(crate) fn of(url: &str) -> Result<Self, ConnectError> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            // The library would go on without it, and log its value.
            if let Some(unknown) = parameters(url).find(|name| !POSTGRES_PARAMETERS.contains(name) && !name.starts_with("options[")) {
                return Err(ConnectError::Url(format!("its parameter {unknown} is not known")));
            }
            let options = url.parse::<PgConnectOptions>().map_err(|error| unreadable(url, &error))?;
            return Ok(Self::Postgres(Box::new(plain(options))));
        }
        if !url.starts_with("sqlite:") {
            return Err(ConnectError::Scheme);
        }
        if url.contains(":memory:") || url.contains("mode=memory") {
            return Err(ConnectError::InMemory);
        }
        if url.contains("mode=ro") || url.contains("immutable=") {
            return Err(ConnectError::ReadOnly);
        }
        let options = url.parse::<SqliteConnectOptions>().map_err(|error| unreadable(url, &error))?;
        let file = options.get_filename();
        if file.file_name().is_none() || url.split('?').next().is_some_and(|path| path.ends_with('/')) {
            return Err(ConnectError::Url("it names no file".into()));
        }
        Ok(Self::Sqlite(file.to_owned()))
    }

    /// The pool tries until its time is over and then says only that; one more try says why.
    async fn unreachable(&self, error: &DbErr) -> ConnectError {
        match self {
            Self::Sqlite(file) => ConnectError::Unreachable { place: file.display().to_string(), reason: reason(error) },
            Self::Postgres(options) => {
                let place = format!("{}:{}", options.get_host(), options.get_port());
                let tried = tokio::time::timeout(Duration::from_secs(2), options.connect()).await;
                let reason = match tried {
                    Ok(Ok(connection)) => {
                        // Nothing is left open, whatever it answers.
                        let _ = connection.close().await;
                        reason(error)
                    }
                    Ok(Err(why)) => words(&why),
                    Err(_) => "no answer".into(),
                };
                ConnectError::Unreachable { place, reason }
            }
        }
    }
}

/// The library asks for digits of floats, of which we have none, and PgBouncer refuses a start with a setting that it does not know.
fn plain(options: PgConnectOptions) -> PgConnectOptions {
    options.extra_float_digits(None).disable_statement_logging()
}

/// Names of the parameters.
fn parameters(url: &str) -> impl Iterator<Item = &str> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter(|p| !p.is_empty()).map(|p| p.split('=').next().unwrap_or(p))
}

/// The library's words, unless they repeat a part of the URL.
fn unreadable(url: &str, error: &sqlx::Error) -> ConnectError {
    let said = words(error);
    let repeats = url.split([':', '/', '@', '?', '&', '=']).any(|part| part.len() > 2 && said.contains(part));
    ConnectError::Url(if repeats { "a part of it is not known".into() } else { said })
}

/// `mode=rwc` makes the file, but not its folder.
fn make_folder(file: &Path) -> Result<(), ConnectError> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            std::fs::create_dir_all(folder).map_err(|error| ConnectError::Folder(folder.to_owned(), error))
        }
        _ => Ok(()),
    }
}

/// SQLITE_BUSY, extended or not.
fn is_busy(error: &DbErr) -> bool {
    const BUSY: i32 = 5;
    cause(error)
        .and_then(sqlx::Error::as_database_error)
        .and_then(|error| error.code()?.parse::<i32>().ok())
        .is_some_and(|code| code & 0xff == BUSY)
}

fn reason(error: &DbErr) -> String {
    cause(error).map_or_else(|| error.to_string(), words)
}

pub(crate) fn cause(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(error))
        | DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error)) => Some(error),
        _ => None,
    }
}

/// Without the library's own preamble.
pub(crate) fn words(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Io(error) => error.to_string(),
        sqlx::Error::Database(error) => error.message().to_owned(),
        sqlx::Error::Configuration(error) => error.to_string(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_opened_says_why_and_never_the_password() {
        for (url, says) in [
            ("", "must begin with"),
            ("mysql://root:s3cret@localhost/x", "must begin with"),
            ("postgres://user:s3cret@localhost:port/x", "cannot be read"),
            ("postgres://user:s3cret@localhost/x?sslmode=s3cret", "cannot be read"),
            ("postgres://user@localhost/x?sslmode=require&pasword=s3cret", "pasword is not known"),
            ("postgres://user@one:5432,two:5432/x", "cannot be read"),
            ("postgres://user@localhost/x?target_session_attrs=read-write", "target_session_attrs is not known"),
            ("sqlite::memory:", "in-memory"),
            ("sqlite://x.db?mode=memory", "in-memory"),
            ("sqlite://x.db?mode=ro", "read-only"),
            ("sqlite://x.db?mode=s3cret", "cannot be read"),
            ("sqlite://?mode=rwc", "names no file"),
            ("sqlite://data/?mode=rwc", "names no file"),
        ] {
            let error = Place::of(url).unwrap_err().to_string();
            assert!(error.contains(says), "{url}: {error}");
            assert!(!error.contains("s3cret"), "{url}: {error}");
        }
        assert!(Place::of("sqlite://data/reservations.db?mode=rwc").is_ok());
        assert!(Place::of("postgresql:///x?host=/run/postgresql&options=-c%20search_path%3Dy&options[geqo]=off").is_ok());
    }
}
