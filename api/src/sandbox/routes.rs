//! The sandbox's HTTP interface.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use poem::http::{StatusCode, header};
use poem::web::{Data, Path};
use poem::{Body, Endpoint, EndpointExt, Error, IntoResponse, Request, Response, Result, Route, get, handler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::booking::{Booking, NewBooking, NewValues};
use super::ledger::{Booked, Ledger};
use super::misbehaviour::Behaviour;
use super::{document, page};
use crate::http::guard::{HostGuard, SecurityHeaders};
use crate::listener::ConnectionCutter;

const LIST_LIMIT: usize = 100;
const BODY_LIMIT_BYTES: usize = 64 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// "Never" has an end here, so that a caller without a time-out does not hold its connection for good.
const NEVER: Duration = Duration::from_secs(600);
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

type SharedLedger = Arc<Ledger>;

/// `loopback_only`: no other name is answered, so that no web page reaches it under a name of its own.
pub(super) fn endpoint(ledger: SharedLedger, loopback_only: bool) -> impl Endpoint<Output = Response> + 'static {
    Route::new()
        .at("/", get(overview))
        .at("/bookings", get(list).post(book))
        .at("/bookings/:reference", get(find).patch(change).delete(cancel))
        .at("/openapi.json", get(openapi_json))
        .at("/openapi.yaml", get(openapi_yaml))
        .data(ledger)
        .with_if(loopback_only, HostGuard)
        .catch_all_error(as_json)
        .with(SecurityHeaders)
}

/// Runs a blocking call of the ledger where it may block.
pub(super) async fn on_ledger<T: Send + 'static>(
    ledger: &SharedLedger,
    call: impl FnOnce(&Ledger) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let ledger = Arc::clone(ledger);
    tokio::task::spawn_blocking(move || call(&ledger)).await.map_err(io::Error::other)?
}

#[handler]
async fn book(request: &Request, body: Body, Data(ledger): Data<&SharedLedger>) -> Result<Response> {
    let key = key(request)?;
    let new: NewBooking = read(request, body).await?;
    new.check().map_err(invalid)?;
    let behaviour = Behaviour::of(&new.item_code);
    match behaviour {
        Behaviour::SoldOut => return Ok(answer(StatusCode::CONFLICT, &json!({"error": "sold out"}))),
        Behaviour::Busy => {
            let busy = answer(StatusCode::TOO_MANY_REQUESTS, &json!({"error": "busy, come again"}));
            return Ok(busy.with_header(header::RETRY_AFTER, "2").into_response());
        }
        Behaviour::Slow(wait) => return book_slowly(Arc::clone(ledger), key, new, wait).await,
        Behaviour::Proper | Behaviour::Timeout | Behaviour::Drop | Behaviour::Error | Behaviour::Garbage => {}
    }

    let booked = on_ledger(ledger, move |ledger| ledger.book(&key, new)).await.map_err(storage)?;
    if booked == Booked::ReferenceTaken {
        return Ok(booked_answer(&booked));
    }
    match behaviour {
        Behaviour::Timeout => {
            sleep(NEVER).await;
            cut(request).await
        }
        Behaviour::Drop => cut(request).await,
        Behaviour::Error => Ok(answer(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": "failed on demand"}))),
        Behaviour::Garbage => Ok(Response::builder()
            .status(StatusCode::CREATED)
            .content_type("application/json")
            .body(&b"{\"booking_id\": \xff\xfe <html>"[..])),
        Behaviour::Proper | Behaviour::SoldOut | Behaviour::Busy | Behaviour::Slow(_) => Ok(booked_answer(&booked)),
    }
}

/// Waits and books in a task of its own: a caller that gives up meanwhile does not stop the booking, as it would not
/// elsewhere. Whoever asks again after that is answered at once.
async fn book_slowly(ledger: SharedLedger, key: String, new: NewBooking, wait: Duration) -> Result<Response> {
    let asked = key.clone();
    if let Some(booking) = on_ledger(&ledger, move |ledger| ledger.booked_under(&asked)).await.map_err(storage)? {
        return Ok(booked_answer(&Booked::Before(booking)));
    }
    let slow = tokio::spawn(async move {
        sleep(wait).await;
        on_ledger(&ledger, move |ledger| ledger.book(&key, new)).await
    });
    let booked = slow.await.map_err(io::Error::other).flatten().map_err(storage)?;
    Ok(booked_answer(&booked))
}

#[handler]
async fn find(Path(reference): Path<String>, Data(ledger): Data<&SharedLedger>) -> Result<Response> {
    let found = on_ledger(ledger, move |ledger| ledger.find(&reference)).await.map_err(storage)?;
    Ok(booking_or_404(found.as_ref()))
}

#[handler]
async fn change(request: &Request, Path(reference): Path<String>, body: Body, Data(ledger): Data<&SharedLedger>) -> Result<Response> {
    let key = key(request)?;
    let values: NewValues = read(request, body).await?;
    values.check().map_err(invalid)?;
    let changed = on_ledger(ledger, move |ledger| ledger.change(&key, &reference, values)).await.map_err(storage)?;
    Ok(booking_or_404(changed.as_ref()))
}

#[handler]
async fn cancel(Path(reference): Path<String>, Data(ledger): Data<&SharedLedger>) -> Result<Response> {
    let cancelled = on_ledger(ledger, move |ledger| ledger.cancel(&reference)).await.map_err(storage)?;
    Ok(booking_or_404(cancelled.as_ref()))
}

#[handler]
async fn list(Data(ledger): Data<&SharedLedger>) -> Result<Response> {
    let items = on_ledger(ledger, |ledger| ledger.newest(LIST_LIMIT)).await.map_err(storage)?;
    Ok(answer(StatusCode::OK, &json!({ "items": items })))
}

#[handler]
async fn overview(Data(ledger): Data<&SharedLedger>) -> Result<Response> {
    let entries = on_ledger(ledger, |ledger| ledger.newest(LIST_LIMIT)).await.map_err(storage)?;
    Ok(Response::builder()
        .content_type("text/html; charset=utf-8")
        .header(header::CONTENT_SECURITY_POLICY, PAGE_POLICY)
        .body(page::render(&entries, LIST_LIMIT)))
}

#[handler]
fn openapi_json() -> Response {
    Response::builder().content_type("application/json").body(document::JSON)
}

#[handler]
fn openapi_yaml() -> Result<Response> {
    let yaml = document::yaml().map_err(io::Error::other).map_err(storage)?;
    Ok(Response::builder().content_type("application/yaml").body(yaml))
}

/// The key of the one `Idempotency-Key: "..."` header. Parameters and escapes, which nobody needs here, are refused.
fn key(request: &Request) -> Result<String> {
    let mut lines = request.headers().get_all("idempotency-key").iter();
    let key = match (lines.next().map(|line| line.to_str()), lines.next()) {
        (Some(Ok(line)), None) => line.trim().strip_prefix('"').and_then(|line| line.strip_suffix('"')),
        (Some(_), _) | (None, _) => None,
    };
    key.filter(|key| !key.is_empty() && !key.contains(['"', '\\']))
        .map(str::to_owned)
        .ok_or_else(|| invalid("send one Idempotency-Key header with a quoted key"))
}

/// Insists on the media type: a web page of another origin cannot send it without asking, and nobody here says yes.
async fn read<T: DeserializeOwned>(request: &Request, body: Body) -> Result<T> {
    let media_type = request.content_type().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(Error::from_string("the body is application/json", StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let bytes = timeout(BODY_TIMEOUT, body.into_bytes_limit(BODY_LIMIT_BYTES))
        .await
        .map_err(|_| Error::from_string("the body did not arrive in time", StatusCode::REQUEST_TIMEOUT))?
        .map_err(Error::from)?;
    serde_json::from_slice(&bytes).map_err(|error| Error::from_string(error.to_string(), StatusCode::BAD_REQUEST))
}

async fn cut(request: &Request) -> Result<Response> {
    match request.data::<ConnectionCutter>() {
        Some(connection) => match connection.cut().await {},
        None => Err(Error::from_string("no connection to cut", StatusCode::INTERNAL_SERVER_ERROR)),
    }
}

fn booked_answer(booked: &Booked) -> Response {
    match booked {
        Booked::New(booking) => answer(StatusCode::CREATED, &json!(booking)),
        Booked::Before(booking) => answer(StatusCode::OK, &json!(booking)),
        Booked::ReferenceTaken => answer(StatusCode::CONFLICT, &json!({"error": "this reference was booked under another key"})),
    }
}

fn booking_or_404(booking: Option<&Booking>) -> Response {
    match booking {
        Some(booking) => answer(StatusCode::OK, &json!(booking)),
        None => answer(StatusCode::NOT_FOUND, &json!({"error": "no such booking"})),
    }
}

fn answer(status: StatusCode, body: &Value) -> Response {
    Response::builder().status(status).content_type("application/json").body(body.to_string())
}

fn invalid(why: &'static str) -> Error {
    Error::from_string(why, StatusCode::BAD_REQUEST)
}

fn storage(error: io::Error) -> Error {
    tracing::error!(%error, "the sandbox cannot use its file of bookings");
    Error::from_string("the bookings cannot be read or written", StatusCode::INTERNAL_SERVER_ERROR)
}

async fn as_json(error: Error) -> Response {
    answer(error.status(), &json!({"error": error.to_string()}))
}
