//! Swagger UI at `/docs`: every asset is ours, every address is relative, so that it works offline and under any sub-path.

use poem::http::header;
use poem::{Endpoint, IntoEndpoint, Response, Route, endpoint::make_sync, get};

use super::document;

const STYLE: (&str, &str) = ("<style charset=\"UTF-8\">", "</style>");
const SCRIPT: (&str, &str) = ("<script charset=\"UTF-8\">", "</script>");
const DAY: &str = "public, max-age=86400";
/// The bundled script needs inline styles and evaluates nothing from elsewhere.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data:; frame-ancestors 'none'";

/// The page under `/docs`, with and without a trailing slash, and its assets.
pub fn endpoint() -> impl IntoEndpoint<Endpoint = impl Endpoint + 'static> {
    // The library has the assets only inside its own page, which embeds an unmended document: taken out of it, that is not used.
    let bundled = document::service().swagger_ui_html();
    let (style, script) = (between(&bundled, STYLE), between(&bundled, SCRIPT));
    Route::new()
        .at("/", get(make_sync(|request| page(if request.original_uri().path().ends_with('/') { ".." } else { "." }))))
        .at("/swagger-ui.css", asset("text/css; charset=utf-8", style))
        .at("/swagger-ui-bundle.js", asset("text/javascript; charset=utf-8", script))
}

fn between(page: &str, (begin, end): (&str, &str)) -> String {
    let inner = page.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
    inner.map(|(inner, _)| inner.to_owned()).unwrap_or_default()
}

fn asset(content_type: &'static str, text: String) -> impl Endpoint<Output = Response> {
    get(make_sync(move |_| Response::builder().content_type(content_type).header(header::CACHE_CONTROL, DAY).body(text.clone())))
}

/// `root`: the way from this page to the service's root.
fn page(root: &str) -> Response {
    let html = include_str!("docs.html").replace("{root}", root);
    Response::builder()
        .content_type("text/html; charset=utf-8")
        .header(header::CACHE_CONTROL, "no-cache")
        .header(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY)
        .body(html)
}
