//! What the OpenAPI document says of each operation's answers: every status once, one success schema, one problem schema.

use std::marker::PhantomData;

use poem::{IntoResponse, Response};
use poem_openapi::ApiResponse;
use poem_openapi::registry::{MetaHeader, MetaMediaType, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::types::Type;

use super::problem::{MEDIA_TYPE, Problem, ProblemBody};

/// The answers of an operation.
pub trait Answers: Send + Sync + 'static {
    /// Body of a success, if it has one.
    type Body: Type;

    /// Statuses of success, whether each has the body, and the headers it carries.
    const SUCCESSES: &'static [(u16, &'static str, bool, &'static [Header])];

    /// Whether it takes a key: answers are stored and replayed, and `Prefer` means something.
    const TAKES_KEY: bool = false;

    /// Statuses of problems with their codes.
    const PROBLEMS: &'static [(u16, &'static str)];
}

/// A response header as the document shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// Address of the reservation.
    Location,
    /// Version of the reservation.
    ETag,
    /// Mark of a replay.
    IdempotentReplayed,
    /// When to come again.
    RetryAfter,
    /// Which preference was applied.
    PreferenceApplied,
    /// The page that explains a problem.
    Link,
    /// How to authenticate.
    WwwAuthenticate,
}

impl Header {
    fn meta(self) -> MetaHeader {
        let (name, kind, description) = match self {
            Self::Location => ("Location", "string", "Address of the reservation."),
            Self::ETag => {
                ("ETag", "string", "Strong entity tag of what is shown, for If-None-Match; that of a reservation also for If-Match.")
            }
            Self::IdempotentReplayed => (
                "Idempotent-Replayed",
                "string",
                "`true` on an answer that was stored before this request came; absent on the first answer.",
            ),
            Self::RetryAfter => ("Retry-After", "integer", "Seconds after which to send the same request again."),
            Self::PreferenceApplied => ("Preference-Applied", "string", "`wait=N` or `respond-async`, where it was applied (RFC 7240)."),
            Self::Link => ("Link", "string", "`<.../problems/{code}>; rel=\"describedby\"`: a page that explains the problem."),
            Self::WwwAuthenticate => ("WWW-Authenticate", "string", "`Bearer`."),
        };
        MetaHeader {
            name: name.to_owned(),
            description: Some(description.to_owned()),
            required: false,
            deprecated: false,
            schema: MetaSchemaRef::Inline(Box::new(MetaSchema::new(kind))),
        }
    }
}

/// A success of operation `A`.
pub struct Success<A>(Response, PhantomData<A>);

/// A problem of operation `A`.
pub struct Refused<A>(Problem, PhantomData<A>);

/// What a handler of operation `A` returns.
pub type Result<A> = std::result::Result<Success<A>, Refused<A>>;

impl<A: Answers> Success<A> {
    /// This answer.
    pub fn new(answer: impl IntoResponse) -> Self {
        Self(answer.into_response(), PhantomData)
    }
}

impl<A: Answers> IntoResponse for Success<A> {
    fn into_response(self) -> Response {
        self.0
    }
}

impl<A: Answers> ApiResponse for Success<A> {
    fn meta() -> MetaResponses {
        let response = |(status, description, has_body, headers): &(u16, &'static str, bool, &'static [Header])| MetaResponse {
            description,
            status: Some(*status),
            status_range: None,
            content: if *has_body {
                vec![MetaMediaType { content_type: jobs::answer::JSON, schema: A::Body::schema_ref() }]
            } else {
                vec![]
            },
            headers: headers.iter().map(|h| h.meta()).collect(),
        };
        MetaResponses { responses: A::SUCCESSES.iter().map(response).collect() }
    }

    fn register(registry: &mut Registry) {
        A::Body::register(registry);
    }
}

impl<A> From<Problem> for Refused<A> {
    fn from(problem: Problem) -> Self {
        Self(problem, PhantomData)
    }
}

impl<A> From<Refused<A>> for poem::Error {
    fn from(refused: Refused<A>) -> Self {
        refused.0.into()
    }
}

impl<A: Answers> ApiResponse for Refused<A> {
    fn meta() -> MetaResponses {
        let response = |(status, codes): &(u16, &'static str)| {
            let mut headers = vec![Header::Link.meta()];
            if matches!(status, 408 | 409 | 429 | 500 | 502 | 503) {
                headers.push(Header::RetryAfter.meta());
            }
            if *status == 401 {
                headers.push(Header::WwwAuthenticate.meta());
            }
            if A::TAKES_KEY && *status == 422 {
                headers.push(Header::IdempotentReplayed.meta());
            }
            if A::TAKES_KEY && matches!(status, 409 | 422) {
                headers.push(Header::PreferenceApplied.meta());
            }
            MetaResponse {
                description: codes,
                status: Some(*status),
                status_range: None,
                content: vec![MetaMediaType { content_type: MEDIA_TYPE, schema: ProblemBody::schema_ref() }],
                headers,
            }
        };
        MetaResponses { responses: A::PROBLEMS.iter().map(response).collect() }
    }

    fn register(registry: &mut Registry) {
        ProblemBody::register(registry);
    }
}
