//! The conditions `If-Match` and `If-None-Match` over entity tags (RFC 9110, sections 8.8.3 and 13.1).

use poem::http::{HeaderMap, header::HeaderName};

/// One entity tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag {
    weak: bool,
    /// With its quotes.
    opaque: Vec<u8>,
}

/// What `If-Match` or `If-None-Match` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// `*`: whatever there is.
    Any,
    /// One of these tags; never empty.
    Tags(Vec<EntityTag>),
}

/// A header that is neither `*` nor a list of entity tags. `If-Match` is then refused, `If-None-Match` ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is neither `*` nor a list of entity tags")]
pub struct MalformedCondition;

impl Condition {
    /// Reads every line of the header as one list; `None` where there is no such header.
    ///
    /// # Errors
    /// [`MalformedCondition`] for anything else than `*` alone or at least one entity tag.
    pub fn of(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Self>, MalformedCondition> {
        let lines: Vec<&[u8]> = headers.get_all(name).iter().map(|l| l.as_bytes().trim_ascii()).collect();
        match lines[..] {
            [] => Ok(None),
            [b"*"] => Ok(Some(Self::Any)),
            _ => {
                let mut tags = Vec::new();
                for line in lines {
                    read_tags(line, &mut tags)?;
                }
                if tags.is_empty() { Err(MalformedCondition) } else { Ok(Some(Self::Tags(tags))) }
            }
        }
    }

    /// Strong comparison, for `If-Match`; `current` is the tag with its quotes. A weak tag never matches.
    #[must_use]
    pub fn matches_strong(&self, current: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|t| !t.weak && t.opaque == current.as_bytes()),
        }
    }

    /// Whether `current` is named by a weak tag only: its strong form would have matched.
    #[must_use]
    pub fn names_weakly(&self, current: &str) -> bool {
        match self {
            Self::Any => false,
            Self::Tags(tags) => tags.iter().any(|t| t.weak && t.opaque == current.as_bytes()),
        }
    }

    /// Weak comparison, for `If-None-Match`; `current` is the tag with its quotes, weak or not.
    #[must_use]
    pub fn matches_weak(&self, current: &str) -> bool {
        let current = current.strip_prefix("W/").unwrap_or(current).as_bytes();
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|t| t.opaque == current),
        }
    }
}

/// A list with optional empty elements (RFC 9110, section 5.6.1.2). A tag may hold a comma, so the list is not split first.
fn read_tags(line: &[u8], tags: &mut Vec<EntityTag>) -> Result<(), MalformedCondition> {
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        if let [b',', after @ ..] = rest {
            rest = after.trim_ascii_start();
            continue;
        }
        let (weak, quoted) = rest.strip_prefix(b"W/").map_or((false, rest), |quoted| (true, quoted));
        let inner = quoted.strip_prefix(b"\"").ok_or(MalformedCondition)?;
        let length = inner.iter().position(|&b| b == b'"').ok_or(MalformedCondition)?;
        if !inner[..length].iter().all(|&b| matches!(b, 0x21 | 0x23..=0x7e | 0x80..)) {
            return Err(MalformedCondition);
        }
        let (opaque, after) = quoted.split_at(length + 2);
        tags.push(EntityTag { weak, opaque: opaque.to_vec() });
        rest = after.trim_ascii_start();
        if !matches!(rest, [] | [b',', ..]) {
            return Err(MalformedCondition);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use poem::http::{HeaderValue, header::IF_MATCH};

    fn condition(lines: &[&str]) -> Result<Option<Condition>, MalformedCondition> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(IF_MATCH, HeaderValue::from_str(line).unwrap());
        }
        Condition::of(&headers, &IF_MATCH)
    }

    #[test]
    fn strong_and_weak_comparison() {
        for (lines, strong, weak) in [
            (&["*"][..], true, true),
            (&["\"a\""], true, true),
            (&["W/\"a\""], false, true),
            (&["\"b\""], false, false),
            (&["\"b\" ,W/\"x\",, \"a\""], true, true),
            (&["\"b\"", "\"a\""], true, true),
            (&["\"a,\", \"b\""], false, false),
            (&["\"A\""], false, false),
            (&["\"\""], false, false),
        ] {
            let c = condition(lines).unwrap().unwrap();
            assert_eq!((c.matches_strong("\"a\""), c.matches_weak("\"a\"")), (strong, weak), "{lines:?}");
        }
        assert!(condition(&["\"a\""]).unwrap().unwrap().matches_weak("W/\"a\""));
    }

    #[test]
    fn a_weak_tag_of_the_current_version_is_told_from_another_version() {
        let names = |line| condition(&[line]).unwrap().unwrap().names_weakly("\"a\"");
        assert!(names("W/\"a\"") && names("\"b\", W/\"a\""));
        assert!(!names("*") && !names("\"a\"") && !names("W/\"b\""));
    }

    #[test]
    fn what_is_no_list_of_tags_is_malformed() {
        assert_eq!(condition(&[]), Ok(None));
        for lines in [
            &[""][..],
            &[","],
            &["a"],
            &["\"a"],
            &["\"a\" \"b\""],
            &["w/\"a\""],
            &["*, \"a\""],
            &["*", "*"],
            &["\"a b\""],
            &["W/ \"a\""],
            &["\"a\"x"],
            &["\"a\"", "*"],
        ] {
            assert_eq!(condition(lines), Err(MalformedCondition), "{lines:?}");
        }
    }
}
