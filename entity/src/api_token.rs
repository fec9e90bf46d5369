//! Bearer tokens: an account may have several side by side; only the SHA-256 of each is stored.

use sha2::{Digest, Sha256};

use crate::database::Database;
use crate::store_error::StoreError;

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Its account's reservations and keys.
    Client,
    /// Operations as well.
    Operator,
}

impl Role {
    /// As stored and given on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Operator => "operator",
        }
    }

    /// The role of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Client, Self::Operator].into_iter().find(|r| r.as_str() == name)
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Whose keys and reservations.
    pub account: String,
    /// What the token may do.
    pub role: Role,
}

/// A token as it is listed: never its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenInfo {
    /// First 8 hexadecimal digits of its SHA-256.
    pub fingerprint: String,
    /// Whose.
    pub account: String,
    /// `client` or `operator`.
    pub role: String,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Milliseconds since the Unix epoch, if it was revoked.
    pub revoked_at_ms: Option<i64>,
}

fn digest(token: &str) -> Vec<u8> {
    Sha256::digest(token).to_vec()
}

/// The caller behind a token; `None` where it is unknown or revoked. Found by its digest, so that the time taken says nothing about it.
///
/// # Errors
/// [`StoreError`].
pub async fn authenticate(db: &Database, token: &str) -> Result<Option<Principal>, StoreError> {
    let sql = "SELECT account, role FROM api_token WHERE token_sha256 = $1 AND revoked_at_ms IS NULL";
    let Some(row) = db.read_one("authenticate", sql, vec![digest(token).into()]).await? else { return Ok(None) };
    let role = Role::from_name(&row.try_get::<String>("", "role")?).ok_or_else(|| StoreError::Unreadable("api_token.role".into()))?;
    Ok(Some(Principal { account: row.try_get("", "account")?, role }))
}

/// Adds a token; one that is there, revoked or not, stays as it is. Whether it is this account's: false where another one has it.
///
/// # Errors
/// [`StoreError`].
pub async fn add(db: &Database, token: &str, account: &str, role: Role) -> Result<bool, StoreError> {
    let sql = "INSERT INTO api_token (token_sha256, account, role, created_at_ms) VALUES ($1, $2, $3, {now}) ON CONFLICT DO NOTHING";
    if db.execute("add token", sql, vec![digest(token).into(), account.into(), role.as_str().into()]).await? > 0 {
        return Ok(true);
    }
    let sql = "SELECT 1 AS one FROM api_token WHERE token_sha256 = $1 AND account = $2";
    Ok(db.read_one("whose token", sql, vec![digest(token).into(), account.into()]).await?.is_some())
}

/// Revokes the token whose SHA-256 begins with `fingerprint` (8 or more hexadecimal digits). How many were revoked: 0 or 1.
///
/// # Errors
/// [`StoreError`].
pub async fn revoke(db: &Database, fingerprint: &str) -> Result<u64, StoreError> {
    let all = list(db).await?;
    let mut matching = all.iter().filter(|t| t.1.starts_with(&fingerprint.to_ascii_lowercase()));
    let (Some(found), None) = (matching.next(), matching.next()) else { return Ok(0) };
    let sql = "UPDATE api_token SET revoked_at_ms = {now} WHERE token_sha256 = $1 AND revoked_at_ms IS NULL";
    db.execute("revoke token", sql, vec![found.2.clone().into()]).await
}

/// All tokens, oldest first.
///
/// # Errors
/// [`StoreError`].
pub async fn all(db: &Database) -> Result<Vec<TokenInfo>, StoreError> {
    Ok(list(db).await?.into_iter().map(|(info, ..)| info).collect())
}

/// Whether there is any token, revoked ones included: without one the server is open to its own machine.
///
/// # Errors
/// [`StoreError`].
pub async fn any(db: &Database) -> Result<bool, StoreError> {
    Ok(db.read_one("any token", "SELECT 1 AS one FROM api_token LIMIT 1", vec![]).await?.is_some())
}

async fn list(db: &Database) -> Result<Vec<(TokenInfo, String, Vec<u8>)>, StoreError> {
    let sql = "SELECT token_sha256, account, role, created_at_ms, revoked_at_ms FROM api_token ORDER BY created_at_ms, account{c}";
    let rows = db.read_all("list tokens", sql, vec![]).await?;
    rows.iter()
        .map(|row| {
            let sha256: Vec<u8> = row.try_get("", "token_sha256")?;
            let hex: String = sha256.iter().map(|b| format!("{b:02x}")).collect();
            let info = TokenInfo {
                fingerprint: hex.chars().take(8).collect(),
                account: row.try_get("", "account")?,
                role: row.try_get("", "role")?,
                created_at_ms: row.try_get("", "created_at_ms")?,
                revoked_at_ms: row.try_get("", "revoked_at_ms")?,
            };
            Ok((info, hex, sha256))
        })
        .collect()
}
