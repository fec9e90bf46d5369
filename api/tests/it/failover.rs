//! The primary dies in mid-load and its standby takes over: what a synchronous one keeps, and what an asynchronous one may have missed.

use super::support::cluster::{Cluster, Replication};
use super::support::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

tests!(postgres [
    a_synchronous_standby_has_everything_that_was_acknowledged,
    an_asynchronous_standby_may_have_missed_the_last_commits,
    sessions_with_a_standby_are_given_up_for_the_primary,
]);

/// Callers, each with one request on its way at any time.
const CALLERS: usize = 12;
/// Answers before the primary dies, and again after it.
const ANSWERS: usize = 60;

/// A key, its body, and the answer it came to.
type Answered = (String, Value, Reply);

/// Callers who retry as they are told to, until they are stopped.
struct Load {
    over: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    callers: Vec<tokio::task::JoinHandle<Vec<Answered>>>,
}

impl Load {
    fn start(case: &Case, upstream: &Upstream, services: &[Service]) -> Self {
        let (over, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let callers = (0..CALLERS).map(|number| {
            let (over, answers) = (Arc::clone(&over), Arc::clone(&answers));
            let (upstream, service) = (upstream.clone(), services[number % services.len()].clone());
            let bodies: Vec<_> = (0..2000).map(|_| (case.key(), case.body())).collect();
            tokio::spawn(async move {
                let mut answered = Vec::new();
                for (key, body) in bodies {
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                    upstream.on_post(&body, [vec![After(30), Answer]]);
                    let reply = service.settle(&key, &body).await;
                    answers.fetch_add(1, Ordering::SeqCst);
                    answered.push((key, body, reply));
                }
                answered
            })
        });
        let callers = callers.collect();
        Self { over, answers, callers }
    }

    /// Waits for so many more answers.
    async fn goes_on(&self) {
        let until = self.answers.load(Ordering::SeqCst) + ANSWERS;
        eventually("the load goes on", async || (self.answers.load(Ordering::SeqCst) >= until).then_some(())).await;
    }

    async fn end(self) -> Vec<Answered> {
        self.over.store(true, Ordering::SeqCst);
        together(self.callers).await.into_iter().flat_map(|answered| answered.expect("a caller came to its end")).collect()
    }
}

/// Two processes on the cluster, and a booking system that would book a second send a second time.
async fn started(case: &Case, cluster: &Cluster) -> (Upstream, Vec<Service>) {
    let upstream = case.upstream_that(false, true).await;
    let setup = || case.api(&upstream).set("DATABASE_URL", cluster.url()).set("LEASE", "2s").set("DATABASE_ACQUIRE_TIMEOUT", "2s");
    let services = vec![setup().start().await, setup().start().await];
    (upstream, services)
}

async fn a_synchronous_standby_has_everything_that_was_acknowledged(case: &Case) {
    let cluster = Cluster::start(Replication::Synchronous).await;
    let (upstream, services) = started(case, &cluster).await;

    // A claim that the standby has not confirmed is not acted on.
    let (key, body) = (case.key(), case.body());
    cluster.keep_back();
    services[0].post(&key, &body).await.expect_problem(503, "storage-unavailable");
    assert!(upstream.posts(&body).is_empty());
    cluster.replicate_again();
    let confirmed_at_last = services[0].settle(&key, &body).await;

    let load = Load::start(case, &upstream, &services);
    load.goes_on().await;
    cluster.primary_is_killed().await;
    cluster.standby_takes_over().await;
    load.goes_on().await;
    let mut answered = load.end().await;
    answered.push((key, body, confirmed_at_last));

    for (key, body, reply) in &answered {
        services[0].post(key, body).await.expect_replay_of(reply);
        let references: BTreeSet<_> = upstream.posts(body).iter().map(|post| post.body["reference"].to_string()).collect();
        assert_eq!((references.len(), upstream.bookings_of(body).len()), (1, 1), "a claim was forgotten: {body}");
    }
    case.expect_no_orphans(&upstream, &services[1]).await;
}

/// What `docs/guarantees.md` says of asynchronous replication: a claim that is forgotten can be made, and booked, again.
async fn an_asynchronous_standby_may_have_missed_the_last_commits(case: &Case) {
    let cluster = Cluster::start(Replication::Asynchronous).await;
    let (upstream, services) = started(case, &cluster).await;
    let service = &services[0];
    let (kept, missed) = ((case.key(), case.body()), (case.key(), case.body()));
    let kept_reply = service.post(&kept.0, &kept.1).await;
    kept_reply.expect_created();
    cluster.standby_has_everything().await;
    cluster.keep_back();
    let missed_reply = service.post(&missed.0, &missed.1).await;
    missed_reply.expect_created();
    cluster.primary_is_stopped().await;
    cluster.standby_takes_over().await;
    eventually("the service has found the new primary", async || {
        let reply = service.get("/health/ready").attempt().await.ok()?;
        (reply.status == 200).then_some(())
    })
    .await;

    // What the standby had is as safe as ever.
    service.post(&kept.0, &kept.1).await.expect_replay_of(&kept_reply);
    // What it had not was never said here, although the booking exists and the caller was told so.
    service.reservation(&missed_reply.id()).await.expect_problem(404, "not-found");
    assert_eq!(service.key_state(&missed.0).await, None);
    case.ledger.new_life(&missed.0);
    let again = service.post(&missed.0, &missed.1).await;
    again.expect_created();
    assert_ne!(again.id(), missed_reply.id());
    assert_eq!(upstream.bookings_of(&missed.1).len(), 2);
}

/// F11: the address leads to a server in recovery for a while, and the sessions made then survive.
async fn sessions_with_a_standby_are_given_up_for_the_primary(case: &Case) {
    let cluster = Cluster::start(Replication::Asynchronous).await;
    let (upstream, services) = started(case, &cluster).await;
    let (key, body) = (case.key(), case.body());
    let first = services[0].post(&key, &body).await;
    first.expect_created();
    cluster.standby_has_everything().await;
    cluster.address_leads_to_the_standby();
    eventually("it reads from the standby", async || {
        let reply = services[0].get("/reservations").await;
        (reply.status == 200).then_some(())
    })
    .await;
    let refused = case.body();
    services[0].post(&case.key(), &refused).await.expect_problem(503, "storage-unavailable");
    assert!(upstream.posts(&refused).is_empty());
    services[0].post(&key, &body).await.expect_replay_of(&first);
    for service in &services {
        together((0..16).map(|_| service.get("/reservations"))).await;
    }

    cluster.address_leads_to_the_primary();
    for service in &services {
        let bodies: Vec<_> = (0..20).map(|_| (case.key(), case.body())).collect();
        for reply in together(bodies.iter().map(|(key, body)| service.post(key, body))).await {
            reply.expect_created();
        }
    }
}
