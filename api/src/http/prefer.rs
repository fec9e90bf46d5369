//! What a caller prefers: `Prefer: wait=N` and `Prefer: respond-async` (RFC 7240).

use poem::http::HeaderMap;

/// The preferences this service knows; unknown and malformed ones are ignored (RFC 7240, section 2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preference {
    /// `wait=N`: how long the caller is willing to wait, in seconds, not yet capped.
    pub wait_s: Option<u64>,
    /// `respond-async`: answer 202 at once.
    pub respond_async: bool,
}

impl Preference {
    /// Reads every `Prefer` line. Of a preference that is given more than once only the first instance counts.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        let mut wait_seen = false;
        let mut async_seen = false;
        for line in headers.get_all("prefer").iter().filter_map(|l| l.to_str().ok()) {
            for (name, value) in split_outside_quotes(line, ',').filter_map(preference) {
                if name.eq_ignore_ascii_case("wait") && !wait_seen {
                    wait_seen = true;
                    found.wait_s = seconds(&value);
                } else if name.eq_ignore_ascii_case("respond-async") && !async_seen {
                    async_seen = true;
                    found.respond_async = value.is_empty();
                }
            }
        }
        found
    }
}

/// `token [ BWS "=" BWS word ]`; its parameters mean nothing to the preferences known here. An absent value and an empty one are the same.
fn preference(element: &str) -> Option<(&str, String)> {
    let first = split_outside_quotes(element, ';').next()?;
    let (name, value) = match first.split_once('=') {
        None => (first.trim(), String::new()),
        Some((name, value)) => (name.trim(), word(value.trim())?),
    };
    is_token(name).then_some((name, value))
}

/// `word = token / quoted-string`, or nothing.
fn word(text: &str) -> Option<String> {
    let Some(quoted) = text.strip_prefix('"') else {
        return (text.is_empty() || is_token(text)).then(|| text.to_owned());
    };
    let mut value = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return chars.as_str().is_empty().then_some(value),
            '\\' => value.push(chars.next()?),
            c => value.push(c),
        }
    }
}

/// `delta-seconds`; more than fits is as good as for ever.
fn seconds(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Splits at a separator that stands outside a quoted-string.
fn split_outside_quotes(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c| {
        if escaped {
            escaped = false;
        } else if c == '\\' && quoted {
            escaped = true;
        } else if c == '"' {
            quoted = !quoted;
        }
        c == separator && !quoted
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use poem::http::HeaderValue;

    #[test]
    fn known_preferences_are_read_and_the_rest_is_ignored() {
        for (lines, wait_s, respond_async) in [
            (&[][..], None, false),
            (&["wait=10"], Some(10), false),
            (&["Wait = \"10\""], Some(10), false),
            (&["wait=0"], Some(0), false),
            (&["respond-async, wait=5"], Some(5), true),
            (&["respond-async", "wait=5"], Some(5), true),
            (&["RESPOND-ASYNC;foo=\"a,b\"; bar, wait=3;x"], Some(3), true),
            (&["wait=1, wait=2"], Some(1), false),
            (&["wait=x, wait=2"], None, false),
            (&["wait", "wait=2"], None, false),
            (&["wait=-1"], None, false),
            (&["wait=1.5"], None, false),
            (&["wait=99999999999999999999999"], Some(u64::MAX), false),
            (&["foo=\"wait=1, respond-async\", wait=7"], Some(7), false),
            (&["foo=\"a\\\", respond-async\", wait=7"], Some(7), false),
            (&["foo=\"open, wait=7"], None, false),
            (&["a b, wait=7, ,"], Some(7), false),
            (&["respond-async=\"\""], None, true),
            (&["respond-async=no"], None, false),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("prefer", HeaderValue::from_str(line).unwrap());
            }
            assert_eq!(Preference::of(&headers), Preference { wait_s, respond_async }, "{lines:?}");
        }
    }
}
