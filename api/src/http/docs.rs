//! Swagger UI at `/docs`: every asset is ours, every address is relative, so that it works offline and under any sub-path.

use poem::http::header;
use poem::{Endpoint, IntoEndpoint, Response, Route, endpoint::make_sync};

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
        .at("/", make_sync(|request| page(if request.original_uri().path().ends_with('/') { ".." } else { "." })))
        .at("/swagger-ui.css", asset("text/css; charset=utf-8", style))
        .at("/swagger-ui-bundle.js", asset("text/javascript; charset=utf-8", script))
}

fn between(page: &str, (begin, end): (&str, &str)) -> String {
    let inner = page.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
    inner.map(|(inner, _)| inner.to_owned()).unwrap_or_default()
}

fn asset(content_type: &'static str, text: String) -> impl Endpoint<Output = Response> {
    make_sync(move |_| Response::builder().content_type(content_type).header(header::CACHE_CONTROL, DAY).body(text.clone()))
}

/// `root`: the way from this page to the service's root.
fn page(root: &str) -> Response {
    let html = format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reservation API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{root}/docs/swagger-ui.css">
<style>
body {{ margin: 0; }}
.try {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 1460px; margin: 0 auto; padding: 1rem 20px 0; box-sizing: border-box; color: #3b4151; }}
.try code {{ background: #eee; padding: 0 .25em; }}
</style>
</head>
<body>
<section class="try">
<strong>Try it:</strong> open <em>POST /reservations</em>, press <em>Try it out</em> (a key is made for you), then <em>Execute</em>.
Execute again: the same bytes, marked <code>idempotent-replayed: true</code>. Change the quantity: 422. Use item code
<code>SLOW-5</code> and execute in two tabs: 409.
</section>
<div id="ui"></div>
<script src="{root}/docs/swagger-ui-bundle.js"></script>
<script>
const newKey = () => '"' + (crypto.randomUUID ? crypto.randomUUID() : Date.now() + '-' + Math.random().toString(36).slice(2)) + '"';
fetch('{root}/openapi.json').then((answer) => answer.json()).then((spec) => {{
  spec.servers = [{{ url: new URL('{root}/', location.href).href.replace(/\/$/, '') }}];
  for (const path of Object.values(spec.paths)) {{
    for (const operation of Object.values(path)) {{
      for (const parameter of operation.parameters || []) {{
        if (parameter.name === 'Idempotency-Key') parameter.schema.example = newKey();
      }}
    }}
  }}
  SwaggerUIBundle({{ dom_id: '#ui', spec, deepLinking: true, persistAuthorization: true, displayRequestDuration: true }});
}});
</script>
</body>
</html>
"#
    );
    Response::builder()
        .content_type("text/html; charset=utf-8")
        .header(header::CACHE_CONTROL, "no-cache")
        .header(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY)
        .body(html)
}
