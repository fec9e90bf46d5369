//! The claim of a request, and the hand-over of its lease: from here on the work goes on by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use entity::idempotency_key::Record;
use entity::key_scope::{KeyDigest, Operation};
use entity::lifecycle::{self, Claimed, Guard, NewKey};
use entity::store_error::StoreError;
use jobs::boot_clock::BootInstant;
use jobs::rules::Purpose;
use jobs::settle::{Assignment, Outcome};
use tokio::sync::oneshot;

use super::problems::{internal, under_its_key};
use super::{Keyed, KeyedOperation};
use crate::http::problem::{Code, Problem};
use crate::service::{Service, storage_problem};

/// What became of a claim.
#[expect(clippy::large_enum_variant, reason = "moved twice per request: a box would cost more")]
pub(super) enum Claim {
    /// The work has begun; here its outcome will be told. With the record for a 202.
    Begun(Box<Record>, oneshot::Receiver<Outcome>),
    /// The key is something already.
    Is(Claimed),
}

/// Claims, and starts the work in the same task: from the claim on it goes on by itself, whatever becomes of this request.
pub(super) async fn claim(service: &Arc<Service>, keyed: &Keyed, operation: &impl KeyedOperation) -> Result<Claim, Problem> {
    let digest = keyed.digest();
    let look_first = service.completed.contains_key(&digest);
    let guarded = !matches!(keyed.operation, Operation::Create);
    let mut is_new = false;
    let find = async || {
        let db = service.db.clone();
        service.storage(async move { lifecycle::find(&db, &digest).await }).await.map_err(|problem| nothing_sent(problem, keyed.operation))
    };
    if guarded || (service.is_rate_limited() && !look_first) {
        is_new = find().await?.is_none_or(|r| r.is_expired());
    }
    // A key that is known needs no guard: what can change its mind comes after the look-up.
    let guard = match (guarded, is_new) {
        (true, true) => match operation.guard().await {
            Ok(guard) => guard,
            // What the guard saw may be the work of this very key, claimed and done since it was looked up: then it is a replay.
            Err(problem) => match find().await? {
                Some(record) if !record.is_expired() => Guard::Known,
                Some(_) | None => return Err(problem),
            },
        },
        (true, false) => Guard::Known,
        (false, _) => Guard::None,
    };
    // After everything else: what is refused makes no key.
    if is_new && !matches!(guard, Guard::Known) {
        service.admit(&keyed.account, digest)?;
    }
    let new = keyed.new_key(service.settler.settings().lease, guard)?;

    let look_first = look_first || matches!(new.guard, Guard::Known);
    let fate = Fate::default();
    let mut task = tokio::spawn(claim_and_begin(Arc::clone(service), keyed.clone(), new, look_first, fate.clone()));
    let claimed = match tokio::time::timeout(service.storage_timeout, &mut task).await {
        Ok(claimed) => claimed,
        Err(_elapsed) if fate.decide() => return Err(nothing_sent(storage_problem(&StoreError::timed_out()), keyed.operation)),
        // The work has begun in this very moment.
        Err(_elapsed) => task.await,
    };
    match claimed {
        Ok(Ok(claim)) => Ok(claim),
        Ok(Err(error)) => Err(nothing_sent(storage_problem(&error), keyed.operation)),
        Err(panicked) => {
            tracing::error!(%panicked, "a claim panicked");
            Err(internal())
        }
    }
}

/// Whether the work under a claim begins or its caller is told that nothing is sent: whoever asks first decides, and only once.
#[derive(Debug, Clone, Default)]
struct Fate(Arc<AtomicBool>);

impl Fate {
    /// True for the first who asks.
    fn decide(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }

    fn is_decided(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Without storage nothing is sent: of a claim that can be said.
fn nothing_sent(problem: Problem, operation: Operation) -> Problem {
    match problem.code() {
        Code::StorageUnavailable => {
            let under_its_key = under_its_key(operation);
            problem.detail_is(format!(
                "The service cannot reach its storage, so this request sent nothing to the booking system. Send it again{under_its_key}."
            ))
        }
        _ => problem,
    }
}

async fn claim_and_begin(service: Arc<Service>, keyed: Keyed, new: NewKey, look_first: bool, fate: Fate) -> Result<Claim, StoreError> {
    let fingerprint_of = |version| keyed.fingerprint(version);
    let try_claim = || async {
        let counted_from = BootInstant::now();
        lifecycle::claim(&service.db, &new, &fingerprint_of, look_first).await.map(|claimed| (counted_from, claimed))
    };
    // The token is the same each time, so a claim whose acknowledgement was lost is found to be ours.
    let again = ExponentialBuilder::new().with_min_delay(Duration::from_millis(50)).with_max_delay(Duration::from_millis(500));
    let again = again.without_max_times();
    let unanswered = |e: &StoreError| matches!(e, StoreError::Unavailable(_)) && !fate.is_decided();
    let (counted_from, claimed) = try_claim.retry(again).when(unanswered).await?;
    let Claimed::Mine(work) = claimed else { return Ok(Claim::Is(claimed)) };
    if !fate.decide() {
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
        match outcome {
            Outcome::Answered(_) => service.completed.insert(digest, ()),
            Outcome::Freed(_) => service.freed(&digest),
            Outcome::Refused(_) | Outcome::Released | Outcome::Pending | Outcome::LeaseLost => {}
        }
        service.waiting.settled(&digest);
        // The caller may have hung up.
        let _ = tell.send(outcome);
    });
    passed_on
}

#[cfg(test)]
mod tests {
    use super::Fate;

    #[test]
    fn only_the_first_who_asks_decides_the_fate_of_a_claim() {
        for _ in 0..200 {
            let fate = Fate::default();
            assert!(!fate.is_decided());
            let decided =
                std::thread::scope(|scope| [(); 2].map(|()| scope.spawn(|| fate.decide())).map(|asked| asked.join().unwrap_or(false)));
            assert_eq!(decided.iter().filter(|first| **first).count(), 1);
            assert!(fate.is_decided() && !fate.decide());
        }
    }
}
