//! The language of a title or page, negotiated by `Accept-Language` (RFC 9110, section 12.5.4).

use poem::http::{HeaderMap, header::ACCEPT_LANGUAGE};

/// A language that titles and pages exist in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// The default, and the language of every `detail`.
    English,
    /// Under `Accept-Language: ja` or a sub-tag of it.
    Japanese,
}

/// How much a caller wants a language; compared member by member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Wish {
    /// Quality in thousandths; 0 is "not acceptable".
    quality: u16,
    /// Named by a range of its own, not only by `*`.
    named: bool,
    /// Ranges of equal quality are taken in the order they were written.
    earlier: usize,
}

impl Language {
    /// The language the caller prefers; English where it names neither.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let ranges: Vec<(&str, u16)> = headers
            .get_all(ACCEPT_LANGUAGE)
            .iter()
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(','))
            .filter_map(weighted_range)
            .collect();
        let (english, japanese) = (wish(&ranges, "en"), wish(&ranges, "ja"));
        if japanese.quality > 0 && japanese > english { Self::Japanese } else { Self::English }
    }

    /// The language tag (RFC 5646).
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Japanese => "ja",
        }
    }

    /// The language of exactly this tag, as in `?lang=ja`.
    #[must_use]
    pub fn from_tag(tag: &str) -> Option<Self> {
        [Self::English, Self::Japanese].into_iter().find(|l| l.tag() == tag)
    }
}

/// The best range that names the language; `*` speaks only for a language no range names.
fn wish(ranges: &[(&str, u16)], tag: &str) -> Wish {
    let matching = |want_named: bool| {
        ranges
            .iter()
            .enumerate()
            .filter(|(_, (range, _))| {
                let primary = range.split('-').next().unwrap_or_default();
                if want_named { primary.eq_ignore_ascii_case(tag) } else { *range == "*" }
            })
            .map(|(at, (_, quality))| Wish { quality: *quality, named: want_named, earlier: usize::MAX - at })
            .max()
    };
    matching(true).or_else(|| matching(false)).unwrap_or_default()
}

/// One `range;q=weight`; a malformed one is skipped.
fn weighted_range(element: &str) -> Option<(&str, u16)> {
    let (range, weight) = match element.split_once(';') {
        None => (element, None),
        Some((range, weight)) => (range, Some(weight.trim())),
    };
    let quality = match weight {
        None => 1000,
        Some(w) => thousandths(w.strip_prefix("q=").or_else(|| w.strip_prefix("Q="))?)?,
    };
    let range = range.trim();
    (!range.is_empty()).then_some((range, quality))
}

/// `qvalue` of RFC 9110, section 12.4.2, in thousandths.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !matches!(whole, "0" | "1") || fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value = whole.parse::<u16>().ok()? * 1000 + format!("{fraction:0<3}").parse::<u16>().ok()?;
    (value <= 1000).then_some(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use poem::http::HeaderValue;

    #[test]
    fn the_preferred_language_wins() {
        for (lines, japanese) in [
            (&[][..], false),
            (&["*"], false),
            (&["ja"], true),
            (&["JA-jp"], true),
            (&["jav"], false),
            (&["en;q=0.5, ja-JP"], true),
            (&["ja;q=0.5, en"], false),
            (&["ja, en"], true),
            (&["en, ja"], false),
            (&["en", "ja"], false),
            (&["fr, ja;q=0.1"], true),
            (&["ja;q=0"], false),
            (&["ja;q=0, *"], false),
            (&["en;q=0, *"], true),
            (&["*, ja"], true),
            (&["*, ja;q=0.9"], false),
            (&["ja;q=2, en;q=0.1"], false),
            (&["ja; q=1.000 , en;q=0.999"], true),
            (&["", ",,;"], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(ACCEPT_LANGUAGE, HeaderValue::from_str(line).unwrap());
            }
            let want = if japanese { Language::Japanese } else { Language::English };
            assert_eq!(Language::of(&headers), want, "{lines:?}");
        }
    }
}
