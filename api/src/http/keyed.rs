//! A keyed request, top to bottom: claim, hand the lease to the settler, answer. The table "Answers to a keyed request" of the contract.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use entity::idempotency_key::{Record, State};
use entity::key_scope::{KeyDigest, Operation};
use entity::lifecycle::{self, Claimed, Guard, NewKey};
use entity::store_error::StoreError;
use jobs::booking::Nothing;
use jobs::boot_clock::{BootInstant, millis};
use jobs::rules::Purpose;
use jobs::settle::{Assignment, Outcome};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::payload;
use super::prefer::Preference;
use super::problem::{Code, Problem};
use super::stored::Outgoing;
use crate::config::OnDuplicate;
use crate::fingerprint;
use crate::service::{Service, storage_problem};

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

/// What became of a claim.
#[expect(clippy::large_enum_variant, reason = "moved twice per request: a box would cost more")]
enum Claim {
    /// The work has begun; here its outcome will be told. With the record for a 202.
    Begun(Box<Record>, oneshot::Receiver<Outcome>),
    /// The key is something already.
    Is(Claimed),
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

/// How long a caller waits, and what it gets then.
#[derive(Debug, Clone, Copy)]
struct Patience {
    preference: Preference,
    /// `wait=N` as it is applied.
    wait: Option<Duration>,
    /// A duplicate waits until then.
    duplicate_until: Instant,
}

impl Patience {
    fn of(service: &Service, preference: Preference) -> Self {
        let wait = preference.wait_s.map(|s| Duration::from_secs(s).min(service.wait_limit));
        let default = match service.on_duplicate {
            // Who asked for nothing is answered within `ANSWER_WITHIN`.
            OnDuplicate::Wait if !preference.respond_async => service.wait_limit.min(service.settler.settings().answer_within),
            OnDuplicate::Wait | OnDuplicate::Conflict => Duration::ZERO,
        };
        Self { preference, wait, duplicate_until: Instant::now() + wait.unwrap_or(default) }
    }

    /// `Preference-Applied` of an answer; `accepted` for a 202.
    fn applied(&self, accepted: bool) -> Option<String> {
        let wait = self.wait.map(|wait| format!("wait={}", wait.as_secs()));
        match (accepted && self.preference.respond_async, wait) {
            (true, Some(wait)) => Some(format!("respond-async, {wait}")),
            (true, None) => Some("respond-async".into()),
            (false, wait) => wait,
        }
    }
}

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
    let mut waiter = service.waiting.enter(keyed.digest());
    let mut blocked = 0;
    loop {
        match claim(service, keyed, operation).await? {
            Claim::Begun(record, told) => return first_answer(service, patience, operation, &record, told).await,
            Claim::Is(Claimed::Completed(record)) => return replay(service, record),
            Claim::Is(Claimed::InProgress(record)) => {
                if waiter.wait(patience.duplicate_until).await {
                    continue;
                }
                if patience.preference.respond_async {
                    return accepted(patience, operation, &record).await;
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

/// Claims, and starts the work in the same task: from the claim on it goes on by itself, whatever becomes of this request.
async fn claim(service: &Arc<Service>, keyed: &Keyed, operation: &impl KeyedOperation) -> Result<Claim, Problem> {
    let digest = keyed.digest();
    let look_first = service.completed.contains_key(&digest);
    let guarded = !matches!(keyed.operation, Operation::Create);
    let mut known = false;
    if guarded || (service.is_rate_limited() && !look_first) {
        let db = service.db.clone();
        let record = service.storage(async move { lifecycle::find(&db, &digest).await }).await?;
        known = record.is_some_and(|r| !r.is_expired());
        if !known && service.is_rate_limited() {
            service.admit(&keyed.account)?;
        }
    }
    // A key that is known needs no guard: what can change its mind comes after the look-up.
    let guard = match (guarded, known) {
        (true, false) => operation.guard().await?,
        (true, true) => Guard::Known,
        (false, _) => Guard::None,
    };
    let new = keyed.new_key(service.settler.settings().lease, guard)?;

    let abandoned = Arc::new(AtomicBool::new(false));
    let task = tokio::spawn(claim_and_begin(Arc::clone(service), keyed.clone(), new, look_first || known, Arc::clone(&abandoned)));
    match tokio::time::timeout(service.storage_timeout, task).await {
        Ok(Ok(Ok(claim))) => Ok(claim),
        Ok(Ok(Err(error))) => Err(storage_problem(&error)),
        Ok(Err(panicked)) => {
            tracing::error!(%panicked, "a claim panicked");
            Err(internal())
        }
        Err(_elapsed) => {
            abandoned.store(true, Ordering::SeqCst);
            Err(storage_problem(&StoreError::timed_out()))
        }
    }
}

async fn claim_and_begin(
    service: Arc<Service>,
    keyed: Keyed,
    new: NewKey,
    look_first: bool,
    abandoned: Arc<AtomicBool>,
) -> Result<Claim, StoreError> {
    let fingerprint_of = |version| keyed.fingerprint(version);
    let try_claim = || async {
        let counted_from = BootInstant::now();
        lifecycle::claim(&service.db, &new, &fingerprint_of, look_first).await.map(|claimed| (counted_from, claimed))
    };
    // The token is the same each time, so a claim whose acknowledgement was lost is found to be ours.
    let again = ExponentialBuilder::new().with_min_delay(Duration::from_millis(50)).with_max_delay(Duration::from_millis(500));
    let again = again.without_max_times().with_total_delay(Some(service.storage_timeout));
    let unanswered = |e: &StoreError| matches!(e, StoreError::Unavailable(_)) && !abandoned.load(Ordering::SeqCst);
    let (counted_from, claimed) = try_claim.retry(again).when(unanswered).await?;
    let Claimed::Mine(work) = claimed else { return Ok(Claim::Is(claimed)) };
    if abandoned.load(Ordering::SeqCst) {
        // The caller has been told that nothing was sent; so nothing is. The key comes up again as if its worker had never sent.
        lifecycle::end_lease(&service.db, &work.lease, None).await?;
        return Ok(Claim::Is(Claimed::Mine(work)));
    }
    let record = Box::new(work.record.clone());
    let told = service.settler.settle(Assignment { work, counted_from }, Purpose::Request);
    Ok(Claim::Begun(record, announce(service, new.digest, told)))
}

/// Passes the outcome on, after waking those who wait for it.
fn announce(service: Arc<Service>, digest: KeyDigest, told: oneshot::Receiver<Outcome>) -> oneshot::Receiver<Outcome> {
    let (tell, passed_on) = oneshot::channel();
    tokio::spawn(async move {
        // A worker that ended without an outcome left the key to its lease.
        let outcome = told.await.unwrap_or(Outcome::Pending);
        if let Outcome::Answered(_) = outcome {
            service.completed.insert(digest, ());
        }
        service.waiting.settled(&digest);
        // The caller may have hung up.
        let _ = tell.send(outcome);
    });
    passed_on
}

async fn first_answer(
    service: &Arc<Service>,
    patience: &Patience,
    operation: &impl KeyedOperation,
    record: &Record,
    mut told: oneshot::Receiver<Outcome>,
) -> Result<Outgoing, Problem> {
    let asked_for = patience.preference.respond_async || patience.wait.is_some();
    let within = match (patience.wait, patience.preference.respond_async) {
        (Some(wait), _) => wait,
        (None, true) => Duration::ZERO,
        (None, false) => service.settler.settings().answer_within,
    };
    let outcome = match tokio::time::timeout(within, &mut told).await {
        Ok(outcome) => outcome.unwrap_or(Outcome::Pending),
        Err(_elapsed) if asked_for => return accepted(patience, operation, record).await,
        Err(_elapsed) => return Err(outcome_pending(record)),
    };
    match outcome {
        Outcome::Answered(answer) | Outcome::Refused(answer) => Ok(Outgoing::plain(answer)),
        Outcome::Freed(nothing) => Err(freed(nothing)),
        Outcome::Pending | Outcome::Released => Err(outcome_pending(record)),
        // Somebody else has the key: what its record says is the answer.
        Outcome::LeaseLost => {
            let (db, digest) = (service.db.clone(), record.digest);
            match service.storage(async move { lifecycle::find(&db, &digest).await }).await? {
                Some(record) if matches!(record.state, State::Completed { .. }) && !record.is_expired() => replay(service, record),
                Some(_) | None => Err(outcome_pending(record)),
            }
        }
    }
}

async fn accepted(patience: &Patience, operation: &impl KeyedOperation, record: &Record) -> Result<Outgoing, Problem> {
    let mut outgoing = operation.accepted(record).await?;
    outgoing.preference_applied = patience.applied(true);
    outgoing.retry_after_s = Some(1);
    Ok(outgoing)
}

fn replay(service: &Service, record: Record) -> Result<Outgoing, Problem> {
    service.completed.insert(record.digest, ());
    match record.state {
        State::Completed { answer, .. } => Ok(Outgoing::replay(answer)),
        State::InProgress { .. } | State::Released { .. } | State::OutcomeUnknown { .. } => Err(internal()),
    }
}

/// Spread, so that a herd does not come back at once; within the lease, after which a retry takes over.
fn retry_within_lease_s(record: &Record) -> u64 {
    let left_s = u64::try_from(record.lease_left_ms().unwrap_or(0)).unwrap_or(0).div_ceil(1000);
    rand::random_range(1..=left_s.clamp(1, 5))
}

fn key_in_progress(record: &Record, patience: &Patience) -> Problem {
    let problem = Problem::new(Code::KeyInProgress, "The first request under this key is still being worked on.")
        .retry_after_s(retry_within_lease_s(record));
    match patience.applied(false).and_then(|applied| applied.parse().ok()) {
        Some(applied) => problem.header(super::stored::PREFERENCE_APPLIED, applied),
        None => problem,
    }
}

fn outcome_unknown(record: &Record) -> Problem {
    let problem = Problem::new(
        Code::OutcomeUnknown,
        "Nobody can tell yet whether the booking system booked this request. Ask again under this key; a new key could book twice.",
    );
    match record.state {
        State::OutcomeUnknown { next_look_at_ms: Some(at) } => {
            let wait_ms = u64::try_from(at - record.now_ms).unwrap_or(0);
            problem.retry_after_s(wait_ms.div_ceil(1000).clamp(1, 300))
        }
        State::OutcomeUnknown { .. } | State::InProgress { .. } | State::Completed { .. } | State::Released { .. } => problem,
    }
}

/// Names the members that differ, never the other request's values.
fn key_reused(record: &Record, sent: &Value) -> Problem {
    let stored: Value = serde_json::from_slice(&record.request).unwrap_or_default();
    Problem::new(Code::KeyReused, "This key belongs to another request. Nothing was done; make a new key for a new request.")
        .mismatch(payload::mismatch(&stored, sent))
}

/// What a caller hears whose outcome is not known in time.
fn outcome_pending(record: &Record) -> Problem {
    Problem::new(Code::OutcomePending, "The outcome is not known yet. Send the same request again under the same key.")
        .retry_after_s(retry_within_lease_s(record))
}

/// The same where there is no record at hand.
pub fn outcome_pending_soon() -> Problem {
    Problem::new(Code::OutcomePending, "The outcome is not known yet. Send the same request again.")
        .retry_after_s(rand::random_range(1..=3))
}

/// Nothing happened at the booking system; the key is bound to no request.
fn freed(nothing: Nothing) -> Problem {
    match nothing {
        Nothing::NoConnection => {
            Problem::new(Code::BookingSystemUnavailable, "The booking system cannot be reached. Nothing was booked; the key is free.")
                .retry_after_s(rand::random_range(1..=3))
        }
        Nothing::Misconfigured { .. } => Problem::new(
            Code::BookingSystemMisconfigured,
            "The booking system does not accept this service's calls. Nothing was booked; the key is free.",
        )
        .retry_after_s(rand::random_range(5..=15)),
        Nothing::Busy { retry_after_s } => {
            Problem::new(Code::BookingSystemBusy, "The booking system is too busy. Nothing was booked; the key is free.")
                .retry_after_s(retry_after_s)
        }
    }
}

/// Another change of the reservation is not settled.
pub fn reservation_busy(for_ms: Option<i64>) -> Problem {
    let wait_s = for_ms.and_then(|ms| u64::try_from(ms).ok()).map_or_else(|| rand::random_range(1..=3), |ms| ms.div_ceil(1000).max(1));
    Problem::new(Code::ReservationBusy, "Another change of this reservation is not settled yet. Nothing was done.").retry_after_s(wait_s)
}

fn internal() -> Problem {
    Problem::new(Code::Internal, "The service failed while it handled this request.")
}
