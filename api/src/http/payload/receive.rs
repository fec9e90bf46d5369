//! Receiving a body: its declared form, its size and the time it may take.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use poem::{
    Request, RequestBody,
    http::{HeaderMap, header},
};

use crate::http::problem::{Code, FieldError, Problem};

/// How much body is taken, and how long the whole of it may take to arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Largest body.
    pub limit_bytes: usize,
    /// Until the last byte is there.
    pub timeout: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { limit_bytes: 64 * 1024, timeout: Duration::from_secs(10) }
    }
}

/// Reads the body, counting. What is too large is refused as soon as that shows, in the head or at the byte beyond the limit: a body
/// without end has no end to wait for. What the caller is still sending is dropped beside the answer (`leftover.rs`).
///
/// # Errors
/// `body-too-large`, `request-timeout`, and `request-invalid` for a body that breaks off.
pub async fn read_limited(request: &Request, body: &mut RequestBody, limit_bytes: usize, timeout: Duration) -> Result<Vec<u8>, Problem> {
    let too_large = || Problem::new(Code::BodyTooLarge, format!("The body is larger than the {limit_bytes} bytes this service takes."));
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    if declared.is_some_and(|length| length > limit_bytes as u64) {
        return Err(too_large());
    }
    let stream =
        body.take().map_err(|_| Problem::new(Code::Internal, "The service failed while it handled this request."))?.into_bytes_stream();
    match tokio::time::timeout(timeout, receive(stream, limit_bytes)).await {
        Ok(Received::Whole(bytes)) => Ok(bytes),
        Ok(Received::TooLarge) => Err(too_large()),
        Ok(Received::Broken) => Err(Problem::invalid(vec![FieldError::new("", "the body broke off before its end")])),
        Err(_elapsed) => Err(Problem::new(Code::RequestTimeout, format!("The body was not complete within {timeout:?}."))),
    }
}

enum Received {
    Whole(Vec<u8>),
    TooLarge,
    Broken,
}

async fn receive<B: AsRef<[u8]>, E>(stream: impl Stream<Item = Result<B, E>>, limit_bytes: usize) -> Received {
    let mut stream = std::pin::pin!(stream);
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let Ok(chunk) = chunk else { return Received::Broken };
        if chunk.as_ref().len() > limit_bytes - bytes.len() {
            return Received::TooLarge;
        }
        bytes.extend_from_slice(chunk.as_ref());
    }
    Received::Whole(bytes)
}

/// `Content-Type` must be `application/json` in UTF-8, and the body must not be encoded.
///
/// # Errors
/// `media-type-unsupported`, also where the header is missing or sent twice.
pub fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let declared = types.next().and_then(|v| v.to_str().ok());
    if types.next().is_some() || !declared.is_some_and(is_json) {
        return Err(Problem::new(Code::MediaTypeUnsupported, "Content-Type must be application/json, its charset absent or utf-8."));
    }
    let plain = |v: &header::HeaderValue| v.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(header::CONTENT_ENCODING).iter().all(plain) {
        return Err(Problem::new(Code::MediaTypeUnsupported, "The body must not be encoded: send it without Content-Encoding."));
    }
    Ok(())
}

/// `application/json`, charset absent or utf-8, other parameters ignored.
pub(super) fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';');
    let essence = parts.next().unwrap_or_default().trim();
    let utf_8 = |charset: &str| {
        let charset = charset.trim();
        let unquoted = charset.strip_prefix('"').and_then(|c| c.strip_suffix('"')).unwrap_or(charset);
        unquoted.eq_ignore_ascii_case("utf-8")
    };
    essence.eq_ignore_ascii_case("application/json")
        && parts.all(|part| match part.split_once('=') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => utf_8(value),
            Some(_) | None => true,
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use poem::{Body, http::HeaderValue};

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn only_json_in_utf_8_and_not_encoded() {
        for t in [
            "application/json",
            "Application/JSON",
            "application/json;charset=utf-8",
            "application/json; Charset=\"UTF-8\"",
            "application/json; v=1; charset=utf-8",
            " application/json ;",
        ] {
            assert!(check_media_type(&headers(&[("content-type", t)])).is_ok(), "{t}");
        }
        for t in [
            "",
            "text/plain",
            "text/json",
            "application/problem+json",
            "application/json; charset=latin1",
            "application/json, text/plain",
            "application/jsonx",
        ] {
            assert!(check_media_type(&headers(&[("content-type", t)])).is_err(), "{t}");
        }
        let json = ("content-type", "application/json");
        assert!(check_media_type(&headers(&[])).is_err());
        assert!(check_media_type(&headers(&[json, json])).is_err());
        assert!(check_media_type(&headers(&[json, ("content-encoding", "Identity")])).is_ok());
        assert!(check_media_type(&headers(&[json, ("content-encoding", "gzip")])).is_err());
    }

    async fn read(head: &[(&'static str, &'static str)], body: Body, limit_bytes: usize) -> Result<Vec<u8>, Code> {
        let mut request = Request::builder().body(body);
        request.headers_mut().extend(headers(head));
        let (request, mut body) = request.split();
        read_limited(&request, &mut body, limit_bytes, Duration::from_millis(50)).await.map_err(|p| p.code())
    }

    fn chunks(list: &[&'static str]) -> Body {
        let list: Vec<Result<&'static str, std::io::Error>> = list.iter().map(|c| Ok(*c)).collect();
        Body::from_bytes_stream(futures_util::stream::iter(list))
    }

    #[tokio::test]
    async fn size_and_time_are_bounded() {
        assert_eq!(read(&[], chunks(&["ab", "cd"]), 4).await, Ok(b"abcd".to_vec()));
        assert_eq!(read(&[], Body::empty(), 4).await, Ok(Vec::new()));
        assert_eq!(read(&[], chunks(&["ab", "cd", "e"]), 4).await, Err(Code::BodyTooLarge));

        let never = || Body::from_bytes_stream(futures_util::stream::pending::<Result<&'static str, std::io::Error>>());
        assert_eq!(read(&[], never(), 4).await, Err(Code::RequestTimeout));
        assert_eq!(read(&[("content-length", "5")], never(), 4).await, Err(Code::BodyTooLarge));
        assert_eq!(read(&[("content-length", "5"), ("expect", "100-continue")], never(), 4).await, Err(Code::BodyTooLarge));

        let broken = Body::from_bytes_stream(futures_util::stream::iter([Ok("ab"), Err(std::io::Error::other("cut"))]));
        assert_eq!(read(&[], broken, 4).await, Err(Code::RequestInvalid));
        // Neither waits for an end that does not come.
        let chunk = || futures_util::stream::iter([Ok::<_, std::io::Error>("abcde")]);
        let stalled = Body::from_bytes_stream(chunk().chain(futures_util::stream::pending()));
        assert_eq!(read(&[], stalled, 4).await, Err(Code::BodyTooLarge));
        let endless = Body::from_bytes_stream(futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>("abcde")));
        assert_eq!(read(&[], endless, 4).await, Err(Code::BodyTooLarge));
    }
}
