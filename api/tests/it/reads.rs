//! Reading: one reservation, lists of them, the policy.

use super::support::prelude::*;

tests!(both [
    a_reservation_is_read_with_a_strong_etag,
    a_list_is_read_page_by_page_without_gaps,
    a_page_has_a_strong_etag_too,
    pages_hold_still_while_more_is_reserved,
    ids_that_were_never_given_out_are_not_found,
    a_key_that_needs_escaping_can_be_asked_for,
] sqlite [the_policy_says_what_the_settings_say]);

async fn a_reservation_is_read_with_a_strong_etag(case: &Case) {
    let (_upstream, service) = case.started().await;
    let first = service.post(&case.key(), &case.body()).await;
    let (id, etag) = (first.id(), first.etag());
    let read = service.reservation(&id).raw_key("\"broken").await;
    assert_eq!((read.status, read.json(), read.etag()), (200, first.json(), etag.clone()), "a key is ignored where none is needed");
    for known in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".into()] {
        let reply = service.reservation(&id).header("If-None-Match", &known).await;
        assert_eq!((reply.status, reply.body(), reply.etag()), (304, &b""[..], etag.clone()), "{known}");
    }
    assert_eq!(service.reservation(&id).header("If-None-Match", "\"other\"").await.status, 200);
    let head = service.request("HEAD", &format!("/reservations/{id}")).unwatched().await;
    assert!(head.status == 200 || head.status == 405, "{head:?}");
}

async fn a_list_is_read_page_by_page_without_gaps(case: &Case) {
    let (_upstream, service) = case.started().await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(service.post(&case.key(), &case.body()).await.expect_created()["id"].as_str().unwrap().to_owned());
    }
    service.delete(&ids[3]).await.expect_no_content();
    let cancelled = ids.remove(3);
    let mut listed = Vec::new();
    let mut target = "/reservations?status=confirmed&limit=4".to_owned();
    for _ in 0..5 {
        let page = service.get(&target).await;
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.json();
        listed.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        target = format!("/reservations?status=confirmed&limit=4&cursor={cursor}");
    }
    listed.sort();
    ids.sort();
    assert_eq!(listed, ids);
    let gone = service.get("/reservations?status=cancelled").await.json();
    assert_eq!((gone["items"].as_array().unwrap().len(), gone["items"][0]["id"].as_str()), (1, Some(cancelled.as_str())));
    assert_eq!(service.get("/reservations").await.json()["items"].as_array().unwrap().len(), 7);
    for query in [
        "status=pending",
        "status=",
        "limit=0",
        "limit=x",
        "limit=-1",
        "limit=101",
        "limit=+5",
        "limit=1.0",
        "limit=",
        "cursor=",
        "cursor=%00",
        "surplus=1",
        "limit=1&limit=2",
    ] {
        service.get(&format!("/reservations?{query}")).await.expect_problem(400, "request-invalid");
    }
}

async fn a_page_has_a_strong_etag_too(case: &Case) {
    let (_upstream, service) = case.started().await;
    service.post(&case.key(), &case.body()).await.expect_created();
    let page = service.get("/reservations").await;
    let etag = page.etag();
    assert!(etag.starts_with('"'), "{etag}");
    for known in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".into()] {
        let reply = service.get("/reservations").header("If-None-Match", &known).await;
        assert_eq!((reply.status, reply.body(), reply.etag()), (304, &b""[..], etag.clone()), "{known}");
    }
    service.post(&case.key(), &case.body()).await.expect_created();
    let page = service.get("/reservations").header("If-None-Match", &etag).await;
    assert_eq!((page.status, page.etag() == etag), (200, false), "{page:?}");
}

async fn pages_hold_still_while_more_is_reserved(case: &Case) {
    let (_upstream, service) = case.started().await;
    let mut before = Vec::new();
    for _ in 0..9 {
        before.push(service.post(&case.key(), &case.body()).await.id());
    }
    let (mut listed, mut target) = (Vec::new(), "/reservations?limit=2".to_owned());
    loop {
        let page = service.get(&target).await.json();
        listed.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        target = format!("/reservations?limit=2&cursor={cursor}");
        for reply in together((0..3).map(|_| service.post(&case.key(), &case.body()))).await {
            reply.expect_created();
        }
    }
    before.reverse();
    assert_eq!(listed, before, "newest first, none twice, none left out, none that came later");
}

async fn ids_that_were_never_given_out_are_not_found(case: &Case) {
    let (upstream, service) = case.started().await;
    let unknown = uuid::Uuid::now_v7().to_string();
    for id in [unknown.as_str(), "no-id", "0", "%00", "%F0%9F%98%80"] {
        service.reservation(id).await.expect_problem(404, "not-found");
        service.delete(id).await.expect_problem(404, "not-found");
        service.patch(id, &case.key(), "\"1\"", &json!({"quantity": 2})).await.expect_problem(404, "not-found");
    }
    assert_eq!(upstream.everything(), 0);
    assert_eq!(service.key_record(&case.key()).await, None);
}

async fn a_key_that_needs_escaping_can_be_asked_for(case: &Case) {
    let (_upstream, service) = case.started().await;
    let first = service.post("a/b \"c\"%", &case.body()).await;
    first.expect_created();
    let record = service.get("/idempotency-keys/a%2Fb%20%22c%22%25?operation=createReservation").await;
    assert_eq!(record.status, 200, "{record:?}");
    assert_eq!((record.json()["key"].as_str(), record.json()["reservation_id"].as_str()), (Some("a/b \"c\"%"), Some(first.id().as_str())));
    let other = service.get("/idempotency-keys/a%2Fb%20%22c%22%25?operation=changeReservation").await;
    other.expect_problem(404, "not-found");
    service.get("/idempotency-keys/a?operation=somethingElse").await.expect_problem(400, "request-invalid");
    service.get("/idempotency-keys/a?operation=cancelReservation").await.expect_problem(400, "request-invalid");
    // What can be no key was never seen.
    for key in ["%E4%BA%88", "%ff", "%zz", "%00", "%20a", "a%0d%0ab"] {
        service.get(&format!("/idempotency-keys/{key}")).await.expect_problem(404, "not-found");
    }
    service.reservation(&first.id().replace('-', "%2d")).await.expect_same_reservation(&first);
    for other in [first.id().to_uppercase(), format!("{}/", first.id()), format!("{{{}}}", first.id()), first.id().replace('-', "")] {
        service.reservation(&other).await.expect_problem(404, "not-found");
    }
}

async fn the_policy_says_what_the_settings_say(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("LEASE", "17s").set("KEY_RETENTION", "41h").set("KEY_SYNTAX", "strict").start().await;
    let policy = service.get("/idempotency-policy").await;
    assert_eq!(policy.status, 200, "{policy:?}");
    let text = policy.text();
    assert!(text.contains("17") && text.contains("strict") && (text.contains("41") || text.contains("147600")), "{text}");
}
