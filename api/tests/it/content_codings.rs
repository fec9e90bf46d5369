//! Compressed answers of the booking system, or of a gateway before it: asked for, or not (RFC 9110, section 8.4).

use std::io::{Read, repeat};
use std::sync::Arc;

use super::support::coding::pack;
use super::support::prelude::*;

tests!(both [
    a_coded_answer_is_read_whatever_it_answers,
    a_coding_that_nobody_knows_is_named_and_settles_once_it_is_gone,
    answers_that_unpack_to_gigabytes_cost_no_memory,
]);

/// `Deflate` stands for the bare stream, which some send under that name.
const CODINGS: [&str; 7] = ["gzip", "x-gzip", "deflate", "Deflate", "br", "zstd", "gzip, br"];

/// F01
async fn a_coded_answer_is_read_whatever_it_answers(case: &Case) {
    let (upstream, service) = case.started().await;
    for coding in CODINGS {
        let (key, body) = (case.key(), case.body());
        upstream.on_post(&body, [vec![Coded(coding)]]);
        upstream.on_change([vec![Coded(coding)]]);
        let first = service.post(&key, &body).await;
        first.expect_created();
        let changed = service.patch(&first.id(), &case.key(), "*", &json!({"quantity": 2})).await;
        assert_eq!(changed.status, 200, "{coding}: {changed:?}");
        service.delete(&first.id()).await.expect_no_content();
        // The look-up's, too: of a booking that is there, and of one that is not.
        let (found, absent) = (case.body(), case.body());
        upstream.on_lookup([vec![Coded(coding)]]);
        upstream.on_post(&found, [vec![Book, Close]]);
        upstream.on_post(&absent, [vec![Close], vec![Answer]]);
        service.post(&case.key(), &found).await.expect_created();
        service.post(&case.key(), &absent).await.expect_created();
        assert_eq!((upstream.posts(&body).len(), upstream.posts(&found).len(), upstream.posts(&absent).len()), (1, 1, 2), "{coding}");
    }
    for method in ["POST", "GET", "PATCH", "DELETE"] {
        let asked = upstream.requests(method).iter().all(|r| r.head.header("accept-encoding") == Some("gzip, deflate, br, zstd"));
        assert!(asked, "{method}");
    }
}

/// F01
async fn a_coding_that_nobody_knows_is_named_and_settles_once_it_is_gone(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("ANSWER_WITHIN", "1s").set("BOOKING_TIMEOUT", "1s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Coded("compress-x")]]);
    upstream.on_lookup([vec![Coded("compress-y")]]);
    service.post(&key, &body).await.expect_problem(503, "outcome-pending");
    let reference = upstream.bookings_of(&body)[0].reference.clone();
    for coding in ["compress-x", "compress-y"] {
        assert!(service.log().contains(coding), "{}", service.log());
        eventually("the journal names the coding", async || {
            let shown = case.jobs(&upstream).arguments(["keys", "show", &reference]).run().await.output;
            shown.contains(coding).then_some(())
        })
        .await;
    }
    upstream.on_lookup([vec![Answer]]);
    let settled = service.settle(&key, &body).await;
    assert_eq!((settled.status, settled.id(), upstream.bookings_of(&body).len()), (201, reference, 1));
}

/// F01
async fn answers_that_unpack_to_gigabytes_cost_no_memory(case: &Case) {
    let (upstream, service) = case.started().await;
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let packed = Arc::new(pack(coding, &mut repeat(b' ').take(64 << 20)));
        let staged: Vec<_> = (0..16).map(|_| (case.key(), case.body())).collect();
        for (_, body) in &staged {
            upstream.on_post(body, [vec![Packed(coding, Arc::clone(&packed))], vec![Answer]]);
        }
        upstream.on_lookup([vec![Packed(coding, packed)], vec![Answer]]);
        let replies = together(staged.iter().map(|(key, body)| Box::pin(service.settle(key, body)))).await;
        for ((_, body), reply) in staged.iter().zip(replies) {
            assert_eq!((reply.status, upstream.bookings_of(body).len()), (201, 1), "{coding}: {reply:?}");
        }
    }
    if let Some(peak) = service.peak_memory_kib() {
        assert!(peak < 400 * 1024, "{peak} KiB");
    }
}
