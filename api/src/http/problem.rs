//! The one form of every error answer: `application/problem+json` (RFC 9457).

mod code;
mod framework;
mod schema;

use poem::{
    Response,
    error::ResponseError,
    http::{HeaderName, HeaderValue, StatusCode, header},
};
use serde::Serialize;

pub use self::{
    code::{Code, Retry},
    framework::from_poem_error,
    schema::{FieldErrorBody, ProblemBody},
};
use super::language::Language;

/// The media type of every problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// One fault in a request: where, and what is wrong there. Never echoes a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// JSON Pointer (RFC 6901) into the body; empty for the body as a whole, a parameter or a header.
    pub pointer: String,
    /// What is wrong, in English.
    pub detail: String,
}

impl FieldError {
    /// A fault at this place.
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: detail.into() }
    }
}

/// An error answer, before its language and the public address of the service are known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .0.code.as_str(), .0.detail)]
pub struct Problem(Box<Parts>);

/// Boxed, so that a `Result` with a problem in it stays small.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    code: Code,
    detail: String,
    errors: Vec<FieldError>,
    mismatch: Vec<String>,
    retry_after_s: Option<u64>,
    instance: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem of this code; `detail` says in English what is special about this occurrence.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            mismatch: Vec::new(),
            retry_after_s: None,
            instance: None,
            headers: Vec::new(),
        }))
    }

    /// `request-invalid` with its faults.
    #[must_use]
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        Self::new(Code::RequestInvalid, "The request does not have the form that the API description asks for.").errors(errors)
    }

    /// The faults of a `request-invalid`.
    #[must_use]
    pub fn errors(mut self, errors: Vec<FieldError>) -> Self {
        self.0.errors = errors;
        self
    }

    /// The JSON Pointers at which a `key-reused` differs from the request that owns the key.
    #[must_use]
    pub fn mismatch(mut self, pointers: Vec<String>) -> Self {
        self.0.mismatch = pointers;
        self
    }

    /// `Retry-After` in whole seconds. Where `retry` is `same_key` and nothing is set it is 1; a `key-reused` never carries it.
    #[must_use]
    pub fn retry_after_s(mut self, seconds: u64) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    /// The resource this occurrence is about, a URI reference.
    #[must_use]
    pub fn instance(mut self, uri: String) -> Self {
        self.0.instance = Some(uri);
        self
    }

    /// A further header such as `Allow`; it replaces one that the problem would carry anyway.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// Which problem it is.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The same with another `detail`, where more can be said.
    #[must_use]
    pub fn detail_is(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = detail.into();
        self
    }

    /// What is special about this occurrence.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The answer. `public_base` is the address of the service as callers see it, empty or without a trailing slash.
    #[must_use]
    pub fn to_response(&self, language: Language, public_base: &str) -> Response {
        let kind = format!("{public_base}/problems/{}", self.0.code.as_str());
        let mut response = Response::builder()
            .status(self.0.code.status())
            .content_type(MEDIA_TYPE)
            .header(header::CACHE_CONTROL, "no-store")
            .header(header::CONTENT_LANGUAGE, language.tag())
            .header(header::VARY, "Accept-Language")
            .body(self.body(&kind, language));
        let headers = response.headers_mut();
        if let Ok(link) = HeaderValue::try_from(format!("<{kind}>; rel=\"describedby\"")) {
            headers.insert(header::LINK, link);
        }
        if self.0.code == Code::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.effective_retry_after_s() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        for (name, value) in &self.0.headers {
            headers.insert(name, value.clone());
        }
        response
    }

    fn effective_retry_after_s(&self) -> Option<u64> {
        match self.0.code.retry() {
            Retry::SameKey => Some(self.0.retry_after_s.unwrap_or(1)),
            Retry::NewKey => None,
            Retry::Corrected | Retry::Never | Retry::Ask => self.0.retry_after_s,
        }
    }

    #[expect(clippy::expect_used, reason = "strings and numbers always have a JSON form")]
    fn body(&self, kind: &str, language: Language) -> Vec<u8> {
        let Parts { code, detail, errors, mismatch, instance, .. } = &*self.0;
        // The contract promises a list; a caller who reads it must never find none.
        let whole = [FieldError::new("", detail)];
        let members = Members {
            r#type: kind,
            title: code.title(language),
            status: code.status().as_u16(),
            detail,
            instance: instance.as_deref(),
            code: code.as_str(),
            retry: code.retry().as_str(),
            errors: match code {
                Code::RequestInvalid if errors.is_empty() => &whole,
                _ => errors,
            },
            // Empty where the body is the same and the path is not.
            mismatch: (*code == Code::KeyReused).then_some(mismatch),
        };
        serde_json::to_vec(&members).expect("a plain struct serializes")
    }
}

/// The members of a problem, in the order that a stored refusal has them, too (`jobs::answer`).
#[derive(Serialize)]
struct Members<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    code: &'a str,
    retry: &'a str,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
    #[serde(skip_serializing_if = "Option::is_none")]
    mismatch: Option<&'a Vec<String>>,
}

impl ResponseError for Problem {
    fn status(&self) -> StatusCode {
        self.0.code.status()
    }

    /// The answer in English with relative links, for where nothing at the root converts it.
    fn as_response(&self) -> Response {
        self.to_response(Language::English, "")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use serde_json::{Value, json};

    async fn body(response: Response) -> Value {
        serde_json::from_str(&response.into_body().into_string().await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn the_answer_carries_every_member_and_header() {
        let problem =
            Problem::new(Code::KeyReused, "d").mismatch(vec!["/note".to_owned()]).instance("/reservations/1".to_owned()).retry_after_s(3);
        let response = problem.to_response(Language::Japanese, "https://example.com/x");
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
        let get = |name: HeaderName| response.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
        assert_eq!(get(header::CONTENT_TYPE).as_deref(), Some(MEDIA_TYPE));
        assert_eq!(get(header::LINK).as_deref(), Some("<https://example.com/x/problems/key-reused>; rel=\"describedby\""));
        assert_eq!(get(header::CACHE_CONTROL).as_deref(), Some("no-store"));
        assert_eq!(get(header::CONTENT_LANGUAGE).as_deref(), Some("ja"));
        assert_eq!(get(header::RETRY_AFTER), None);
        let want = json!({"type": "https://example.com/x/problems/key-reused", "title": Code::KeyReused.title(Language::Japanese), "status": 422,
            "detail": "d", "code": "key-reused", "retry": "new_key", "instance": "/reservations/1", "mismatch": ["/note"]});
        assert_eq!(body(response).await, want);
    }

    #[tokio::test]
    async fn what_a_code_always_carries() {
        for code in Code::ALL {
            let response = poem::Error::from(Problem::new(code, "d")).into_response();
            let has = |name: HeaderName| response.headers().contains_key(name);
            assert_eq!(response.status(), code.status());
            assert_eq!(has(header::RETRY_AFTER), code.retry() == Retry::SameKey, "{code:?}");
            assert_eq!(has(header::WWW_AUTHENTICATE), code == Code::Unauthenticated);
            let body = body(response).await;
            assert_eq!(body["type"], json!(format!("/problems/{}", code.as_str())));
            assert_eq!(body.get("errors").is_some(), code == Code::RequestInvalid, "{code:?}");
        }
    }

    #[test]
    fn a_framework_error_keeps_the_problem_inside() {
        let problem = Problem::invalid(vec![FieldError::new("/note", "d")]).header(header::ALLOW, HeaderValue::from_static("GET"));
        assert_eq!(poem::Error::from(problem.clone()).downcast_ref::<Problem>(), Some(&problem));
    }
}
