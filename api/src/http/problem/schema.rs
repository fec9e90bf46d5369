//! How the API description shows a problem; answers are made by [`Problem`](super::Problem).

use poem_openapi::Object;

use super::{Code, Retry};

/// An error answer (RFC 9457).
#[derive(Debug, Clone, Object)]
#[oai(rename = "Problem", skip_serializing_if_is_none)]
pub struct ProblemBody {
    /// A page that explains this problem: `/problems/{code}`.
    #[oai(rename = "type")]
    pub kind: String,
    /// What kind of problem it is, in English, or in Japanese under `Accept-Language: ja`.
    pub title: String,
    /// The status code of this answer.
    pub status: u16,
    /// What is special about this occurrence, in English.
    pub detail: String,
    /// Which problem it is; programs decide by it.
    pub code: Code,
    /// What the caller should do.
    pub retry: Retry,
    /// The resource this occurrence is about.
    pub instance: Option<String>,
    /// `request-invalid` only: every fault that was found.
    pub errors: Option<Vec<FieldErrorBody>>,
    /// `key-reused` only: JSON Pointers (RFC 6901) to the members that differ from the request that owns the key.
    pub mismatch: Option<Vec<String>>,
}

/// One fault in a request.
#[derive(Debug, Clone, Object)]
#[oai(rename = "FieldError")]
pub struct FieldErrorBody {
    /// JSON Pointer (RFC 6901) into the body; empty for the body as a whole, a parameter or a header.
    pub pointer: String,
    /// What is wrong there, in English.
    pub detail: String,
}
