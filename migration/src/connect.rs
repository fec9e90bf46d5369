//! How a database is opened, by this tool and by the service alike: two that open one new SQLite file differently lock each other out.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use backon::{ExponentialBuilder, Retryable};
use sea_orm_migration::sea_orm::sqlx::postgres::{PgConnectOptions, PgConnection};
use sea_orm_migration::sea_orm::sqlx::sqlite::SqliteConnectOptions;
use sea_orm_migration::sea_orm::sqlx::{self, ConnectOptions as _, Connection as _, Row as _};
use sea_orm_migration::sea_orm::{
    ConnectOptions, ConnectionTrait as _, Database, DatabaseConnection, DatabaseTransaction, DbErr, RuntimeErr, SqliteTransactionMode,
    TransactionOptions, TransactionTrait as _,
};

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
enum Place {
    Sqlite(PathBuf),
    Postgres(Box<PgConnectOptions>),
}

/// Sessions that will never work again, and those as old as they are: a server that became read-only (demoted to a standby, or made so)
/// answers every read and no write for as long as a session lives, wherever its address leads by then. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Outdated(Arc<Mutex<Option<Instant>>>);

/// What an error says of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// Nothing.
    Usable,
    /// It is of no use any more; whether the statement took effect is not known.
    Lost,
    /// It only reads: the statement had no effect, and another session may do it.
    ReadOnly,
}

impl Outdated {
    /// Reads the error of a statement. If its session will never work again, this one and all older ones are closed instead of used again.
    pub fn judge(&self, error: &DbErr) -> Session {
        let session = Session::after(error);
        if session != Session::Usable {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        session
    }

    fn includes(&self, age: Duration) -> bool {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| age >= since.elapsed())
    }
}

impl Session {
    /// An error while a connection is opened or waited for says nothing of those that are open.
    fn after(error: &DbErr) -> Self {
        let (DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error))) = error else {
            return Self::Usable;
        };
        // SQLite's codes are numbers of other kinds, none of them with five characters of these.
        match error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() {
            Some("25006") => Self::ReadOnly,
            // A transaction that nobody ends, or that was ended; the server's stop; prepared statements that are not those we made.
            Some("25P02" | "25P03" | "57P01" | "57P02" | "57P03" | "57P05" | "26000" | "42P05") => Self::Lost,
            Some(code) if code.starts_with("08") => Self::Lost,
            _ => Self::Usable,
        }
    }
}

/// Whom a database session belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sessions {
    /// To the connection, from its begin to its end.
    Own,
    /// To whoever has a transaction: a pooler in transaction mode. What others prepared in it is there, under the names that we use, too.
    Shared,
}

impl Sessions {
    /// `statement-cache-capacity=0` says that they are shared.
    #[must_use]
    pub fn of(url: &str) -> Self {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let shared = url.starts_with("postgres") && query.split('&').any(|parameter| parameter == "statement-cache-capacity=0");
        if shared { Self::Shared } else { Self::Own }
    }

    /// Begins a transaction, on SQLite as a writer. In a shared session it first forgets what was prepared there: the library gives its
    /// statements the same names in every connection, and prepares anew in each transaction where its cache has no room.
    ///
    /// # Errors
    /// The database's own.
    pub async fn begin(self, db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
        let options = TransactionOptions { sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate), ..Default::default() };
        let tx = db.begin_with_options(options).await?;
        if self == Self::Shared {
            tx.execute_unprepared("DEALLOCATE ALL").await?;
        }
        Ok(tx)
    }
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
                Place::Postgres(options) => suits(options, Sessions::of(url), backoff).await,
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
    fn of(url: &str) -> Result<Self, ConnectError> {
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

/// Whether we can work with this server, or with the pooler before it.
async fn suits(options: &PgConnectOptions, sessions: Sessions, backoff: ExponentialBuilder) -> Result<(), ConnectError> {
    let place = || format!("{}:{}", options.get_host(), options.get_port());
    let unreachable = |error: sqlx::Error| ConnectError::Unreachable { place: place(), reason: words(&error) };
    // Others may have all connections for a moment.
    let mut one = (|| options.connect()).retry(backoff).await.map_err(unreachable)?;
    let found = find_unsuitable(&mut one, options, sessions).await;
    // It answered, or the error says more.
    let _ = one.close().await;
    found.map_err(unreachable)?.map_or(Ok(()), Err)
}

/// Nothing is prepared here: what is prepared may be gone with the next statement.
async fn find_unsuitable(
    one: &mut PgConnection,
    options: &PgConnectOptions,
    sessions: Sessions,
) -> Result<Option<ConnectError>, sqlx::Error> {
    let encoding: String = sqlx::raw_sql("SHOW server_encoding").fetch_one(&mut *one).await?.try_get(0)?;
    if encoding != "UTF8" {
        return Ok(Some(ConnectError::Encoding(encoding)));
    }
    match sqlx::raw_sql("BEGIN").execute(&mut *one).await {
        Err(error) if words(&error).contains("statement pooling") => return Ok(Some(ConnectError::StatementMode)),
        begun => begun?,
    };
    sqlx::raw_sql("ROLLBACK").execute(&mut *one).await?;
    if sessions == Sessions::Own && is_shared(one, options).await? {
        return Ok(Some(ConnectError::TransactionMode));
    }
    Ok(None)
}

/// Whether two connections meet in one session of the server. A pooler gives out first what it got back last, so that the first try shows
/// it, unless somebody else's transaction comes between: then one of the next does.
async fn is_shared(one: &mut PgConnection, options: &PgConnectOptions) -> Result<bool, sqlx::Error> {
    const TRIES: usize = 8;
    const PATIENCE: Duration = Duration::from_secs(1);
    let connected = tokio::time::timeout(PATIENCE, options.connect()).await;
    // Who may have only one connection, or has to wait for the second, does not share.
    let Ok(Ok(mut other)) = connected else { return Ok(false) };
    let mut met = HashSet::new();
    let mut shared = false;
    for _ in 0..TRIES {
        met.insert(session(one).await?);
        sqlx::raw_sql("BEGIN").execute(&mut other).await?;
        let others = session(&mut other).await?;
        // While the other one's transaction holds this session, ours would be another.
        shared = met.contains(&others) || met.len() > 1;
        sqlx::raw_sql("ROLLBACK").execute(&mut other).await?;
        if shared {
            break;
        }
    }
    let _ = other.close().await;
    Ok(shared)
}

async fn session(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
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

/// Device and number of the file that has this name now.
fn identity(file: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(file).ok().map(|file| (file.dev(), file.ino()))
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
fn words(error: &sqlx::Error) -> String {
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
    fn sessions_older_than_the_last_that_was_lost_are_outdated() {
        let outdated = Outdated::default();
        assert!(!outdated.includes(Duration::from_secs(3600)));
        let refused = |error| DbErr::Conn(RuntimeErr::SqlxError(Arc::new(error)));
        assert_eq!(outdated.judge(&refused(sqlx::Error::PoolTimedOut)), Session::Usable);
        assert!(!outdated.includes(Duration::from_secs(3600)));
        *outdated.0.lock().unwrap() = Some(Instant::now());
        assert!(outdated.includes(Duration::from_secs(3600)));
        assert!(!outdated.includes(Duration::ZERO));
    }

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
