//! A change or a cancellation that is refused: what the booking shows decides whether it took effect.

use super::support::prelude::*;

tests!(both [
    a_refusal_that_answers_a_copy_of_a_change_is_no_refusal,
    a_plain_refusal_of_a_change_stands_whatever_the_booking_shows,
    a_change_that_took_effect_is_never_stored_as_refused,
    what_a_look_up_does_not_show_decides_nothing,
    an_unreadable_look_up_after_a_refused_change_settles_nothing,
]);

async fn reserved(case: &Case, service: &Service) -> Reply {
    let period = json!({"note": "window", "starts_at": "2031-05-06T10:00:00.25Z", "ends_at": "2031-05-06T12:00:00Z"});
    let first = service.post(&case.key(), &changed(&case.body(), period)).await;
    first.expect_created();
    first
}

async fn impatient(case: &Case, upstream: &Upstream) -> Service {
    let setup = case.api(upstream).set("BOOKING_TIMEOUT", "500ms").set("BOOKING_CONNECT_TIMEOUT", "200ms");
    setup.set("ABSENT_AFTER", "500ms").set("ANSWER_WITHIN", "5s").start().await
}

/// F03
async fn a_refusal_that_answers_a_copy_of_a_change_is_no_refusal(case: &Case) {
    let (upstream, service) = case.started().await;
    let first = reserved(case, &service).await;
    upstream.on_change([vec![Book, Status(409)]]);
    let key = case.key();
    let done = service.patch(&first.id(), &key, "*", &json!({"quantity": 7})).await;
    assert_eq!((done.status, &done.json()["quantity"]), (200, &json!(7)), "{done:?}");
    service.patch(&first.id(), &key, "*", &json!({"quantity": 7})).await.expect_replay_of(&done);
    service.delete(&first.id()).await.expect_no_content();
    assert_eq!((upstream.requests("PATCH").len(), upstream.requests("DELETE").len()), (1, 1));
    assert_eq!(service.reservation(&first.id()).await.json()["status"], "cancelled");
}

/// Nothing else was sent that it could hide.
async fn a_plain_refusal_of_a_change_stands_whatever_the_booking_shows(case: &Case) {
    let (upstream, service) = case.started().await;
    let first = reserved(case, &service).await;
    upstream.on_change([vec![Status(409)]]);
    for shows in [vec![Answer], vec![Showing(json!({}))], vec![Showing(json!({"quantity": 5}))]] {
        upstream.on_lookup([shows]);
        let key = case.key();
        let refused = service.patch(&first.id(), &key, "*", &json!({"quantity": 7})).await;
        refused.expect_problem(422, "booking-rejected");
        service.patch(&first.id(), &key, "*", &json!({"quantity": 7})).await.expect_replay_of(&refused);
    }
    service.delete(&first.id()).await.expect_problem(422, "booking-rejected");
    assert_eq!(service.reservation(&first.id()).await.json(), first.json());
}

/// F10: applied, its answer lost, and every re-send refused.
async fn a_change_that_took_effect_is_never_stored_as_refused(case: &Case) {
    let upstream = case.upstream().await;
    let service = impatient(case, &upstream).await;
    let change = json!({"starts_at": "2031-05-06T11:00:00.75Z"});
    // As it is, in another offset, cut to the second, rounded to it, without the members that stay, with one that was stored otherwise.
    for shows in [
        Answer,
        Showing(json!({"starts_at": "2031-05-06T20:00:00.750+09:00"})),
        Showing(json!({"starts_at": "2031-05-06T11:00:00Z", "ends_at": "2031-05-06T12:00:00Z"})),
        Showing(json!({"starts_at": "2031-05-06T11:00:01Z", "note": "WINDOW"})),
    ] {
        let first = reserved(case, &service).await;
        upstream.on_change([vec![Book, Close], vec![Status(409)]]);
        upstream.on_lookup([vec![shows.clone()]]);
        let key = case.key();
        let done = service.patch(&first.id(), &key, "*", &change).until_final().await;
        assert_eq!((done.status, &done.json()["starts_at"]), (200, &json!("2031-05-06T11:00:00.750Z")), "{shows:?}: {done:?}");
    }
    // Not applied, and that can be seen.
    let first = reserved(case, &service).await;
    upstream.on_change([vec![Close], vec![Status(409)]]);
    upstream.on_lookup([vec![Showing(json!({"starts_at": "2031-05-06T10:00:00Z"}))]]);
    service.patch(&first.id(), &case.key(), "*", &change).until_final().await.expect_problem(422, "booking-rejected");
}

/// F10: nobody can tell, until an operator does.
async fn what_a_look_up_does_not_show_decides_nothing(case: &Case) {
    let upstream = case.upstream().await;
    let service = impatient(case, &upstream).await;
    let first = reserved(case, &service).await;
    for shows in [json!({}), json!({"note": "window"}), json!({"quantity": 5}), json!({"quantity": "7"})] {
        upstream.on_change([vec![Book, Close], vec![Status(409)]]);
        upstream.on_lookup([vec![Showing(shows.clone())]]);
        let (key, change) = (case.key(), json!({"quantity": 7}));
        let sent_before = upstream.requests("PATCH").len();
        service.patch(&first.id(), &key, "*", &change).await.expect_problem(503, "outcome-pending");
        eventually("nobody can tell", async || {
            let reply = service.patch(&first.id(), &key, "*", &change).await;
            assert!(!reply.is_final(), "{shows}: {reply:?}");
            (reply.code().as_deref() == Some("outcome-unknown")).then_some(())
        })
        .await;
        assert!(upstream.requests("PATCH").len() > sent_before + 1, "it was sent again");
        let which = the_unknown_one(case, &upstream).await;
        let resolve = ["keys", "resolve", &which, "--booking-id", "BK-1", "--reason", "seen there"];
        eventually("the operator decides", async || (case.jobs(&upstream).arguments(resolve).run().await.status == Some(0)).then_some(()))
            .await;
        let done = service.patch(&first.id(), &key, "*", &change).await;
        assert_eq!((done.status, &done.json()["quantity"]), (200, &json!(7)), "{shows}: {done:?}");
        upstream.on_change([vec![Answer]]);
        upstream.on_lookup([vec![Answer]]);
        let back = service.patch(&first.id(), &case.key(), "*", &json!({"quantity": 1})).await;
        assert_eq!(back.status, 200, "{back:?}");
    }
}

/// Its reference, as the operator's list shows it. There is one such key at a time.
async fn the_unknown_one(case: &Case, upstream: &Upstream) -> String {
    let list = case.jobs(upstream).arguments(["keys", "list", "--state", "outcome_unknown"]).run().await.output;
    let line = list.lines().last().unwrap_or_else(|| panic!("an empty list"));
    line.split_whitespace().next().unwrap_or_else(|| panic!("{list}")).to_owned()
}

async fn an_unreadable_look_up_after_a_refused_change_settles_nothing(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("ANSWER_WITHIN", "1s").set("BOOKING_TIMEOUT", "1s").set("ABSENT_AFTER", "1s").start().await;
    for applied in [true, false] {
        let first = reserved(case, &service).await;
        upstream.on_change([if applied { vec![Book, Status(409)] } else { vec![Status(409)] }, vec![Status(409)]]);
        upstream.on_lookup([vec![Page(200)]]);
        let (key, change) = (case.key(), json!({"quantity": 7}));
        service.patch(&first.id(), &key, "*", &change).await.expect_problem(503, "outcome-pending");
        upstream.on_lookup([vec![Answer]]);
        let done = service.patch(&first.id(), &key, "*", &change).until_final().await;
        assert_eq!(done.status, if applied { 200 } else { 422 }, "{done:?}");
        let now = service.reservation(&first.id()).await;
        assert_eq!(now.json()["quantity"], if applied { json!(7) } else { first.json()["quantity"].clone() });
    }
}
