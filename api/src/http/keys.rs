//! What callers may know of keys: the state of their own, and the server's policy.

use entity::idempotency_key::State;
use entity::key_scope::{KeyDigest, Operation};
use entity::lifecycle;
use entity::timestamp::Timestamp;
use jobs::boot_clock::millis;
use poem::web::Json;
use poem::{IntoResponse, Request, Response};
use poem_openapi::param::Path;
use poem_openapi::{OpenApi, Tags};
use serde_json::json;

use super::auth::Caller;
use super::documented::{self, Answers, Header};
use super::key_header::{self, KeySyntax};
use super::parameter::QueryParameter;
use super::problem::{Code, Problem};
use super::query::{QueryParameters, invalid};
use super::reservations::READ_PROBLEMS;
use super::schema::{IdempotencyKeyBody, IdempotencyPolicyBody, OperationBody};
use crate::fingerprint;
use crate::service::Service;

/// The operations on keys.
pub struct KeysApi;

#[derive(Tags)]
enum Tag {
    /// What the server knows of a key, and how it treats keys.
    Idempotency,
}

/// Documents `getIdempotencyKey`.
pub struct GetKey;
/// Documents `getIdempotencyPolicy`.
pub struct GetPolicy;

impl Answers for GetKey {
    type Body = IdempotencyKeyBody;
    const SUCCESSES: &'static [(u16, &'static str, bool, &'static [Header])] = &[(200, "The caller's own key.", true, &[])];
    const PROBLEMS: &'static [(u16, &'static str)] = READ_PROBLEMS;
}

impl Answers for GetPolicy {
    type Body = IdempotencyPolicyBody;
    const SUCCESSES: &'static [(u16, &'static str, bool, &'static [Header])] = &[(200, "The policy.", true, &[])];
    const PROBLEMS: &'static [(u16, &'static str)] =
        &[(400, "`request-invalid`"), (403, "`forbidden`"), (429, "`too-many-requests`"), (500, "`internal`")];
}

#[OpenApi(tag = "Tag::Idempotency")]
impl KeysApi {
    /// Read the state of a key
    ///
    /// Changes nothing: to learn the answer, send the request again under its key.
    #[oai(path = "/idempotency-keys/:key", method = "get", operation_id = "getIdempotencyKey")]
    async fn get(
        &self,
        request: &Request,
        caller: Caller,
        /// The key, decoded and without quotes.
        key: Path<String>,
        /// What the key is for; `createReservation` if absent.
        #[oai(name = "operation")]
        _operation: QueryParameter<OperationBody>,
    ) -> documented::Result<GetKey> {
        get(request, &caller, &key.0).await.map(documented::Success::new).map_err(Into::into)
    }

    /// Read how this server treats keys
    ///
    /// Which keys it takes, what they are valid for, how long answers are kept, and how two requests are compared. Needs no token.
    #[oai(path = "/idempotency-policy", method = "get", operation_id = "getIdempotencyPolicy")]
    async fn policy(&self, request: &Request) -> documented::Result<GetPolicy> {
        policy(request).map(documented::Success::new).map_err(Into::into)
    }
}

async fn get(request: &Request, caller: &Caller, key: &str) -> Result<Response, Problem> {
    let query = QueryParameters::read(request, &["operation"])?;
    let service = Service::of(request)?;
    let operation = match query.get("operation") {
        None => Operation::Create,
        // A cancellation has no key of the caller's.
        Some(name) => Operation::from_name(name)
            .filter(|o| *o != Operation::Cancel)
            .ok_or_else(|| invalid("operation", "must be `createReservation` or `changeReservation`"))?,
    };
    let not_found = || Problem::new(Code::NotFound, "This key was never used for this operation, or has expired.");
    let key = key_header::from_path(key).map_err(|()| not_found())?;
    let (db, digest) = (service.db.clone(), KeyDigest::of(caller.account(), operation, key.as_str()));
    let record = service.storage(async move { lifecycle::find(&db, &digest).await }).await?;
    let record = record.filter(|r| !r.is_expired()).ok_or_else(not_found)?;
    let (completed_at_ms, expires_at_ms) = match record.state {
        State::Completed { completed_at_ms, expires_at_ms, .. } => (Some(completed_at_ms), Some(expires_at_ms)),
        State::Released { expires_at_ms, .. } => (None, expires_at_ms),
        State::InProgress { .. } | State::OutcomeUnknown { .. } => (None, None),
    };
    let body = json!({
        "key": key.as_str(),
        "operation": operation.as_str(),
        "state": record.key_state().as_str(),
        "attempt": record.attempt,
        "reservation_id": record.reservation_id,
        "lease_remaining_ms": record.lease_left_ms(),
        "created_at": Timestamp::from_millis(record.created_at_ms),
        "completed_at": completed_at_ms.map(Timestamp::from_millis),
        "expires_at": expires_at_ms.map(Timestamp::from_millis),
    });
    Ok(Json(body).into_response())
}

fn policy(request: &Request) -> Result<Response, Problem> {
    QueryParameters::read(request, &[])?;
    let service = Service::of(request)?;
    let settings = service.settler.settings();
    let body = json!({
        "header": "Idempotency-Key",
        "key_syntax": match service.key_syntax { KeySyntax::Lenient => "lenient", KeySyntax::Strict => "strict" },
        "key_max_length": 255,
        "scope": ["account", "method", "route"],
        "retention_ms": millis(settings.retention),
        "lease_ms": millis(settings.lease),
        "stored": ["status", "Content-Type", "Location", "ETag", "body"],
        "fingerprint": {
            "version": fingerprint::CURRENT,
            "algorithm": "SHA-256",
            "canonical_form": "RFC 8785",
            "members": ["version", "method", "route", "path_parameters", "body"],
        },
    });
    Ok(Json(body).into_response())
}
