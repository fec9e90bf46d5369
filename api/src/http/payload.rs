//! The body of a keyed request: one strict JSON value, read within limits, validated at once.
//!
//! Nothing is claimed before all of this has passed, so a faulty body never spends a key.

mod canonical;
mod date_time;
mod members;
mod pointer;
mod receive;
mod schema;
mod strict;

use poem::{Request, RequestBody};
use poem_openapi::{
    impl_apirequest_for_payload,
    payload::{ParsePayload, Payload},
    registry::{MetaSchemaRef, Registry},
    types::Type,
};
use serde_json::Value;

pub use self::{
    canonical::{canonical_change, canonical_create, mismatch},
    date_time::DateTime,
    members::{change, check_period, create},
    receive::{BodyLimits, check_media_type, read_limited},
    schema::{ChangeReservation, CreateReservation},
    strict::parse_strict,
};
use super::problem::{FieldError, Problem};

/// A request body that is validated by hand and described by a schema of its own.
pub trait StrictBody: Sized + Send {
    /// What the API description shows.
    type Schema: Type;

    /// The validated content.
    ///
    /// # Errors
    /// Every fault at once.
    fn validate(value: &Value) -> Result<Self, Vec<FieldError>>;
}

impl StrictBody for jobs::request::Details {
    type Schema = CreateReservation;

    fn validate(value: &Value) -> Result<Self, Vec<FieldError>> {
        create(value)
    }
}

impl StrictBody for jobs::request::Change {
    type Schema = ChangeReservation;

    fn validate(value: &Value) -> Result<Self, Vec<FieldError>> {
        change(value)
    }
}

/// A strict JSON payload. The limits are the request's data [`BodyLimits`], or their default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrictJson<T>(pub T);

impl<T: StrictBody> Payload for StrictJson<T> {
    const CONTENT_TYPE: &'static str = "application/json";

    fn check_content_type(content_type: &str) -> bool {
        receive::is_json(content_type)
    }

    fn schema_ref() -> MetaSchemaRef {
        T::Schema::schema_ref()
    }

    fn register(registry: &mut Registry) {
        T::Schema::register(registry);
    }
}

impl<T: StrictBody> ParsePayload for StrictJson<T> {
    const IS_REQUIRED: bool = true;

    async fn from_request(request: &Request, body: &mut RequestBody) -> poem::Result<Self> {
        check_media_type(request.headers())?;
        let limits = request.data::<BodyLimits>().copied().unwrap_or_default();
        let bytes = read_limited(request, body, limits.limit_bytes, limits.timeout).await?;
        let (value, mut faults) = strict::read(&bytes);
        match value.as_ref().map(T::validate) {
            Some(Ok(content)) if faults.is_empty() => return Ok(Self(content)),
            Some(Err(more)) => faults.extend(more),
            Some(Ok(_)) | None => {}
        }
        Err(Problem::invalid(faults).into())
    }
}

impl_apirequest_for_payload!(StrictJson<T>, T: StrictBody);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::http::{language::Language, problem::Code};
    use jobs::request::{Change, Details};
    use poem_openapi::ApiExtractor;

    async fn extract<T: StrictBody>(content_type: Option<&str>, body: &'static str) -> Result<T, poem::Error> {
        let mut builder = Request::builder();
        if let Some(content_type) = content_type {
            builder = builder.header("content-type", content_type);
        }
        let (request, mut body) = builder.body(body).split();
        <StrictJson<T> as ApiExtractor>::from_request(&request, &mut body, Default::default()).await.map(|j| j.0)
    }

    #[tokio::test]
    async fn a_request_becomes_its_content_or_one_problem() {
        let body = r#"{"item_code":"A","quantity":1,"reserved_by":"b"}"#;
        let details = extract::<Details>(Some("application/json; charset=UTF-8"), body).await.unwrap();
        assert_eq!((details.item_code.as_str(), details.quantity), ("A", 1));
        assert_eq!(extract::<Change>(Some("application/json"), r#"{"note":null}"#).await.unwrap().note, Some(None));

        let error = extract::<Details>(Some("application/json"), r#"{"quantity":1.0,"x":1}"#).await.unwrap_err();
        let problem = error.downcast_ref::<Problem>().unwrap();
        assert_eq!(problem.code(), Code::RequestInvalid);
        // What the reading finds and what the validation finds, at once.
        let faulty = r#"{"quantity":0,"note":"\u0000","x":1,"reserved_by":"b","reserved_by":"c"}"#;
        let error = extract::<Details>(Some("application/json"), faulty).await.unwrap_err();
        let told = error.downcast_ref::<Problem>().unwrap().to_response(Language::English, "").into_body().into_string().await.unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        let pointers: Vec<_> = told["errors"].as_array().unwrap().iter().map(|e| e["pointer"].as_str().unwrap()).collect();
        assert_eq!(pointers, ["/note", "/reserved_by", "/x", "/item_code", "/quantity"]);
        for content_type in [None, Some("text/plain"), Some("application/problem+json")] {
            assert_eq!(extract::<Details>(content_type, body).await.unwrap_err().status().as_u16(), 415);
        }
    }

    #[test]
    fn the_schema_repeats_the_limits_of_the_validation() {
        let mut registry = Registry::new();
        <StrictJson<Details> as Payload>::register(&mut registry);
        <StrictJson<Change> as Payload>::register(&mut registry);
        let create = serde_json::to_value(&registry.schemas["CreateReservation"]).unwrap();
        let change = serde_json::to_value(&registry.schemas["ChangeReservation"]).unwrap();
        assert_eq!(create["required"], serde_json::json!(["item_code", "quantity", "reserved_by"]));
        assert_eq!(create["properties"]["item_code"]["maxLength"], members::ITEM_CODE_MAX);
        assert_eq!(create["properties"]["reserved_by"]["maxLength"], members::RESERVED_BY_MAX);
        assert!(change.get("required").is_none());
        for schema in [&create, &change] {
            let properties = &schema["properties"];
            assert_eq!(properties["quantity"]["minimum"].as_f64(), Some(1.0));
            assert_eq!(properties["quantity"]["maximum"].as_f64(), Some(f64::from(i32::MAX)));
            assert_eq!(properties["note"]["maxLength"], members::NOTE_MAX);
            for optional in ["starts_at", "ends_at", "note"] {
                assert_eq!(properties[optional]["nullable"], true, "{optional}");
            }
            assert_eq!(properties["starts_at"]["format"], "date-time");
        }
    }
}
