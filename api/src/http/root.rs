//! The root of all routes: strips the public sub-path, turns every error and panic into a problem, and counts what is answered.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use poem::http::uri::{PathAndQuery, Uri};
use poem::http::{HeaderValue, Method, StatusCode, header};
use poem::{Endpoint, IntoResponse, Request, Response, Result};

use super::language::Language;
use super::leftover::Leftover;
use super::problem::{Code, Problem, from_poem_error};
use super::stored::IDEMPOTENT_REPLAYED;
use crate::service::Service;

/// A path of ours, and the methods it has.
#[derive(Debug, Clone)]
pub struct KnownPath {
    /// Segments; `None` stands for any.
    pub segments: Vec<Option<String>>,
    /// For `Allow`.
    pub methods: Vec<String>,
}

/// The endpoint at the root.
pub struct Root<E> {
    /// The routes.
    pub inner: E,
    /// Where requests are counted.
    pub service: Arc<Service>,
    /// Every path of ours.
    pub paths: Vec<KnownPath>,
    /// `PUBLIC_URL` without its trailing slash.
    pub public_base: String,
    /// Path of `PUBLIC_URL`: a proxy may or may not strip it.
    pub sub_path: String,
}

impl<E: Endpoint> Endpoint for Root<E> {
    type Output = Response;

    async fn call(&self, mut request: Request) -> Result<Response> {
        self.strip_sub_path(&mut request);
        let language = Language::of(request.headers());
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let leftover = Leftover::of(&mut request);
        let response = match caught(&method, self.inner.call(request)).await {
            Ok(response) => response.into_response(),
            Err(error) if error.is_from_response() => error.into_response(),
            Err(error) => self.problem(from_poem_error(&error), &method, &path, language),
        };
        if let Some(leftover) = leftover {
            leftover.discard();
        }
        let replayed = response.headers().contains_key(IDEMPOTENT_REPLAYED);
        self.service.metrics.answered(known_method(&method), response.status().as_u16(), replayed);
        Ok(response)
    }
}

/// A panic is an error like any other; what it said is for the log alone.
async fn caught<T>(method: &Method, handling: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(handling).catch_unwind().await.unwrap_or_else(|_panic| {
        tracing::error!(%method, "a handler panicked");
        Err(Problem::new(Code::Internal, "The service failed while it handled this request.").into())
    })
}

impl<E> Root<E> {
    fn strip_sub_path(&self, request: &mut Request) {
        let stripped = |uri: &Uri| {
            let path_and_query = uri.path_and_query()?.as_str();
            let rest = path_and_query.strip_prefix(&self.sub_path)?;
            let rest = if rest.is_empty() { "/" } else { rest };
            let mut parts = uri.clone().into_parts();
            parts.path_and_query = Some(PathAndQuery::try_from(rest).ok().filter(|_| rest.starts_with(['/', '?']))?);
            Uri::from_parts(parts).ok()
        };
        if !self.sub_path.is_empty()
            && let Some(uri) = stripped(request.uri())
        {
            *request.uri_mut() = uri;
        }
    }

    fn problem(&self, problem: Problem, method: &Method, path: &str, language: Language) -> Response {
        let allow = || {
            let mut methods: Vec<String> = self.paths.iter().filter(|known| known.matches(path)).flat_map(|k| k.methods.clone()).collect();
            methods.sort_unstable();
            HeaderValue::try_from(methods.join(", ")).ok()
        };
        match (problem.code(), allow()) {
            (Code::MethodNotAllowed, Some(allow)) if method == Method::OPTIONS => {
                Response::builder().status(StatusCode::NO_CONTENT).header(header::ALLOW, allow).finish()
            }
            (Code::MethodNotAllowed, Some(allow)) => problem.header(header::ALLOW, allow).to_response(language, &self.public_base),
            _ => problem.to_response(language, &self.public_base),
        }
    }
}

impl KnownPath {
    /// From a template such as `/reservations/{id}`.
    #[must_use]
    pub fn new(template: &str, methods: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let segments = template.split('/').skip(1).map(|s| if s.starts_with('{') { None } else { Some(s.to_owned()) }).collect();
        let mut methods: Vec<String> = methods.into_iter().map(Into::into).collect();
        if methods.iter().any(|m| m == "GET") {
            methods.push("HEAD".into());
        }
        methods.push("OPTIONS".into());
        Self { segments, methods }
    }

    fn matches(&self, path: &str) -> bool {
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        segments.len() == self.segments.len()
            && self.segments.iter().zip(segments).all(|(known, s)| known.as_deref().is_none_or(|k| k == s))
    }
}

/// Any other method is one label: callers can make names up.
fn known_method(method: &Method) -> &str {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PATCH" | "DELETE" | "PUT" | "OPTIONS") => known,
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_a_problem_that_says_nothing_of_it() {
        let handling = async { if true { panic!("on purpose, at a secret place") } else { Ok(()) } };
        let error = caught(&Method::POST, handling).await.unwrap_err();
        let problem = from_poem_error(&error);
        assert_eq!(problem.code(), Code::Internal);
        let response = problem.to_response(Language::English, "");
        assert_eq!((response.status().as_u16(), response.content_type()), (500, Some("application/problem+json")));
        assert!(!response.into_body().into_string().await.unwrap().contains("secret"));
        assert!(matches!(caught(&Method::POST, async { Ok(1) }).await, Ok(1)));
    }
}
