//! What the service says about itself: the OpenAPI document, the page, health, metrics, and to browsers of other origins.

use super::support::document::fault;
use super::support::prelude::*;

tests!(both [
    health_and_metrics_tell_how_it_is,
    a_public_address_is_what_answers_name,
    a_sub_path_may_be_stripped_by_the_proxy_or_not,
] sqlite [
    the_document_is_the_same_everywhere,
    the_document_promises_what_generators_need,
    the_page_loads_nothing_from_elsewhere,
    browsers_of_named_origins_may_call,
    a_preflight_passes_the_name_check_like_everything,
    the_examples_are_real_answers,
]);

async fn the_document_is_the_same_everywhere(case: &Case) {
    let (_upstream, service) = case.started().await;
    let served = service.get("/openapi.yaml").await;
    assert_eq!(served.status, 200);
    let printed = case.program("api").arguments(["openapi"]).run().await;
    assert_eq!(printed.expect_success().output.trim(), served.text().trim(), "`api openapi` and /openapi.yaml differ");
    let committed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../openapi.yaml")).unwrap_or_default();
    assert!(committed.trim() == served.text().trim(), "openapi.yaml does not say what the code says: run 'make openapi' and commit it");
}

/// B60, B61, B62, B63, B64, B67
async fn the_document_promises_what_generators_need(case: &Case) {
    let (_upstream, service) = case.started().await;
    let document = service.get("/openapi.json").await.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let operations: Vec<_> = document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values()).collect();
    let mut keyed = 0;
    for operation in &operations {
        let name = operation["operationId"].as_str().expect("an operationId");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let header = parameter["name"].as_str().unwrap_or_default().to_lowercase();
            assert!(!["authorization", "accept", "content-type"].contains(&header.as_str()), "{name}: tools drop the header {header}");
            // Tools fill such a value in, and then everybody sends the same key.
            if header == "idempotency-key" {
                keyed += 1;
                for member in ["example", "examples", "default", "const", "enum"] {
                    assert!(parameter[member].is_null() && parameter["schema"][member].is_null(), "{name}: the key has {member}");
                }
            }
        }
        if operation["security"] != json!([]) {
            for status in ["401", "403"] {
                assert!(operation["responses"][status].is_object(), "{name} does not announce {status}");
            }
        }
        for (status, answer) in operation["responses"].as_object().unwrap() {
            assert!(answer["description"].as_str().is_some_and(|d| !d.is_empty()), "{name} {status} has no description");
            if status.as_str() >= "400" {
                assert!(answer["content"]["application/problem+json"].is_object(), "{name} {status}: no problem document");
            }
        }
    }
    assert_eq!(keyed, 2, "createReservation and changeReservation take a key");
    assert_eq!(document["tags"][0]["name"], "Reservations", "what it is about comes first");
    let cancel = &document["paths"]["/reservations/{id}"]["delete"];
    assert!(cancel["responses"]["422"]["headers"]["Idempotent-Replayed"].is_null(), "nothing is stored of a cancellation");
    let create = &document["paths"]["/reservations"]["post"];
    assert_eq!(create["operationId"], "createReservation");
    for status in ["201", "202", "400", "401", "408", "409", "413", "415", "422", "429", "500", "502", "503"] {
        assert!(create["responses"][status].is_object(), "createReservation does not announce {status}");
    }
    let key = create["parameters"].as_array().unwrap().iter().find(|p| p["name"] == "Idempotency-Key").expect("the key is a parameter");
    assert_eq!((&key["required"], &key["schema"]["type"]), (&json!(true), &json!("string")));
    for header in ["Location", "ETag", "Idempotent-Replayed"] {
        let declared = create["responses"]["201"]["headers"].as_object().unwrap();
        assert!(declared.keys().any(|name| name.eq_ignore_ascii_case(header)), "{header} is not declared");
    }
}

/// B59
async fn the_page_loads_nothing_from_elsewhere(case: &Case) {
    let (_upstream, service) = case.started().await;
    let root = service.get("/").await;
    assert!((301..=308).contains(&root.status) && root.header("location").unwrap().ends_with("/docs"), "{root:?}");
    let mut path = "/docs".to_owned();
    let mut page = service.get(&path).await;
    for _ in 0..3 {
        if let Some(next) = page.header("location") {
            path = next.to_owned();
            page = service.get(&path).await;
        }
    }
    assert_eq!((page.status, page.header("content-type").unwrap().split(';').next()), (200, Some("text/html")));
    let text = page.text();
    // What a browser would load: the src and href of tags, not what scripts mention in passing.
    for tag in text.split('<').filter(|t| ["script ", "link ", "img ", "iframe "].iter().any(|name| t.starts_with(name))) {
        let tag = tag.split('>').next().unwrap_or_default();
        for address in tag.split(['"', '\'']).skip(1).step_by(2) {
            assert!(!address.starts_with("http") && !address.starts_with("//"), "the page loads {address}");
        }
    }
}

async fn health_and_metrics_tell_how_it_is(case: &Case) {
    let (_upstream, service) = case.started().await;
    service.post(&case.key(), &case.body()).await.expect_created();
    for target in ["/health/live", "/health/ready"] {
        assert_eq!(service.get(target).await.status, 200, "{target}");
    }
    eventually("the last success of both jobs is in the metrics", async || {
        let metrics = service.get("/metrics").await;
        assert_eq!(metrics.status, 200);
        let text = metrics.text();
        ["release-stale-leases", "delete-expired-keys"].iter().all(|job| text.contains(job)).then_some(())
    })
    .await;
}

/// B67
async fn browsers_of_named_origins_may_call(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("CORS_ORIGINS", "https://shop.example").start().await;
    let preflight = |origin: &str| {
        let request = service.request("OPTIONS", "/reservations").header("Origin", origin).header("Access-Control-Request-Method", "POST");
        request.header("Access-Control-Request-Headers", "authorization,content-type,idempotency-key,prefer").unwatched()
    };
    let allowed = preflight("https://shop.example").await;
    assert!(matches!(allowed.status, 200 | 204), "{allowed:?}");
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://shop.example"));
    let headers = allowed.header("access-control-allow-headers").unwrap_or_default().to_lowercase();
    assert!(headers.contains("idempotency-key") && headers.contains("if-match"), "{headers}");
    for header in ["x-content-type-options", "referrer-policy", "x-frame-options", "content-security-policy", "cache-control"] {
        assert!(allowed.header(header).is_some(), "an answer without {header}: {:?}", allowed.message.headers);
    }
    assert_eq!(preflight("https://other.example").await.header("access-control-allow-origin"), None);

    let reply = service.post(&case.key(), &case.body()).header("Origin", "https://shop.example").await;
    reply.expect_created();
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://shop.example"));
    let exposed = reply.header("access-control-expose-headers").unwrap_or_default().to_lowercase();
    for header in ["idempotent-replayed", "location", "retry-after", "etag"] {
        assert!(exposed.contains(header), "{header} is not exposed: {exposed}");
    }

    // A cache must not give an answer of one origin to a page of another, whatever the answer is.
    let targets = [
        "/reservations",
        "/reservations/none",
        "/no-such-path",
        "/reservations?unknown=1",
        "/health/live",
        "/openapi.yaml",
        "/problems/internal",
    ];
    for target in targets {
        for origin in [Some("https://shop.example"), Some("https://other.example"), None] {
            let request = service.get(target).unwatched();
            let reply = match origin {
                Some(origin) => request.header("Origin", origin).await,
                None => request.await,
            };
            let vary = reply.header("vary").unwrap_or_default();
            assert!(vary.split(',').any(|name| name.trim().eq_ignore_ascii_case("origin")), "{target} from {origin:?}: {vary:?}");
        }
    }
}

/// B59
async fn a_public_address_is_what_answers_name(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("PUBLIC_URL", "https://shop.example/booking").start().await;
    let (key, body) = (case.key(), case.body());
    let first = service.post(&key, &body).await;
    first.expect_created();
    let location = first.header("location").unwrap();
    assert!(location.ends_with(&format!("/booking/reservations/{}", first.id())), "{location}");
    let problem = service.get("/nowhere").await;
    assert!(problem.json()["type"].as_str().unwrap().contains("/booking/problems/not-found"), "{problem:?}");
    service.post(&key, &body).await.expect_replay_of(&first);
    // The page of the document sends its calls to the same place, be it by name or relative to where it was loaded from.
    let server = service.get("/openapi.json").await.json()["servers"][0]["url"].as_str().unwrap_or_default().to_owned();
    assert!(server.contains("/booking") || (!server.starts_with('/') && !server.contains("://") && !server.is_empty()), "{server}");
}

/// B59
async fn a_sub_path_may_be_stripped_by_the_proxy_or_not(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("PUBLIC_URL", "https://shop.example/booking/").start().await;
    let (key, body) = (case.key(), case.body());
    let first = service.request("POST", "/booking/reservations").key(&key).json(&body).await;
    first.expect_created();
    service.post(&key, &body).await.expect_replay_of(&first);
    assert_eq!(first.header("location"), Some(format!("https://shop.example/booking/reservations/{}", first.id()).as_str()));
    for target in ["/docs", "/docs/", "/docs/swagger-ui.css", "/openapi.json", "/health/live", "/problems/key-reused"] {
        let (stripped, whole) = (service.get(target).await, service.get(&format!("/booking{target}")).await);
        assert_eq!((whole.status, whole.body().len()), (200, stripped.body().len()), "{target}");
    }
    for target in ["/", "/booking", "/booking/"] {
        let root = service.get(target).await;
        assert_eq!((root.status, root.header("location")), (302, Some("https://shop.example/booking/docs")), "{target}");
    }
    service.get("/bookingreservations").await.expect_problem(404, "not-found");
    service.get("/booking/booking/reservations").await.expect_problem(404, "not-found");
    let listed = service.get("/booking/reservations?limit=1").await;
    assert_eq!(listed.json()["items"][0]["id"], first.id().as_str());
}

async fn a_preflight_passes_the_name_check_like_everything(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("CORS_ORIGINS", "https://shop.example").start().await;
    let preflight = |host: &str| {
        let request = service.request("OPTIONS", "/reservations").header("Origin", "https://shop.example").header("Host", host);
        request.header("Access-Control-Request-Method", "POST").unwatched()
    };
    assert_eq!(preflight("localhost").await.status, 204);
    preflight("rebound.example").await.expect_problem(403, "forbidden");
}

/// B61: the examples were recorded; what can be asked for again without waiting still answers the same.
async fn the_examples_are_real_answers(case: &Case) {
    let (_upstream, service) = case.started().await;
    let document = service.get("/openapi.json").await.json();
    let mut unproved = 0;
    for operations in document["paths"].as_object().unwrap().values() {
        for answer in operations.as_object().unwrap().values().flat_map(|operation| operation["responses"].as_object().unwrap().values()) {
            for content in answer["content"].as_object().into_iter().flat_map(|content| content.values()) {
                for (name, _) in content["examples"].as_object().unwrap_or_else(|| panic!("no example: {answer}")) {
                    let example = &document["components"]["examples"][name]["value"];
                    assert_eq!(fault(&document, &content["schema"], example, ""), None, "{name}");
                    unproved += 1;
                }
            }
        }
    }
    assert!(unproved > 50);
    let body = json!({
        "item_code": "ROOM-101", "quantity": 1, "reserved_by": "Hanako Yamada", "note": "by the window",
        "starts_at": "2030-01-02T10:00:00+09:00", "ends_at": "2030-01-02T11:00:00+09:00",
    });
    let first = service.post("a", &body).await;
    let reservation = format!("/reservations/{}", first.id());
    let post = || service.request("POST", "/reservations");
    let patch = || service.request("PATCH", &reservation).key("b").json(&json!({"quantity": 2}));
    for (name, reply) in [
        ("createReservation-201", first.clone()),
        ("getReservation-200", service.get(&reservation).await),
        ("key-missing", post().json(&body).await),
        ("key-malformed", post().raw_key("\"no closing quote").json(&body).await),
        ("request-invalid", post().key("c").body(r#"{"item_code":"ROOM-101","quantity":1.0}"#).await),
        ("key-reused", service.post("a", &changed(&body, json!({"quantity": 2}))).await),
        ("forbidden", service.get("/reservations").header("Host", "example.com").await),
        ("not-found", service.get("/reservations/nothing-here").await),
        ("if-match-missing", patch().await),
        ("version-stale", patch().header("If-Match", "\"an-old-one\"").await),
        ("media-type-unsupported", post().key("c").header("Content-Type", "text/plain").bytes("{}").await),
        ("body-too-large", post().key("c").body("x".repeat(70_000)).await),
    ] {
        let mut pair = [reply.json(), document["components"]["examples"][name]["value"].clone()];
        for (member, value) in pair.iter_mut().flat_map(|answer| answer.as_object_mut().unwrap()) {
            if ["id", "booking_id", "created_at", "updated_at"].contains(&member.as_str()) {
                *value = json!("another each time");
            }
        }
        assert_eq!(pair[0], pair[1], "{name}: record examples.json anew");
    }
}
