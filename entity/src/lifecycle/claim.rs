//! Claim: take a key, or learn what it is already. One statement for a fresh key, one more where there is a record.

use super::{Lease, Origin, SAME_ATTEMPT, Work, find::find};
use crate::database::Database;
use crate::idempotency_key::{COLUMNS, Record, State};
use crate::key_scope::{KeyDigest, Operation};
use crate::key_state::Event;
use crate::store_error::StoreError;

/// A request that wants its key. Claiming twice with the same `token` is claiming once: an acknowledgement lost on the
/// way is made good by asking again.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Address of the key.
    pub digest: KeyDigest,
    /// Whose.
    pub account: String,
    /// What for.
    pub operation: Operation,
    /// Version of `fingerprint`.
    pub fingerprint_version: u16,
    /// SHA-256 of the request in that version.
    pub fingerprint: [u8; 32],
    /// The validated body, RFC 8785.
    pub request: Vec<u8>,
    /// The reservation; for a creation a new UUIDv7.
    pub reservation_id: String,
    /// A new UUIDv7; for a creation the same as `reservation_id`.
    pub reference: String,
    /// A new random token.
    pub token: String,
    /// Length of the lease.
    pub lease_ms: i64,
    /// What must hold of the reservation, checked in the same statement.
    pub guard: Guard,
}

/// What must hold of the reservation for a claim to succeed.
#[derive(Debug, Clone)]
pub enum Guard {
    /// A creation: there is none yet.
    None,
    /// A change: confirmed, not busy, and still at `version`.
    Change {
        /// The version that the caller's `If-Match` named.
        version: i64,
        /// The whole new values, RFC 8785.
        change_to: Vec<u8>,
    },
    /// A cancellation: confirmed and not busy.
    Cancel {
        /// And still at this version, where the caller's `If-Match` named one.
        version: Option<i64>,
    },
    /// The key was there a moment ago: if it is gone, nothing is made, and the caller has to decide anew.
    Known,
}

/// What a request gets to know about its key.
#[derive(Debug)]
pub enum Claimed {
    /// Do the work.
    Mine(Work),
    /// Done; the record is [`State::Completed`].
    Completed(Record),
    /// Somebody works on it.
    InProgress(Record),
    /// Nobody can tell yet.
    OutcomeUnknown(Record),
    /// The key belongs to another request.
    OtherRequest(Record),
    /// No record, and the guard does not hold: the reservation is busy, at another version, or not confirmed.
    Blocked,
    /// The record's fingerprint version is not known to this process.
    UnknownFingerprint(u16),
}

/// The request's fingerprint in the version that a record carries; `None` for a version this process does not know.
pub type FingerprintOf<'a> = &'a (dyn Fn(u16) -> Option<[u8; 32]> + Send + Sync);

/// A record can vanish or move between two statements; so often in a row it cannot.
const TRIES: usize = 32;

/// Takes the key if it is free, released or lapsed, else says what it is. With `look_first` the record is read before the insert is
/// tried: cheaper where there likely is one. A completed key is only read; nothing is written or locked.
///
/// # Errors
/// [`StoreError`]: the claim may or may not have taken effect; claim again with the same token to find out.
pub async fn claim(db: &Database, new: &NewKey, fingerprint_of: FingerprintOf<'_>, look_first: bool) -> Result<Claimed, StoreError> {
    for round in 0..TRIES {
        let insert_first = (round > 0 || !look_first) && !matches!(new.guard, Guard::Known);
        if insert_first && let Some(record) = insert(db, new).await? {
            return Ok(Claimed::Mine(work(new, Origin::First, record)));
        }
        let Some(record) = find(db, &new.digest).await? else {
            match new.guard {
                Guard::Known => return Ok(Claimed::Blocked),
                Guard::Change { .. } | Guard::Cancel { .. } if insert_first => return Ok(Claimed::Blocked),
                // Never there, or gone between the two statements.
                Guard::Change { .. } | Guard::Cancel { .. } | Guard::None => continue,
            }
        };
        if record.is_expired() {
            super::expire::expire_one(db, &record.digest).await?;
            continue;
        }
        if record.lease_token.as_deref() == Some(&new.token) && matches!(record.state, State::InProgress { .. }) {
            let origin = if record.attempt == 1 { Origin::First } else { Origin::TakeOver };
            return Ok(Claimed::Mine(work(new, origin, record)));
        }
        match fingerprint_of(record.fingerprint_version) {
            None => return Ok(Claimed::UnknownFingerprint(record.fingerprint_version)),
            Some(fingerprint) if fingerprint != record.fingerprint => return Ok(Claimed::OtherRequest(record)),
            Some(_) => {}
        }
        let (event, origin) = match record.state {
            State::Completed { .. } => return Ok(Claimed::Completed(record)),
            State::OutcomeUnknown { .. } => return Ok(Claimed::OutcomeUnknown(record)),
            State::InProgress { lease_until_ms, .. } if lease_until_ms > record.now_ms => return Ok(Claimed::InProgress(record)),
            State::InProgress { .. } => (Event::TakeOver, Origin::TakeOver),
            State::Released { .. } => (Event::Claim, Origin::AfterRelease),
        };
        if let Some(record) = take(db, new, event, &record).await? {
            return Ok(Claimed::Mine(work(new, origin, record)));
        }
    }
    Err(StoreError::Unavailable(sea_orm::DbErr::Custom("the key moved too often".into())))
}

fn work(new: &NewKey, origin: Origin, record: Record) -> Work {
    Work { lease: Lease { digest: new.digest, token: new.token.clone() }, origin, record }
}

/// A fresh key; `None` where there is a record, or the guard does not hold.
async fn insert(db: &Database, new: &NewKey) -> Result<Option<Record>, StoreError> {
    const HEAD: &str = "INSERT INTO idempotency_key (digest, account, operation, fingerprint_version, fingerprint, request, \
         reservation_id, reference, lease_token, lease_until_ms, change_to, state, attempt, created_at_ms)";
    const VALUES: &str = "$1, $2, $3, $4, $5, $6, $7, $8, $9, {now} + $10, $11, 'in_progress', 1, {now}";
    let mut values = vec![
        new.digest.as_bytes().to_vec().into(),
        new.account.clone().into(),
        new.operation.as_str().into(),
        i64::from(new.fingerprint_version).into(),
        new.fingerprint.to_vec().into(),
        new.request.clone().into(),
        new.reservation_id.clone().into(),
        new.reference.clone().into(),
        new.token.clone().into(),
        new.lease_ms.into(),
    ];
    // The reservation's row is locked while its version is compared, so that a change finalized meanwhile is seen.
    const FROM_RESERVATION: &str = "FROM (SELECT id FROM reservation WHERE id = $7 AND account = $2 AND status = 'confirmed' \
         AND (busy_until_ms IS NULL OR busy_until_ms <= {now})";
    let source = match &new.guard {
        Guard::None => {
            values.push(None::<Vec<u8>>.into());
            format!("VALUES ({VALUES})")
        }
        Guard::Change { version, change_to } => {
            values.extend([change_to.clone().into(), (*version).into()]);
            format!("SELECT {VALUES} {FROM_RESERVATION} AND version = $12 {{for_update}}) AS reservation WHERE true")
        }
        Guard::Cancel { version } => {
            values.push(None::<Vec<u8>>.into());
            values.extend(version.map(Into::into));
            let version = if version.is_some() { "AND version = $12" } else { "" };
            format!("SELECT {VALUES} {FROM_RESERVATION} {version} {{for_update}}) AS reservation WHERE true")
        }
        Guard::Known => return Ok(None),
    };
    let sql = format!("{HEAD} {source} ON CONFLICT DO NOTHING RETURNING {COLUMNS}");
    db.write_one("claim", &sql, values).await?.as_ref().map(Record::read).transpose()
}

/// A released key, or one whose lease has lapsed; `None` where somebody else was faster.
async fn take(db: &Database, new: &NewKey, event: Event, seen: &Record) -> Result<Option<Record>, StoreError> {
    let lapsed = if event == Event::TakeOver { "lease_until_ms <= {now}" } else { "(expires_at_ms IS NULL OR expires_at_ms > {now})" };
    let sql = format!(
        "UPDATE idempotency_key SET state = 'in_progress', {}, lease_token = $3, lease_until_ms = {{now}} + $4, expires_at_ms = NULL, \
         next_look_at_ms = NULL WHERE {SAME_ATTEMPT} AND {} AND {lapsed} RETURNING {COLUMNS}",
        super::take_over::NEW_ATTEMPT,
        event.guard(),
    );
    let values = vec![seen.reference.clone().into(), seen.attempt.into(), new.token.clone().into(), new.lease_ms.into()];
    db.write_one(event.as_str(), &sql, values).await?.as_ref().map(Record::read).transpose()
}
