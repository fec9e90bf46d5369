//! The operator's tool: what nobody can tell, a person decides.

use super::support::prelude::*;

tests!(both [
    a_person_says_that_it_was_booked,
    a_person_says_that_it_was_not_booked,
    only_what_is_unknown_can_be_decided,
    a_list_can_be_narrowed_and_a_dry_run_changes_nothing,
    of_two_operators_who_disagree_one_decides_and_it_is_written_down,
]);

async fn unknown(case: &Case) -> (Upstream, Service, String, Value) {
    let upstream = case.upstream_that(false, false).await;
    let service = case.api(&upstream).set("LEASE", "1s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Book, Status(500)], vec![Answer]]);
    service.post(&key, &body).await.expect_problem(503, "outcome-pending");
    eventually("the outcome is unknown", async || (service.key_state(&key).await? == "outcome_unknown").then_some(())).await;
    (upstream, service, key, body)
}

async fn a_person_says_that_it_was_booked(case: &Case) {
    let (upstream, service, key, body) = unknown(case).await;
    let booking = upstream.bookings().remove(0);
    let keys = |arguments: Vec<&str>| case.jobs(&upstream).arguments(arguments).run();
    let list = keys(vec!["keys", "list"]).await;
    assert!(list.expect_success().output.contains(&booking.reference), "{}", list.output);
    assert!(keys(vec!["keys", "show", &booking.reference]).await.expect_success().output.contains("outcome_unknown"));
    // What no booking system would answer is a slip of the hand, and could not be taken back.
    for slip in ["", "  ", "a\nb", "\x1b[31m", &"9".repeat(256)] {
        let refused = keys(vec!["keys", "resolve", &booking.reference, "--booking-id", slip, "--reason", "asked them"]).await;
        assert!(refused.expect_refusal().complaint.contains("--booking-id"), "{refused:?}");
    }
    keys(vec!["keys", "resolve", &booking.reference, "--booking-id", &booking.booking_id, "--reason", "asked them"]).await.expect_success();
    assert_eq!(case.database.rows_with("asked them").await, 1, "one line of audit");
    assert!(keys(vec!["keys", "show", &booking.reference]).await.expect_success().output.contains("asked them"));
    // What was refused was not done, and is no use of a right.
    let again = ["keys", "resolve", &booking.reference, "--booking-id", "BK-other", "--reason", "asked others"];
    keys(again.to_vec()).await.expect_refusal();
    assert_eq!(case.database.rows_with("asked others").await, 0);
    let reply = service.post(&key, &body).await;
    assert_eq!((reply.status, reply.is_replay(), reply.id()), (201, true, booking.reference.clone()), "{reply:?}");
    assert_eq!(reply.json()["booking_id"], booking.booking_id.as_str());
    case.expect_no_orphans(&upstream, &service).await;
    assert_eq!(upstream.posts(&body).len(), 1);
}

async fn a_person_says_that_it_was_not_booked(case: &Case) {
    let upstream = case.upstream_that(false, false).await;
    let service = case.api(&upstream).set("LEASE", "1s").start().await;
    let (key, body) = (case.key(), case.body());
    upstream.on_post(&body, [vec![Status(500)], vec![Answer]]);
    service.post(&key, &body).await.expect_problem(503, "outcome-pending");
    eventually("the outcome is unknown", async || (service.key_state(&key).await? == "outcome_unknown").then_some(())).await;
    let reference = upstream.posts(&body)[0].body["reference"].as_str().unwrap().to_owned();
    case.jobs(&upstream).arguments(["keys", "release", &reference, "--reason", "asked them"]).run().await.expect_success();
    assert_eq!(service.key_state(&key).await.as_deref(), Some("released"));
    let reply = service.settle(&key, &body).await;
    assert_eq!((reply.status, reply.id(), upstream.posts(&body).len()), (201, reference, 2));
}

async fn only_what_is_unknown_can_be_decided(case: &Case) {
    let (upstream, service) = case.started().await;
    let first = service.post(&case.key(), &case.body()).await;
    for arguments in [
        ["keys", "release", &first.id(), "--reason", "r"].as_slice(),
        &["keys", "resolve", &first.id(), "--booking-id", "BK-1", "--reason", "r"],
        &["keys", "show", "no-such-key"],
    ] {
        case.jobs(&upstream).arguments(arguments.iter().copied()).run().await.expect_refusal();
    }
    assert_eq!(service.reservation(&first.id()).await.json(), first.json());
}

async fn a_list_can_be_narrowed_and_a_dry_run_changes_nothing(case: &Case) {
    let (upstream, service, key, _) = unknown(case).await;
    let booking = upstream.bookings().remove(0);
    let completed = service.post(&case.key(), &case.body()).await;
    completed.expect_created();
    let keys = async |arguments: &[&str]| {
        let ended = case.jobs(&upstream).arguments(["keys"].iter().chain(arguments).copied()).run().await;
        ended.expect_success();
        ended.output
    };
    for (arguments, shows_unknown, shows_completed) in [
        (&["list"][..], true, true),
        (&["list", "--state", "outcome_unknown"], true, false),
        (&["list", "--state", "completed"], false, true),
        (&["list", "--account", "local"], true, true),
        (&["list", "--account", "nobody"], false, false),
        (&["list", "--older-than", "1ms"], true, true),
        (&["list", "--older-than", "1h"], false, false),
    ] {
        let list = keys(arguments).await;
        let shown = (list.contains(&booking.reference), list.contains(&completed.id()));
        assert_eq!(shown, (shows_unknown, shows_completed), "{arguments:?}: {list}");
    }
    let before = keys(&["show", &booking.reference]).await;
    keys(&["resolve", &booking.reference, "--booking-id", &booking.booking_id, "--reason", "r", "--dry-run"]).await;
    keys(&["release", &booking.reference, "--reason", "r", "--dry-run"]).await;
    assert_eq!(keys(&["show", &booking.reference]).await, before);
    assert_eq!(service.key_state(&key).await.as_deref(), Some("outcome_unknown"));
}

async fn of_two_operators_who_disagree_one_decides_and_it_is_written_down(case: &Case) {
    let (upstream, service, key, _) = unknown(case).await;
    let booking = upstream.bookings().remove(0);
    let resolve = ["keys", "resolve", &booking.reference, "--booking-id", &booking.booking_id, "--reason", "said-by-one"];
    let release = ["keys", "release", &booking.reference, "--reason", "said-by-two"];
    let both = [case.jobs(&upstream).arguments(resolve), case.jobs(&upstream).arguments(release)];
    let ended = together(both.map(|setup| Box::pin(setup.run()))).await;
    let decided: Vec<_> = ended.iter().map(|ended| ended.status == Some(0)).collect();
    assert!(decided == [true, false] || decided == [false, true], "{ended:?}");
    let state = if decided[0] { "completed" } else { "released" };
    assert_eq!(service.key_state(&key).await.as_deref(), Some(state));
    let shown = case.jobs(&upstream).arguments(["keys", "show", &booking.reference]).run().await.output;
    assert_eq!((shown.contains("said-by-one"), shown.contains("said-by-two")), (decided[0], decided[1]), "{shown}");
}
