//! `GET /reservations/{id}` and `GET /reservations`.

use entity::reservation::{self, Status};
use jobs::answer::{self, Representation};
use poem::http::{StatusCode, header};
use poem::{Request, Response};
use sha2::{Digest, Sha256};

use super::{Found, unreadable};
use crate::http::auth::Caller;
use crate::http::entity_tag::Condition;
use crate::http::problem::Problem;
use crate::http::query::{QueryParameters, invalid};
use crate::service::Service;

/// `limit` if it is absent, and the largest.
const PAGE: (u64, u64) = (20, 100);

pub(super) async fn get(request: &Request, caller: &Caller, id: &str) -> Result<Response, Problem> {
    QueryParameters::read(request, &[])?;
    let service = Service::of(request)?;
    let Representation { body, etag } = match Found::find(&service, &caller.0, id).await? {
        Found::Permanent(reservation) => answer::represent(&reservation),
        Found::Unsettled(record) => answer::represent_unsettled(&record).map_err(|e| unreadable(&e))?,
    };
    Ok(unless_known(request, body, &etag))
}

/// 200 with the body, or 304 where the caller has these bytes already.
fn unless_known(request: &Request, body: Vec<u8>, etag: &str) -> Response {
    let response = Response::builder().header(header::ETAG, etag).header(header::CACHE_CONTROL, "private, no-cache");
    // One that cannot be read is ignored, as if it were not there (RFC 9110, section 13.1.2).
    let known = Condition::of(request.headers(), &header::IF_NONE_MATCH).ok().flatten().is_some_and(|c| c.matches_weak(etag));
    if known { response.status(StatusCode::NOT_MODIFIED).finish() } else { response.content_type(answer::JSON).body(body) }
}

pub(super) async fn list(request: &Request, caller: &Caller) -> Result<Response, Problem> {
    let query = QueryParameters::read(request, &["status", "limit", "cursor"])?;
    let service = Service::of(request)?;
    let status = query
        .get("status")
        .map(|s| Status::from_name(s).ok_or_else(|| invalid("status", "must be `confirmed` or `cancelled`")))
        .transpose()?;
    let limit = match query.get("limit") {
        None => PAGE.0,
        Some(text) if text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().ok().filter(|n| (1..=PAGE.1).contains(n)).ok_or_else(bad_limit)?
        }
        Some(_) => return Err(bad_limit()),
    };
    let before = query.get("cursor").map(str::to_owned);
    if before.as_deref().is_some_and(|id| !uuid::Uuid::parse_str(id).is_ok_and(|uuid| uuid.to_string() == id)) {
        return Err(invalid("cursor", "is not the `next_cursor` of a page"));
    }
    let (db, account) = (service.db.clone(), caller.account().to_owned());
    // One more than asked for tells whether there is a next page.
    let found = service.storage(async move { reservation::list(&db, &account, status, before.as_deref(), limit + 1).await }).await?;
    let page = &found[..found.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
    let next_cursor = if found.len() > page.len() { page.last().map(|r| r.id.as_str()) } else { None };
    let body = answer::page(page, next_cursor);
    let etag = format!("\"{}\"", hex::encode(&Sha256::digest(&body)[..16]));
    Ok(unless_known(request, body, &etag))
}

fn bad_limit() -> Problem {
    invalid("limit", "must be an integer from 1 to 100")
}
