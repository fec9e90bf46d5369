//! The table of problems: code, status, advice and title (contract, section 3).

use poem::http::StatusCode;
use poem_openapi::Enum;

use crate::http::language::Language;

/// Which problem it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Enum)]
#[oai(rename = "ProblemCode", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each code is explained by its title below and by its page")]
pub enum Code {
    KeyMissing,
    KeyMalformed,
    RequestInvalid,
    Unauthenticated,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    TooManyRequests,
    KeyInProgress,
    ReservationBusy,
    OutcomeUnknown,
    VersionStale,
    IfMatchMissing,
    BodyTooLarge,
    MediaTypeUnsupported,
    KeyReused,
    BookingRejected,
    Internal,
    BookingSystemMisconfigured,
    BookingSystemUnavailable,
    BookingSystemBusy,
    OutcomePending,
    StorageUnavailable,
}

/// What the caller should do.
///
/// `same_key`: send it again as it is, after `Retry-After`. `corrected`: correct it, the key is not spent. `new_key`: this key belongs to
/// another request. `never`: it is final. `ask`: the outcome is unknown, do not make a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Enum)]
#[oai(rename = "RetryAdvice", rename_all = "snake_case")]
pub enum Retry {
    /// Send it again as it is, after `Retry-After`.
    SameKey,
    /// Correct it; the key is not spent.
    Corrected,
    /// This key belongs to another request.
    NewKey,
    /// Final.
    Never,
    /// Outcome unknown: do not make a new key.
    Ask,
}

impl Retry {
    /// The value of the member `retry`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SameKey => "same_key",
            Self::Corrected => "corrected",
            Self::NewKey => "new_key",
            Self::Never => "never",
            Self::Ask => "ask",
        }
    }
}

impl Code {
    /// Every code, in the order of the contract's table.
    pub const ALL: [Self; 24] = [
        Self::KeyMissing,
        Self::KeyMalformed,
        Self::RequestInvalid,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::TooManyRequests,
        Self::KeyInProgress,
        Self::ReservationBusy,
        Self::OutcomeUnknown,
        Self::VersionStale,
        Self::IfMatchMissing,
        Self::BodyTooLarge,
        Self::MediaTypeUnsupported,
        Self::KeyReused,
        Self::BookingRejected,
        Self::Internal,
        Self::BookingSystemMisconfigured,
        Self::BookingSystemUnavailable,
        Self::BookingSystemBusy,
        Self::OutcomePending,
        Self::StorageUnavailable,
    ];

    /// The value of the member `code` and the last segment of `type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KeyMissing => "key-missing",
            Self::KeyMalformed => "key-malformed",
            Self::RequestInvalid => "request-invalid",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::RequestTimeout => "request-timeout",
            Self::TooManyRequests => "too-many-requests",
            Self::KeyInProgress => "key-in-progress",
            Self::ReservationBusy => "reservation-busy",
            Self::OutcomeUnknown => "outcome-unknown",
            Self::VersionStale => "version-stale",
            Self::IfMatchMissing => "if-match-missing",
            Self::BodyTooLarge => "body-too-large",
            Self::MediaTypeUnsupported => "media-type-unsupported",
            Self::KeyReused => "key-reused",
            Self::BookingRejected => "booking-rejected",
            Self::Internal => "internal",
            Self::BookingSystemMisconfigured => "booking-system-misconfigured",
            Self::BookingSystemUnavailable => "booking-system-unavailable",
            Self::BookingSystemBusy => "booking-system-busy",
            Self::OutcomePending => "outcome-pending",
            Self::StorageUnavailable => "storage-unavailable",
        }
    }

    /// The status code of the answer.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyMalformed | Self::RequestInvalid => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::KeyInProgress | Self::ReservationBusy | Self::OutcomeUnknown => StatusCode::CONFLICT,
            Self::VersionStale => StatusCode::PRECONDITION_FAILED,
            Self::IfMatchMissing => StatusCode::PRECONDITION_REQUIRED,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaTypeUnsupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::KeyReused | Self::BookingRejected => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::BookingSystemMisconfigured => StatusCode::BAD_GATEWAY,
            Self::BookingSystemUnavailable | Self::BookingSystemBusy | Self::OutcomePending | Self::StorageUnavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// What the caller should do.
    #[must_use]
    pub fn retry(self) -> Retry {
        match self {
            Self::KeyMissing | Self::KeyMalformed | Self::RequestInvalid => Retry::Corrected,
            Self::Unauthenticated | Self::Forbidden | Self::NotFound | Self::MethodNotAllowed => Retry::Corrected,
            Self::VersionStale | Self::IfMatchMissing | Self::BodyTooLarge | Self::MediaTypeUnsupported => Retry::Corrected,
            Self::RequestTimeout | Self::TooManyRequests | Self::KeyInProgress | Self::ReservationBusy => Retry::SameKey,
            Self::Internal | Self::BookingSystemMisconfigured | Self::BookingSystemUnavailable => Retry::SameKey,
            Self::BookingSystemBusy | Self::OutcomePending | Self::StorageUnavailable => Retry::SameKey,
            Self::OutcomeUnknown => Retry::Ask,
            Self::KeyReused => Retry::NewKey,
            Self::BookingRejected => Retry::Never,
        }
    }

    /// The title, the same at every occurrence.
    #[must_use]
    pub fn title(self, language: Language) -> &'static str {
        let (english, japanese) = self.titles();
        match language {
            Language::English => english,
            Language::Japanese => japanese,
        }
    }

    fn titles(self) -> (&'static str, &'static str) {
        match self {
            Self::KeyMissing => ("Idempotency key missing", "冪等キーがありません"),
            Self::KeyMalformed => ("Idempotency key malformed", "冪等キーの形式が正しくありません"),
            Self::RequestInvalid => ("Request invalid", "リクエストの内容が正しくありません"),
            Self::Unauthenticated => ("Not authenticated", "認証されていません"),
            Self::Forbidden => ("Forbidden", "許可されていません"),
            Self::NotFound => ("Not found", "見つかりません"),
            Self::MethodNotAllowed => ("Method not allowed", "このメソッドは使えません"),
            Self::RequestTimeout => ("Request took too long to arrive", "リクエストの受信が時間切れになりました"),
            Self::TooManyRequests => ("Too many requests", "リクエストが多すぎます"),
            Self::KeyInProgress => ("A request with this key is in progress", "このキーのリクエストは処理中です"),
            Self::ReservationBusy => ("Another change of this reservation is not settled", "この予約の別の変更がまだ確定していません"),
            Self::OutcomeUnknown => ("Outcome of this request unknown", "このリクエストの結果は不明です"),
            Self::VersionStale => ("Reservation has changed since it was read", "予約は読み取り後に変更されています"),
            Self::IfMatchMissing => ("If-Match missing", "If-Match がありません"),
            Self::BodyTooLarge => ("Body too large", "本文が大きすぎます"),
            Self::MediaTypeUnsupported => ("Media type not supported", "このメディアタイプには対応していません"),
            Self::KeyReused => ("Key already used for another request", "このキーは別のリクエストに使われています"),
            Self::BookingRejected => ("Booking rejected", "予約は受け付けられませんでした"),
            Self::Internal => ("Internal error", "内部エラーです"),
            Self::BookingSystemMisconfigured => ("Booking system misconfigured", "予約システムの設定に誤りがあります"),
            Self::BookingSystemUnavailable => ("Booking system unavailable", "予約システムに接続できません"),
            Self::BookingSystemBusy => ("Booking system busy", "予約システムが混み合っています"),
            Self::OutcomePending => ("Outcome not known yet", "結果はまだ分かりません"),
            Self::StorageUnavailable => ("Storage unavailable", "データベースを利用できません"),
        }
    }
}

/// The code of this name.
impl std::str::FromStr for Code {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Self::ALL.into_iter().find(|code| code.as_str() == text).ok_or(UnknownCode)
    }
}

/// There is no problem of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no problem of that name")]
pub struct UnknownCode;

#[cfg(test)]
mod tests {
    use super::*;
    use poem_openapi::types::ToJSON;

    #[test]
    fn the_document_and_the_answers_use_the_same_names() {
        for code in Code::ALL {
            assert_eq!(code.to_json(), Some(code.as_str().into()));
            assert_eq!(code.as_str().parse(), Ok(code));
            assert_eq!(code.retry().to_json(), Some(code.retry().as_str().into()));
            assert!(code.title(Language::English).is_ascii() && !code.title(Language::Japanese).is_ascii(), "{code:?}");
        }
        assert_eq!("nope".parse::<Code>(), Err(UnknownCode));
    }

    #[test]
    fn status_and_advice_are_those_of_the_contract() {
        let row = |status: u16, retry: &str| -> Vec<&str> {
            Code::ALL.iter().filter(|c| c.status().as_u16() == status && c.retry().as_str() == retry).map(|c| c.as_str()).collect()
        };
        assert_eq!(row(400, "corrected"), ["key-missing", "key-malformed", "request-invalid"]);
        assert_eq!(row(409, "same_key"), ["key-in-progress", "reservation-busy"]);
        assert_eq!(row(409, "ask"), ["outcome-unknown"]);
        assert_eq!(row(422, "new_key"), ["key-reused"]);
        assert_eq!(row(422, "never"), ["booking-rejected"]);
        assert_eq!(row(502, "same_key"), ["booking-system-misconfigured"]);
        assert_eq!(row(503, "same_key"), ["booking-system-unavailable", "booking-system-busy", "outcome-pending", "storage-unavailable"]);
        for status in [401, 403, 404, 405, 412, 413, 415, 428] {
            assert_eq!(row(status, "corrected").len(), 1, "{status}");
        }
        for status in [408, 429, 500] {
            assert_eq!(row(status, "same_key").len(), 1, "{status}");
        }
    }
}
