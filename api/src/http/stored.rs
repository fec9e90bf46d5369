//! How an answer leaves: first answer and replay go through the same function, from the same stored bytes.

use entity::idempotency_key::Answer;
use poem::http::{HeaderName, HeaderValue, StatusCode, header};
use poem::{IntoResponse, Response};

/// Marks an answer that was stored before this request came.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// RFC 7240, section 3.
pub const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// An answer on its way out.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Status, the four stored headers, and the body.
    pub answer: Answer,
    /// Whether another request than this one's own attempt finalized it.
    pub replayed: bool,
    /// `Preference-Applied`.
    pub preference_applied: Option<String>,
    /// `Retry-After` in seconds: a 202 says when to ask again.
    pub retry_after_s: Option<u64>,
}

impl Outgoing {
    /// The answer as it is.
    #[must_use]
    pub const fn plain(answer: Answer) -> Self {
        Self { answer, replayed: false, preference_applied: None, retry_after_s: None }
    }

    /// The answer, marked as a replay.
    #[must_use]
    pub const fn replay(answer: Answer) -> Self {
        Self { answer, replayed: true, preference_applied: None, retry_after_s: None }
    }
}

impl IntoResponse for Outgoing {
    fn into_response(self) -> Response {
        let Answer { status, content_type, location, etag, body } = self.answer;
        // On a stored problem the link repeats its `type`, as on every other one.
        let link = (content_type.as_deref() == Some(jobs::answer::PROBLEM_JSON)).then(|| problem_type(&body)).flatten();
        let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap_or(StatusCode::OK)).body(body);
        let headers = response.headers_mut();
        let mut set = |name: HeaderName, value: Option<String>| {
            // All of them are our own ASCII text; the stored ones were headers before.
            if let Some(value) = value.and_then(|v| HeaderValue::try_from(v).ok()) {
                headers.insert(name, value);
            }
        };
        set(header::LINK, link.map(|kind| format!("<{kind}>; rel=\"describedby\"")));
        set(header::CONTENT_TYPE, content_type);
        set(header::LOCATION, location);
        set(header::ETAG, etag);
        set(PREFERENCE_APPLIED, self.preference_applied);
        set(header::RETRY_AFTER, self.retry_after_s.map(|s| s.to_string()));
        set(IDEMPOTENT_REPLAYED, self.replayed.then(|| "true".to_owned()));
        response
    }
}

fn problem_type(body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Type {
        r#type: String,
    }
    serde_json::from_slice::<Type>(body).ok().map(|problem| problem.r#type)
}
