//! The guards around a bare route.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use poem::{EndpointExt, Route, get, handler};

use super::*;

#[handler]
fn page() -> &'static str {
    "page"
}

#[handler]
fn cached() -> Response {
    Response::builder().header(header::CACHE_CONTROL, "max-age=60").header(header::VARY, "Accept-Language").body("cached")
}

fn request(method: Method, uri: &str, headers: &[(&str, &str)]) -> Request {
    headers.iter().fold(Request::builder().method(method).uri_str(uri), |builder, (name, value)| builder.header(*name, *value)).finish()
}

async fn status_for(uri: &str, headers: &[(&str, &str)]) -> StatusCode {
    get(page).with(HostGuard).get_response(request(Method::GET, uri, headers)).await.status()
}

#[tokio::test]
async fn only_loopback_names_pass() {
    for host in ["localhost", "LocalHost:8000", "127.0.0.1", "127.9.8.7:1", "[::1]", "[::1]:8000"] {
        assert_eq!(status_for("/", &[("host", host)]).await, StatusCode::OK, "{host}");
    }
    let refused = [
        "evil.example",
        "localhost.evil.example",
        "a.localhost",
        "localhost.",
        "evil@localhost",
        "localhost:x",
        "localhost:",
        "127.0.0.1.evil.example",
        "128.0.0.1",
        "0.0.0.0",
        "2130706433",
        "[::]",
        "[::ffff:127.0.0.1]",
        "::1",
        "",
        "localhost, evil.example",
    ];
    for host in refused {
        assert_eq!(status_for("/", &[("host", host)]).await, StatusCode::FORBIDDEN, "{host}");
    }
}

#[tokio::test]
async fn every_name_of_a_request_counts() {
    assert_eq!(status_for("/", &[]).await, StatusCode::FORBIDDEN);
    assert_eq!(status_for("http://localhost:8000/", &[]).await, StatusCode::OK);
    assert_eq!(status_for("http://evil.example/", &[("host", "localhost")]).await, StatusCode::FORBIDDEN);
    assert_eq!(status_for("http://localhost/", &[("host", "evil.example")]).await, StatusCode::FORBIDDEN);
    assert_eq!(status_for("/", &[("host", "localhost"), ("host", "evil.example")]).await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn what_a_proxy_passed_on_did_not_start_here() {
    for name in [
        "Forwarded",
        "Via",
        "X-Real-IP",
        "CF-Connecting-IP",
        "True-Client-IP",
        "X-Forwarded-For",
        "x-forwarded-proto",
        "X-Forwarded-Anything",
    ] {
        let endpoint = get(page).with(HostGuard);
        let error = endpoint.call(request(Method::GET, "/", &[("host", "localhost"), (name, "")])).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.status(), StatusCode::FORBIDDEN, "{name}");
        assert!(text.contains("api token create"), "{text}");
    }
    assert_eq!(status_for("/", &[("host", "localhost"), ("x-forwarder", "a")]).await, StatusCode::OK);
}

fn site(origins: &[&str]) -> impl Endpoint<Output = Response> {
    Route::new()
        .at("/page", get(page))
        .at("/cached", get(cached))
        .with(SecurityHeaders)
        .with(Cors::new(origins.iter().map(ToString::to_string)))
}

#[tokio::test]
async fn security_headers_are_on_every_answer_and_replace_no_caching() {
    for path in ["/page", "/nowhere"] {
        let response = site(&[]).get_response(request(Method::GET, path, &[])).await;
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(response.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(response.header("x-frame-options"), Some("DENY"));
        assert_eq!(response.header("content-security-policy"), Some("frame-ancestors 'none'"));
        assert_eq!(response.header("cache-control"), Some("no-store"));
    }
    let response = site(&[]).get_response(request(Method::GET, "/cached", &[])).await;
    assert_eq!(response.header("cache-control"), Some("max-age=60"));
}

#[tokio::test]
async fn listed_origins_may_call_and_read() {
    let site = site(&["https://a.example", "https://b.example"]);
    let origin = ("origin", "https://b.example");
    for (path, status) in [("/cached", StatusCode::OK), ("/nowhere", StatusCode::NOT_FOUND)] {
        let response = site.get_response(request(Method::GET, path, &[origin])).await;
        assert_eq!(response.status(), status);
        assert_eq!(response.header("access-control-allow-origin"), Some("https://b.example"));
        assert_eq!(
            response.header("access-control-expose-headers"),
            Some("Idempotent-Replayed, Location, ETag, Retry-After, Preference-Applied, Link")
        );
        let vary: Vec<_> = response.headers().get_all("vary").iter().collect();
        assert_eq!(vary, [if path == "/cached" { "Accept-Language, Origin" } else { "Origin" }]);
    }
    let preflight = site.get_response(request(Method::OPTIONS, "/page", &[origin, ("access-control-request-method", "POST")])).await;
    assert_eq!(preflight.status(), StatusCode::NO_CONTENT);
    assert_eq!(preflight.header("access-control-allow-methods"), Some("GET, POST, PATCH, DELETE"));
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("Idempotency-Key, If-Match"));
    assert_eq!(preflight.header("access-control-max-age"), Some("600"));
    assert_eq!(preflight.header("vary"), Some("Origin"));
}

#[tokio::test]
async fn other_origins_are_served_without_cors_headers() {
    for origins in [&["https://a.example"][..], &[]] {
        for origin in ["https://evil.example", "https://a.example.evil", "https://A.example", "null"] {
            let response = site(origins).get_response(request(Method::GET, "/page", &[("origin", origin)])).await;
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.header("access-control-allow-origin"), None);
            assert_eq!(response.header("vary"), (!origins.is_empty()).then_some("Origin"));
            let preflight = [("origin", origin), ("access-control-request-method", "POST")];
            let response = site(origins).get_response(request(Method::OPTIONS, "/page", &preflight)).await;
            assert_eq!(response.header("access-control-allow-origin"), None);
            assert_eq!(response.header("access-control-allow-methods"), None);
        }
    }
}
