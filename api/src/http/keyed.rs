//! A keyed request, top to bottom: claim, hand the lease to the settler, answer. The table "Answers to a keyed request" of the contract.

mod claim;
mod patience;
mod problems;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use entity::idempotency_key::{Record, State};
use entity::key_scope::{KeyDigest, Operation};
use entity::lifecycle::{self, Claimed, Guard, NewKey};
use jobs::boot_clock::millis;
use jobs::settle::Outcome;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::prefer::Preference;
use super::problem::{Code, Problem};
use super::stored::Outgoing;
use crate::fingerprint;
use crate::service::Service;
use claim::{Claim, claim};
use patience::Patience;
use problems::{freed, internal, key_in_progress, key_reused, outcome_pending, outcome_unknown, refused, retry_within_lease_s};
pub(super) use problems::{outcome_pending_soon, reservation_busy};

/// How often a reservation may move between its guard and the claim before the caller is told that it is busy.
const GUARD_TRIES: u32 = 16;

/// A request that has passed authentication, key and body.
#[derive(Debug, Clone)]
pub struct Keyed {
    /// Whose.
    pub account: String,
    /// What for.
    pub operation: Operation,
    /// The decoded key.
    pub key: String,
    /// The reservation that the path names; `None` for a creation.
    pub path_id: Option<String>,
    /// The validated body, for the fingerprint.
    pub body: Value,
}

impl Keyed {
    /// The address of the key.
    #[must_use]
    pub fn digest(&self) -> KeyDigest {
        KeyDigest::of(&self.account, self.operation, &self.key)
    }

    fn fingerprint(&self, version: u16) -> Option<[u8; 32]> {
        let parameters: BTreeMap<&str, &str> = self.path_id.iter().map(|id| ("id", id.as_str())).collect();
        let computed = fingerprint::compute(version, self.operation.method(), self.operation.route(), &parameters, &self.body);
        computed.ok().map(|f| f.0)
    }

    fn new_key(&self, lease: Duration, guard: Guard) -> Result<NewKey, Problem> {
        let reference = Uuid::now_v7().to_string();
        Ok(NewKey {
            digest: self.digest(),
            account: self.account.clone(),
            operation: self.operation,
            fingerprint_version: fingerprint::CURRENT,
            fingerprint: self.fingerprint(fingerprint::CURRENT).ok_or_else(internal)?,
            request: fingerprint::canonical_bytes(&self.body),
            reservation_id: self.path_id.clone().unwrap_or_else(|| reference.clone()),
            reference,
            token: Uuid::new_v4().to_string(),
            lease_ms: millis(lease),
            guard,
        })
    }
}

/// When the one who began it may ask again after a 202; the others of a herd are spread.
const FIRST_RETRY_S: u64 = 1;

/// What a keyed operation has of its own.
pub trait KeyedOperation: Send + Sync {
    /// What must hold of the reservation for a new key; asked again whenever it did not hold at the claim.
    fn guard(&self) -> impl Future<Output = Result<Guard, Problem>> + Send;

    /// The answer 202 while the work goes on.
    fn accepted(&self, record: &Record) -> impl Future<Output = Result<Outgoing, Problem>> + Send;
}

/// Answers the request.
///
/// # Errors
/// Every problem of the table.
pub async fn answer(
    service: &Arc<Service>,
    keyed: &Keyed,
    preference: Preference,
    operation: &impl KeyedOperation,
) -> Result<Outgoing, Problem> {
    let patience = Patience::of(service, preference);
    let mut outgoing = answer_patiently(service, keyed, &patience, operation).await?;
    if outgoing.preference_applied.is_none() {
        outgoing.preference_applied = patience.applied(false);
    }
    Ok(outgoing)
}

/// Answers a request that joins the one under way, if there is one, until `ANSWER_WITHIN`.
///
/// # Errors
/// Every problem of the table.
pub async fn answer_joining(service: &Arc<Service>, keyed: &Keyed, operation: &impl KeyedOperation) -> Result<Outgoing, Problem> {
    let duplicate_until = Instant::now() + service.settler.settings().answer_within;
    let patience = Patience { preference: Preference::default(), wait: None, duplicate_until };
    answer_patiently(service, keyed, &patience, operation).await
}

async fn answer_patiently(
    service: &Arc<Service>,
    keyed: &Keyed,
    patience: &Patience,
    operation: &impl KeyedOperation,
) -> Result<Outgoing, Problem> {
    let mut waiter = None;
    let mut blocked = 0;
    loop {
        match claim(service, keyed, operation).await? {
            Claim::Begun(record, told) => return first_answer(service, patience, operation, &record, told).await,
            Claim::Is(Claimed::Completed(record)) => return replay(service, record),
            Claim::Is(Claimed::InProgress(record)) => {
                if Instant::now() < patience.duplicate_until {
                    match &mut waiter {
                        // Listens, then reads again: it may have been settled since it was read.
                        None => waiter = Some(service.waiting.listen(keyed.digest())),
                        Some(waiter) => waiter.wait(patience.duplicate_until).await,
                    }
                    continue;
                }
                if patience.preference.respond_async {
                    return accepted(patience, operation, &record, retry_within_lease_s(&record)).await;
                }
                return Err(key_in_progress(&record, patience));
            }
            Claim::Is(Claimed::OutcomeUnknown(record)) => return Err(outcome_unknown(&record)),
            Claim::Is(Claimed::OtherRequest(record)) => return Err(key_reused(&record, &keyed.body)),
            Claim::Is(Claimed::UnknownFingerprint(version)) => {
                tracing::error!(version, "a key carries a fingerprint version that this release does not know");
                return Err(internal());
            }
            // The guard held when it was asked and not at the claim: it is asked again, and says why.
            Claim::Is(Claimed::Blocked) if blocked < GUARD_TRIES => blocked += 1,
            Claim::Is(Claimed::Blocked) => return Err(reservation_busy(None)),
            Claim::Is(Claimed::Mine(_)) => return Err(internal()),
        }
    }
}

async fn first_answer(
    service: &Arc<Service>,
    patience: &Patience,
    operation: &impl KeyedOperation,
    record: &Record,
    mut told: oneshot::Receiver<Outcome>,
) -> Result<Outgoing, Problem> {
    let within = match (patience.wait, patience.preference.respond_async) {
        (Some(wait), _) => wait,
        // Always 202, however fast the booking is: who asked for it need not be ready for two kinds of answer.
        (None, true) => return accepted(patience, operation, record, FIRST_RETRY_S).await,
        (None, false) => service.settler.settings().answer_within,
    };
    let outcome = match tokio::time::timeout(within, &mut told).await {
        Ok(outcome) => outcome.unwrap_or(Outcome::Pending),
        Err(_elapsed) if patience.wait.is_some() => return accepted(patience, operation, record, FIRST_RETRY_S).await,
        Err(_elapsed) => return Err(outcome_pending(record)),
    };
    match outcome {
        Outcome::Answered(answer) => Ok(Outgoing::plain(answer)),
        // Not stored: told like every problem, in the caller's language.
        Outcome::Refused(_) => Err(refused(service, record)),
        Outcome::Freed(nothing) => Err(freed(nothing, record.operation)),
        Outcome::Pending | Outcome::Released => Err(outcome_pending(record)),
        // Somebody else has the key: what its record says is the answer.
        Outcome::LeaseLost => {
            let (db, digest) = (service.db.clone(), record.digest);
            match service.storage(async move { lifecycle::find(&db, &digest).await }).await {
                Ok(Some(record)) if matches!(record.state, State::Completed { .. }) && !record.is_expired() => replay(service, record),
                Ok(Some(_) | None) => Err(outcome_pending(record)),
                Err(problem) => Err(since_claimed(problem, record)),
            }
        }
    }
}

async fn accepted(patience: &Patience, operation: &impl KeyedOperation, record: &Record, retry_after_s: u64) -> Result<Outgoing, Problem> {
    let mut outgoing = operation.accepted(record).await.map_err(|problem| since_claimed(problem, record))?;
    outgoing.preference_applied = patience.applied(true);
    outgoing.retry_after_s = Some(retry_after_s);
    Ok(outgoing)
}

/// Something may have been sent by now: no answer from the storage is no "nothing was done".
fn since_claimed(problem: Problem, record: &Record) -> Problem {
    match problem.code() {
        Code::StorageUnavailable => outcome_pending(record),
        _ => problem,
    }
}

fn replay(service: &Service, record: Record) -> Result<Outgoing, Problem> {
    service.completed.insert(record.digest, ());
    match record.state {
        State::Completed { answer, .. } => Ok(Outgoing::replay(answer)),
        State::InProgress { .. } | State::Released { .. } | State::OutcomeUnknown { .. } => Err(internal()),
    }
}
