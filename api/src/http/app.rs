//! All routes and what every request passes, outside in: security headers, CORS, the root, the name check, routes.

use std::sync::Arc;

use poem::endpoint::make_sync;
use poem::error::MethodNotAllowedError;
use poem::http::{Method, StatusCode, header};
use poem::web::Query;
use poem::{Endpoint, EndpointExt, Request, Response, Route, get, handler};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::docs;
use super::document;
use super::guard::{Cors, HostGuard, SecurityHeaders};
use super::health::{self, Stopping};
use super::in_flight::InFlight;
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

/// Operations under way at once; with the largest body of the default each, half a gigabyte.
const MAX_IN_FLIGHT: usize = 8192;

/// Paths that are not operations of the document.
const PAGES: [&str; 11] = [
    "/",
    "/docs",
    "/docs/",
    "/docs/swagger-ui.css",
    "/docs/swagger-ui-bundle.js",
    "/openapi.yaml",
    "/openapi.json",
    "/problems/{code}",
    "/health/live",
    "/health/ready",
    "/metrics",
];

/// The whole service as one endpoint.
pub fn app(service: Arc<Service>, settings: AppSettings) -> impl Endpoint<Output = Response> + 'static {
    // Under a public base the address is whole: `./docs` would leave a sub-path that was asked for without its last slash.
    let docs = if settings.public_base.is_empty() { "./docs".to_owned() } else { format!("{}/docs", settings.public_base) };
    let routes = Route::new()
        .nest("/docs", docs::endpoint())
        .at("/openapi.yaml", get(document_endpoint("application/yaml", document::yaml())))
        .at("/openapi.json", get(document_endpoint("application/json", document::document().to_string())))
        .at("/problems/:code", get(problem_page))
        .at("/health/live", get(health::live))
        .at("/health/ready", get(health::ready))
        .at("/metrics", get(health::metrics))
        // The operations are nested at the root and would take it for themselves.
        .nest_no_strip(
            "/",
            document::service()
                .with(InFlight(MAX_IN_FLIGHT))
                .around(move |operations, request| root_to_docs(operations, request, docs.clone())),
        );
    let sub_path = settings.public_base.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| rest[at..].to_owned()));
    let inner = routes.data(Arc::clone(&service)).data(settings.body).data(Stopping(settings.stopping)).with_if(settings.open, HostGuard);
    Root { inner, service, paths: known_paths(), public_base: settings.public_base, sub_path: sub_path.unwrap_or_default() }
        .with(Cors::new(settings.cors_origins))
        .with(SecurityHeaders)
        .map_to_response()
}

fn known_paths() -> Vec<KnownPath> {
    let document = document::document();
    let operations = document["paths"].as_object().into_iter().flatten().map(|(path, operations)| {
        KnownPath::new(path, operations.as_object().into_iter().flatten().map(|(method, _)| method.to_ascii_uppercase()))
    });
    operations.chain(PAGES.iter().map(|page| KnownPath::new(page, ["GET"]))).collect()
}

/// `GET /` leads to the docs.
async fn root_to_docs<E: Endpoint<Output = Response>>(operations: E, request: Request, docs: String) -> poem::Result<Response> {
    match (request.uri().path(), request.method()) {
        ("/", &Method::GET | &Method::HEAD) => Ok(Response::builder().status(StatusCode::FOUND).header(header::LOCATION, docs).finish()),
        ("/", _) => Err(MethodNotAllowedError.into()),
        _ => operations.call(request).await,
    }
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
