//! The reservation: what is confirmed or cancelled at the booking system, read and listed here, written only by finalize.

use sea_orm::QueryResult;
use serde::{Deserialize, Serialize};

use crate::database::Database;
use crate::store_error::StoreError;
use crate::timestamp::Timestamp;

/// The members of a reservation that the caller decides. In the record of a key an absent member is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// What is reserved; 1..=64 Unicode characters.
    pub item_code: String,
    /// How many; 1..=2147483647.
    pub quantity: i32,
    /// For whom; 1..=128 Unicode characters.
    pub reserved_by: String,
    /// Begin of the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// End of the period, after its begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    /// Free text; up to 1000 Unicode characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Permanent statuses; a reservation in another one is read from its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Booked there.
    Confirmed,
    /// Cancelled there.
    Cancelled,
}

impl Status {
    /// As stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Confirmed, Self::Cancelled].into_iter().find(|s| s.as_str() == name)
    }
}

/// A confirmed or cancelled reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// UUIDv7, made at the claim; the booking system knows it as the reference.
    pub id: String,
    /// Whose it is.
    pub account: String,
    /// Confirmed or cancelled.
    pub status: Status,
    /// What the caller decided.
    pub details: Details,
    /// The booking system's id.
    pub booking_id: String,
    /// 1, and one more with every change.
    pub version: i64,
    /// Until when another change must wait, if that is in the future: a late first send could undo it.
    pub busy_for_ms: Option<i64>,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Milliseconds since the Unix epoch.
    pub updated_at_ms: i64,
}

const COLUMNS: &str = "id, account, status, item_code, quantity, reserved_by, starts_at_us, ends_at_us, note, booking_id, version, \
     busy_until_ms - {now} AS busy_for_ms, created_at_ms, updated_at_ms";

impl Reservation {
    fn read(row: &QueryResult) -> Result<Self, StoreError> {
        let unreadable = |what: &str| StoreError::Unreadable(format!("reservation.{what}"));
        let instant = |column: &str| -> Result<Option<Timestamp>, StoreError> {
            let micros = row.try_get::<Option<i64>>("", column)?;
            micros.map(|us| Timestamp::from_micros(us).map_err(|_| unreadable(column))).transpose()
        };
        Ok(Self {
            id: row.try_get("", "id")?,
            account: row.try_get("", "account")?,
            status: Status::from_name(&row.try_get::<String>("", "status")?).ok_or_else(|| unreadable("status"))?,
            details: Details {
                item_code: row.try_get("", "item_code")?,
                quantity: i32::try_from(row.try_get::<i64>("", "quantity")?).map_err(|_| unreadable("quantity"))?,
                reserved_by: row.try_get("", "reserved_by")?,
                starts_at: instant("starts_at_us")?,
                ends_at: instant("ends_at_us")?,
                note: row.try_get("", "note")?,
            },
            booking_id: row.try_get("", "booking_id")?,
            version: row.try_get("", "version")?,
            busy_for_ms: row.try_get::<Option<i64>>("", "busy_for_ms")?.filter(|ms| *ms > 0),
            created_at_ms: row.try_get("", "created_at_ms")?,
            updated_at_ms: row.try_get("", "updated_at_ms")?,
        })
    }
}

/// The reservation of that id, if it is `account`'s.
///
/// # Errors
/// [`StoreError`].
pub async fn find(db: &Database, account: &str, id: &str) -> Result<Option<Reservation>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM reservation WHERE id = $1 AND account = $2");
    db.read_one("find reservation", &sql, vec![id.into(), account.into()]).await?.as_ref().map(Reservation::read).transpose()
}

/// At most `limit` reservations of `account`, newest id first, of one status if given, with ids below `before` if given.
/// Ids are never reused and never move, so that pages neither repeat nor skip what was there when the first one was read.
///
/// # Errors
/// [`StoreError`].
pub async fn list(
    db: &Database,
    account: &str,
    status: Option<Status>,
    before: Option<&str>,
    limit: u64,
) -> Result<Vec<Reservation>, StoreError> {
    let mut values: Vec<sea_orm::Value> = vec![account.into(), i64::try_from(limit).unwrap_or(i64::MAX).into()];
    let mut filter = String::new();
    for (condition, value) in [("status =", status.map(Status::as_str)), ("id <", before)] {
        if let Some(value) = value {
            values.push(value.into());
            filter.push_str(&format!(" AND {condition} ${}{{c}}", values.len()));
        }
    }
    let sql = format!("SELECT {COLUMNS} FROM reservation WHERE account = $1{{c}}{filter} ORDER BY id{{c}} DESC LIMIT $2");
    db.read_all("list reservations", &sql, values).await?.iter().map(Reservation::read).collect()
}
