//! An instant as the API shows it: RFC 3339 in UTC, to the microsecond.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Microseconds since the Unix epoch, between the years 0000 and 9999 (what RFC 3339 can write).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Why a text is no [`Timestamp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 date-time with offset, between the years 0000 and 9999 in UTC")]
pub struct NotATimestamp;

impl Timestamp {
    /// Reads RFC 3339 with any offset; digits beyond the microsecond are cut (contract, section 3).
    ///
    /// # Errors
    /// [`NotATimestamp`] for anything else, an instant outside 0000..9999 in UTC included.
    pub fn parse(text: &str) -> Result<Self, NotATimestamp> {
        // chrono also reads a blank for the `T`; RFC 3339 allows it only by agreement, and there is none.
        if !matches!(text.as_bytes().get(10), Some(b'T' | b't')) {
            return Err(NotATimestamp);
        }
        let utc = DateTime::parse_from_rfc3339(text).map_err(|_| NotATimestamp)?.to_utc();
        Self::from_micros(utc.timestamp_micros())
    }

    /// From microseconds since the Unix epoch.
    ///
    /// # Errors
    /// [`NotATimestamp`] outside the years 0000..9999.
    pub fn from_micros(micros: i64) -> Result<Self, NotATimestamp> {
        const FIRST: i64 = -62_167_219_200_000_000;
        const LAST: i64 = 253_402_300_799_999_999;
        if (FIRST..=LAST).contains(&micros) { Ok(Self(micros)) } else { Err(NotATimestamp) }
    }

    /// From a database time in milliseconds since the Unix epoch; one beyond the year 9999 is shown as its end.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self::from_micros(millis.saturating_mul(1000)).unwrap_or(Self(253_402_300_799_999_999))
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub fn micros(self) -> i64 {
        self.0
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let utc: DateTime<Utc> = DateTime::from_timestamp_micros(self.0).unwrap_or_default();
        f.write_str(&utc.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_instants_are_equal_and_shown_in_utc() {
        let shown = |t: &str| Timestamp::parse(t).map(|t| t.to_string());
        assert_eq!(shown("2030-01-02T10:00:00+09:00"), Ok("2030-01-02T01:00:00Z".into()));
        assert_eq!(shown("2030-01-02t01:00:00.000z"), Ok("2030-01-02T01:00:00Z".into()));
        assert_eq!(shown("2030-01-02T01:00:00.1234569Z"), Ok("2030-01-02T01:00:00.123456Z".into()));
        assert_eq!(shown("0000-01-01T00:00:00Z"), Ok("0000-01-01T00:00:00Z".into()));
        assert_eq!(shown("9999-12-31T23:59:59.999999Z"), Ok("9999-12-31T23:59:59.999999Z".into()));
    }

    #[test]
    fn what_rfc_3339_cannot_write_is_refused() {
        for t in [
            "",
            "2030-01-02",
            "2030-01-02T10:00:00",
            "2030-01-02 10:00:00Z",
            "2030-13-02T10:00:00Z",
            "2030-02-30T10:00:00Z",
            "9999-12-31T23:59:59-01:00",
            "0000-01-01T00:00:00+01:00",
            "+12030-01-02T10:00:00Z",
            "2030-01-02T25:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(t), Err(NotATimestamp), "{t}");
        }
    }
}
