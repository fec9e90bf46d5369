//! What every answer and every request passes whatever its route: name check, security headers, CORS.
//!
//! Order, outside in: [`SecurityHeaders`], [`Cors`] (both turn errors into answers, so that errors carry the headers too),
//! the conversion of errors into problems, [`HostGuard`], routes.

use std::net::{Ipv4Addr, Ipv6Addr};

use poem::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use poem::http::uri::Authority;
use poem::http::{Method, StatusCode};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

use super::problem::{Code, Problem};

/// Refuses with the problem `forbidden` what may come from another machine: a request that names another host than a loopback
/// one, and a request that a proxy has passed on.
///
/// It protects a server that runs open on loopback, and the sandbox. A web page whose name resolves to 127.0.0.1 reaches the port,
/// but cannot choose the `Host` that its browser sends. A proxy on this machine connects from loopback for callers from anywhere;
/// it is known by the headers that it adds.
#[derive(Debug, Clone, Copy)]
pub struct HostGuard;

impl<E: Endpoint> Middleware<E> for HostGuard {
    type Output = HostGuarded<E>;

    fn transform(&self, inner: E) -> Self::Output {
        HostGuarded { inner }
    }
}

/// The endpoint that [`HostGuard`] makes.
#[derive(Debug)]
pub struct HostGuarded<E> {
    inner: E,
}

impl<E: Endpoint> Endpoint for HostGuarded<E> {
    type Output = E::Output;

    async fn call(&self, request: Request) -> Result<Self::Output> {
        if !names_loopback_only(&request) {
            return Err(
                Problem::new(Code::Forbidden, "Without a token this server answers under a loopback name only, as localhost.").into()
            );
        }
        if let Some(header) = forwarded_by(request.headers()) {
            let detail = format!(
                "The header `{header}` says that a proxy passed this request on. Without a token this server answers its own machine only. \
                 Make a token with `api token create --account NAME`, start the server again, and send `Authorization: Bearer TOKEN`."
            );
            return Err(Problem::new(Code::Forbidden, detail).into());
        }
        self.inner.call(request).await
    }
}

/// A header that only a proxy adds, if there is one.
fn forwarded_by(headers: &HeaderMap) -> Option<&HeaderName> {
    const BY_PROXIES: [&str; 5] = ["forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip"];
    headers.keys().find(|name| BY_PROXIES.contains(&name.as_str()) || name.as_str().starts_with("x-forwarded-"))
}

/// HTTP/1.1 names its host in `Host` and may do so in an absolute target too, HTTP/2 in `:authority`: all that is there must
/// be a loopback name, and something must be there.
fn names_loopback_only(request: &Request) -> bool {
    let target = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let hosts = request.headers().get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let mut names = target.into_iter().chain(hosts).peekable();
    names.peek().is_some() && names.all(is_loopback_name)
}

fn is_loopback_name(name: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(name) else { return false };
    let host = authority.host();
    let port = authority.as_str().strip_prefix(host);
    let port_is_one =
        matches!(port, Some("")) || port.and_then(|port| port.strip_prefix(':')).is_some_and(|port| port.parse::<u16>().is_ok());
    port_is_one
        && (host.eq_ignore_ascii_case("localhost")
            || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
            || host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'))
                .and_then(|host| host.parse::<Ipv6Addr>().ok())
                .is_some_and(|address| address.is_loopback()))
}

/// Sets the headers that keep a browser from guessing, framing, leaking or storing what it got.
/// Never replaces a `Cache-Control` or `Content-Security-Policy` that the answer already has.
#[derive(Debug, Clone, Copy)]
pub struct SecurityHeaders;

impl<E: Endpoint> Middleware<E> for SecurityHeaders {
    type Output = WithSecurityHeaders<E>;

    fn transform(&self, inner: E) -> Self::Output {
        WithSecurityHeaders { inner }
    }
}

/// The endpoint that [`SecurityHeaders`] makes.
#[derive(Debug)]
pub struct WithSecurityHeaders<E> {
    inner: E,
}

impl<E: Endpoint> Endpoint for WithSecurityHeaders<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let mut response = self.inner.get_response(request).await;
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("frame-ancestors 'none'"));
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        Ok(response)
    }
}

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PATCH, DELETE");
const ALLOWED_HEADERS: HeaderValue =
    HeaderValue::from_static("Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Prefer, Accept-Language, traceparent");
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static("Idempotent-Replayed, Location, ETag, Retry-After, Preference-Applied, Link");
const PREFLIGHT_MAX_AGE_SECONDS: HeaderValue = HeaderValue::from_static("600");

/// Lets pages of the listed origins call. Requests of other origins are served without CORS headers, so that their browser
/// withholds the answer; poem's own `Cors` refuses them with 403, sends no `Vary`, and reads an empty list as "any".
#[derive(Debug, Clone)]
pub struct Cors {
    origins: Vec<String>,
}

impl Cors {
    /// Allows exactly these origins (`https://booking.example`), compared byte by byte; none at all where the list is empty.
    pub fn new(origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { origins: origins.into_iter().map(Into::into).collect() }
    }
}

impl<E: Endpoint> Middleware<E> for Cors {
    type Output = WithCors<E>;

    fn transform(&self, inner: E) -> Self::Output {
        WithCors { inner, origins: self.origins.clone() }
    }
}

/// The endpoint that [`Cors`] makes.
#[derive(Debug)]
pub struct WithCors<E> {
    inner: E,
    origins: Vec<String>,
}

impl<E: Endpoint> Endpoint for WithCors<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        if self.origins.is_empty() {
            return Ok(self.inner.get_response(request).await);
        }
        let allowed = allowed_origin(&self.origins, request.headers());
        let preflight = request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let mut response = self.inner.get_response(request).await;
        // Also where the path or the method is unknown: the page shall read the problem. Not where the name is refused.
        if allowed.is_some() && preflight && response.status() != StatusCode::FORBIDDEN {
            response = StatusCode::NO_CONTENT.into_response();
        }
        let headers = response.headers_mut();
        // Also on answers without CORS headers: a cache must not give them to an origin that would get some.
        add_origin_to_vary(headers);
        if let Some(origin) = allowed {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            let granted: &[(HeaderName, HeaderValue)] = if preflight {
                &[
                    (header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS),
                    (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
                    (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE_SECONDS),
                ]
            } else {
                &[(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS)]
            };
            headers.extend(granted.iter().cloned());
        }
        Ok(response)
    }
}

/// One line, because some caches read only the first.
fn add_origin_to_vary(headers: &mut HeaderMap) {
    let names: Vec<&[u8]> = headers.get_all(header::VARY).iter().map(HeaderValue::as_bytes).chain([&b"Origin"[..]]).collect();
    if let Ok(line) = HeaderValue::from_bytes(&names.join(&b", "[..])) {
        headers.insert(header::VARY, line);
    }
}

fn allowed_origin(origins: &[String], headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

#[cfg(test)]
mod tests;
