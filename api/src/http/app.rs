//! All routes and what every request passes, outside in: CORS, security headers, the root, the name check, routes.

use std::sync::Arc;

use poem::endpoint::make_sync;
use poem::http::{Method, StatusCode, header};
use poem::web::Query;
use poem::{Endpoint, EndpointExt, Request, Response, Route, get, handler};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::docs;
use super::document;
use super::guard::{Cors, HostGuard, SecurityHeaders};
use super::health::{self, Stopping};
use super::language::Language;
use super::payload::BodyLimits;
use super::problem::{Code, Problem};
use super::problem_page as page;
use super::root::{KnownPath, Root};
use crate::service::Service;

/// What the routes need besides the service.
#[derive(Debug, Clone)]
pub struct AppSettings {
    /// Whether the server runs without tokens.
    pub open: bool,
    /// Limits of a body.
    pub body: BodyLimits,
    /// `CORS_ORIGINS`.
    pub cors_origins: Vec<String>,
    /// `PUBLIC_URL` without its trailing slash.
    pub public_base: String,
    /// Cancelled once the process has been told to stop.
    pub stopping: CancellationToken,
}

/// Paths that are not operations of the document.
const PAGES: [&str; 8] = ["/", "/docs", "/openapi.yaml", "/openapi.json", "/problems/{code}", "/health/live", "/health/ready", "/metrics"];

/// The whole service as one endpoint.
pub fn app(service: Arc<Service>, settings: AppSettings) -> impl Endpoint<Output = Response> + 'static {
    let routes = Route::new()
        .nest("/docs", docs::endpoint())
        .at("/openapi.yaml", get(document_endpoint("application/yaml", document::yaml())))
        .at("/openapi.json", get(document_endpoint("application/json", document::document().to_string())))
        .at("/problems/:code", get(problem_page))
        .at("/health/live", get(health::live))
        .at("/health/ready", get(health::ready))
        .at("/metrics", get(health::metrics))
        // The operations are nested at the root and would take it for themselves.
        .nest_no_strip("/", document::service().around(root_to_docs));
    let sub_path = settings.public_base.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| rest[at..].to_owned()));
    let inner = routes.data(Arc::clone(&service)).data(settings.body).data(Stopping(settings.stopping)).with_if(settings.open, HostGuard);
    Root { inner, service, paths: known_paths(), public_base: settings.public_base, sub_path: sub_path.unwrap_or_default() }
        .with(SecurityHeaders)
        .with(Cors::new(settings.cors_origins))
        .map_to_response()
}

fn known_paths() -> Vec<KnownPath> {
    let document = document::document();
    let operations = document["paths"].as_object().into_iter().flatten().map(|(path, operations)| {
        KnownPath::new(path, operations.as_object().into_iter().flatten().map(|(method, _)| method.to_ascii_uppercase()))
    });
    operations.chain(PAGES.iter().map(|page| KnownPath::new(page, ["GET"]))).collect()
}

/// `GET /` leads to the docs; relative, so that it holds under any sub-path.
async fn root_to_docs<E: Endpoint<Output = Response>>(operations: E, request: Request) -> poem::Result<Response> {
    if request.uri().path() == "/" && matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(Response::builder().status(StatusCode::FOUND).header(header::LOCATION, "./docs").finish());
    }
    operations.call(request).await
}

fn document_endpoint(content_type: &'static str, text: String) -> impl Endpoint<Output = Response> {
    make_sync(move |_| Response::builder().content_type(content_type).header(header::CACHE_CONTROL, "no-cache").body(text.clone()))
}

#[derive(Deserialize)]
struct PageQuery {
    lang: Option<String>,
}

#[handler]
fn problem_page(request: &Request, code: poem::web::Path<String>, query: Query<PageQuery>) -> Result<Response, Problem> {
    let code: Code = code.0.parse().map_err(|_| Problem::new(Code::NotFound, "There is no such problem."))?;
    let language = query.0.lang.as_deref().and_then(Language::from_tag).unwrap_or_else(|| Language::of(request.headers()));
    let page = page::page(code, language);
    Ok(Response::builder()
        .content_type("text/html; charset=utf-8")
        .header(header::CONTENT_LANGUAGE, language.tag())
        .header(header::VARY, "Accept-Language")
        .header(header::CACHE_CONTROL, "no-cache")
        .body(page))
}
