//! Whether we can work with a PostgreSQL server, or with the pooler before it: looked at once, when a program starts.

use std::collections::HashSet;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use sea_orm_migration::sea_orm::sqlx::postgres::{PgConnectOptions, PgConnection};
use sea_orm_migration::sea_orm::sqlx::{self, ConnectOptions as _, Connection as _, Row as _};

use crate::connect::{ConnectError, words};
use crate::session::Sessions;

/// Whether we can work with this server, or with the pooler before it.
pub(crate) async fn suits(options: &PgConnectOptions, sessions: Sessions, backoff: ExponentialBuilder) -> Result<(), ConnectError> {
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
