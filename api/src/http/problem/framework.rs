//! The framework's own errors as problems. Their texts can name types and echo values, so only fixed sentences leave.

use poem::http::StatusCode;
use poem_openapi::error::{ParseParamError, ParsePathError};

use super::{Code, FieldError, Problem};

/// The problem that says what this error means to a caller. An error that is a [`Problem`] already comes back as it is.
///
/// A `method-not-allowed` comes without `Allow`: only the router knows it.
#[must_use]
pub fn from_poem_error(error: &poem::Error) -> Problem {
    if let Some(problem) = error.downcast_ref::<Problem>() {
        return problem.clone();
    }
    if let Some(parameter) = error.downcast_ref::<ParseParamError>() {
        // The name is ours, from the API description; the reason is not repeated.
        return Problem::invalid(vec![FieldError::new("", format!("the parameter `{}` is missing or not valid", parameter.name))]);
    }
    if error.is::<ParsePathError>() || error.is::<poem::error::ParsePathError>() {
        return by_status(StatusCode::NOT_FOUND);
    }
    by_status(error.status())
}

fn by_status(status: StatusCode) -> Problem {
    match status {
        StatusCode::UNAUTHORIZED => Problem::new(Code::Unauthenticated, "This request needs a valid token in the header Authorization."),
        StatusCode::FORBIDDEN => Problem::new(Code::Forbidden, "This caller may not do that."),
        StatusCode::NOT_FOUND => Problem::new(Code::NotFound, "There is nothing at this address."),
        StatusCode::METHOD_NOT_ALLOWED => Problem::new(Code::MethodNotAllowed, "This address does not offer this method."),
        StatusCode::REQUEST_TIMEOUT => Problem::new(Code::RequestTimeout, "The request did not arrive in time."),
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Code::BodyTooLarge, "The body is larger than this service takes."),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Problem::new(Code::MediaTypeUnsupported, "The body must be application/json in UTF-8."),
        StatusCode::TOO_MANY_REQUESTS => Problem::new(Code::TooManyRequests, "This caller sends more requests than it may."),
        other if other.is_client_error() => Problem::new(Code::RequestInvalid, "The request could not be read.")
            .errors(vec![FieldError::new("", "the request could not be read")]),
        _ => Problem::new(Code::Internal, "The service failed while it handled this request."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poem::error::{MethodNotAllowedError, NotFoundError, ReadBodyError};
    use poem_openapi::error::{AuthorizationError, ContentTypeError, ParseRequestPayloadError};

    #[test]
    fn each_error_has_its_code_and_shows_no_text_of_its_own() {
        const SECRET: &str = "serde::de::Error";
        let reason = || SECRET.to_owned();
        for (error, code) in [
            (NotFoundError.into(), Code::NotFound),
            (MethodNotAllowedError.into(), Code::MethodNotAllowed),
            (AuthorizationError.into(), Code::Unauthenticated),
            (ParseParamError { name: "limit", reason: reason() }.into(), Code::RequestInvalid),
            (ParsePathError { name: "id", reason: reason() }.into(), Code::NotFound),
            (ParseRequestPayloadError { reason: reason() }.into(), Code::RequestInvalid),
            (ContentTypeError::ExpectContentType.into(), Code::MediaTypeUnsupported),
            (ContentTypeError::NotSupported { content_type: reason() }.into(), Code::MediaTypeUnsupported),
            (ReadBodyError::PayloadTooLarge.into(), Code::BodyTooLarge),
            (ReadBodyError::BodyHasBeenTaken.into(), Code::Internal),
            (poem::Error::from_string(SECRET, StatusCode::REQUEST_TIMEOUT), Code::RequestTimeout),
            (poem::Error::from_string(SECRET, StatusCode::TOO_MANY_REQUESTS), Code::TooManyRequests),
            (poem::Error::from_string(SECRET, StatusCode::FORBIDDEN), Code::Forbidden),
            (poem::Error::from_string(SECRET, StatusCode::IM_A_TEAPOT), Code::RequestInvalid),
            (poem::Error::from_string(SECRET, StatusCode::BAD_GATEWAY), Code::Internal),
            (Problem::new(Code::OutcomePending, "d").into(), Code::OutcomePending),
        ] {
            let error: poem::Error = error;
            let problem = from_poem_error(&error);
            assert_eq!(problem.code(), code, "{error:?}");
            assert!(!format!("{problem:?}").contains(SECRET), "{problem:?}");
        }
    }
}
