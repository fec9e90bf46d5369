//! An outcome that stays unknown while the caller keeps asking: across the lapse of a lease and a restart, until the booking system answers.

use super::support::prelude::*;
use std::collections::BTreeSet;

tests!(both [
    retried_until_it_is_true_where_it_only_deduplicates,
    retried_until_it_is_true_where_it_only_looks_up,
]);

/// B32: (a) no answer, (b) 500, (c) 504, (d) half an answer. The booking is made each time, and for a while every further call meets the
/// same fault.
const FAULTS: [Step; 4] = [Silence, Status(500), Status(504), Half];

async fn retried_until_it_is_true_where_it_only_deduplicates(case: &Case) {
    retried_until_it_is_true(case, &case.upstream_that(true, false).await).await;
}

async fn retried_until_it_is_true_where_it_only_looks_up(case: &Case) {
    let upstream = case.upstream_that(false, true).await;
    upstream.on_lookup([vec![Status(503)]]);
    retried_until_it_is_true(case, &upstream).await;
}

async fn retried_until_it_is_true(case: &Case, upstream: &Upstream) {
    let service = case.api(upstream).set("LEASE", "1s").set("ANSWER_WITHIN", "1s").start().await;
    let staged: Vec<_> = FAULTS.into_iter().map(|fault| (fault, case.key(), case.body())).collect();
    for (fault, key, body) in &staged {
        upstream.on_post(body, [vec![Book, fault.clone()]]);
        let first = service.post(key, body).await;
        first.expect_problem(503, "outcome-pending");
        assert!(first.retry_after() >= 1, "{fault:?}: {first:?}");
    }
    for round in 0..5 {
        if round == 2 {
            service.kill_9();
            service.start_again().await;
        }
        for (fault, key, body) in &staged {
            let reply = service.post(key, body).await;
            assert!(matches!(reply.status, 409 | 503) && reply.retry_after() >= 1, "{fault:?}: {reply:?}");
        }
        // Together much longer than the lease: a round meets what the sweep has made of the key.
        pass(700).await;
    }
    for (fault, key, _) in &staged {
        // From here nothing is sent just because somebody asks.
        eventually("the sweep says that nobody knows", async || (service.key_state(key).await? == "outcome_unknown").then_some(())).await;
        assert!(!upstream.bookings().is_empty(), "{fault:?}");
    }
    upstream.on_lookup([vec![Answer]]);
    for (_, _, body) in &staged {
        upstream.on_post(body, [vec![Answer]]);
    }
    for (fault, key, body) in &staged {
        let reply = service.settle(key, body).await;
        let booking = upstream.is_booked(body).await;
        assert_eq!((reply.status, reply.id()), (201, booking.reference.clone()), "{fault:?}: {reply:?}");
        assert_eq!(reply.json()["booking_id"], booking.booking_id.as_str(), "{fault:?}");
        assert_eq!(upstream.bookings_of(body).len(), 1, "{fault:?}");
        let posts = upstream.posts(body);
        let keys: BTreeSet<_> = posts.iter().map(|post| post.head.header("idempotency-key").map(str::to_owned)).collect();
        assert_eq!(keys, BTreeSet::from([Some(format!("\"{}\"", booking.reference))]), "{fault:?}");
        assert!(upstream.deduplicates() || posts.len() == 1, "{fault:?} was sent twice to a system that does not deduplicate");
    }
    case.expect_no_orphans(upstream, &service).await;
}
