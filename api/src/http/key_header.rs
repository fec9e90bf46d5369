//! The header `Idempotency-Key`: exactly one valid key, or a problem (contract, section 3).

use poem::http::HeaderMap;
use sfv::{BareItem, Item, Parser};

use super::problem::{Code, Problem};

/// The name of the header.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Longest key, in decoded characters.
const MAX_LENGTH: usize = 255;

/// Which spellings of a key are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySyntax {
    /// The quoted form, and the bare form, which is the same key.
    Lenient,
    /// Only the quoted form: an RFC 9651 Item that is a String.
    Strict,
}

/// A valid key, decoded: 1..=255 visible ASCII characters or inner spaces.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The decoded key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The quoted form (RFC 9651, section 4.1.6).
    #[must_use]
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.0.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// A whole key does not belong into a log: who has it can ask for the answer.
impl std::fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = self.0.len().min(8) / 2;
        write!(f, "IdempotencyKey({}.., {} characters)", &self.0[..shown], self.0.len())
    }
}

/// Reads the key of a request. Lines are counted before anything is read: joined or first-wins readings could make one valid key of two.
///
/// # Errors
/// `key-missing` without the header, `key-malformed` for everything that is not exactly one valid key.
pub fn read(headers: &HeaderMap, syntax: KeySyntax) -> Result<IdempotencyKey, Problem> {
    let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(line) = lines.next() else {
        return Err(Problem::new(Code::KeyMissing, "This request needs the header Idempotency-Key with a key of its own."));
    };
    if lines.next().is_some() {
        return Err(malformed("The header Idempotency-Key was sent more than once."));
    }
    let text = line.as_bytes().trim_ascii();
    let decoded = match (text.first(), syntax) {
        (Some(b'"'), KeySyntax::Lenient | KeySyntax::Strict) => quoted(text),
        (_, KeySyntax::Lenient) => bare(text),
        (_, KeySyntax::Strict) => None,
    };
    decoded.and_then(|key| from_path(&key).ok()).ok_or_else(|| {
        malformed(match syntax {
            KeySyntax::Lenient => "Idempotency-Key is not one key of 1 to 255 visible ASCII characters, quoted or bare.",
            KeySyntax::Strict => "Idempotency-Key is not one key of 1 to 255 visible ASCII characters in double quotes.",
        })
    })
}

/// A key given decoded, as in the path of `GET /idempotency-keys/{key}`: the same rules without the quoting.
///
/// # Errors
/// `()` where the text can be no key, so that none was ever stored under it.
#[expect(clippy::result_unit_err, reason = "there is one reason, and the caller answers it with 404")]
pub fn from_path(text: &str) -> Result<IdempotencyKey, ()> {
    let length_ok = (1..=MAX_LENGTH).contains(&text.len());
    let characters_ok = text.bytes().all(|b| matches!(b, b' '..=b'~'));
    let spaces_inside = !text.starts_with(' ') && !text.ends_with(' ');
    if length_ok && characters_ok && spaces_inside { Ok(IdempotencyKey(text.to_owned())) } else { Err(()) }
}

/// An RFC 9651 Item that is a String; its parameters are ignored.
fn quoted(text: &[u8]) -> Option<String> {
    match Parser::new(text).parse::<Item>().ok()?.bare_item {
        BareItem::String(key) => Some(key.as_str().to_owned()),
        _ => None,
    }
}

/// `[A-Za-z0-9_-][A-Za-z0-9._~:/+=@-]{0,254}`
fn bare(text: &[u8]) -> Option<String> {
    let (first, rest) = text.split_first()?;
    let first_ok = first.is_ascii_alphanumeric() || b"_-".contains(first);
    let rest_ok = rest.iter().all(|b| b.is_ascii_alphanumeric() || b"._~:/+=@-".contains(b));
    (first_ok && rest_ok).then(|| String::from_utf8(text.to_vec()).ok()).flatten()
}

fn malformed(detail: &'static str) -> Problem {
    Problem::new(Code::KeyMalformed, detail)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use poem::http::HeaderValue;
    use proptest::prelude::*;

    fn key(lines: &[&[u8]], syntax: KeySyntax) -> Result<String, Code> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(line).unwrap());
        }
        read(&headers, syntax).map(|k| k.0).map_err(|p| p.code())
    }

    #[test]
    fn one_valid_key_in_every_spelling() {
        let full = "x".repeat(255);
        let quotes = "\"".repeat(255);
        for (line, want) in [
            ("k-1", "k-1"),
            ("\"k-1\"", "k-1"),
            ("\"k-1\";p=1", "k-1"),
            ("\"k-1\"; p=\"x;y\";q", "k-1"),
            ("  \"k-1\" \t", "k-1"),
            ("\t k-1 ", "k-1"),
            (r#""a\"b""#, "a\"b"),
            (r#""a\\b""#, "a\\b"),
            ("\"a b\"", "a b"),
            ("\"a,b\"", "a,b"),
            ("\"1\"", "1"),
            ("12", "12"),
            ("-._~:/+=@", "-._~:/+=@"),
            (&full, &full),
            (&format!("\"{full}\""), &full),
            (&format!("\"{}\"", "\\\"".repeat(255)), &quotes),
        ] {
            assert_eq!(key(&[line.as_bytes()], KeySyntax::Lenient), Ok(want.to_owned()), "{line}");
        }
    }

    #[test]
    fn everything_else_is_malformed() {
        let long = [b'x'; 256];
        let long_quoted = [b"\"", &long[..], b"\""].concat();
        for line in [
            b"".as_slice(),
            b"\"\"",
            b"\"   \"",
            b"   ",
            b"\"abc",
            b"\"a\" \"b\"",
            b"\"a\", \"b\"",
            b"k1, k2",
            b"\"a\\nb\"",
            b"\"a\tb\"",
            b"\"a\\",
            "\"予約\"".as_bytes(),
            "予約".as_bytes(),
            b"\"a\xff\"",
            b"\xff",
            &long,
            &long_quoted,
            b"\"a\";",
            b"\"a\"x",
            b"\" a\"",
            b"\"a \"",
            b"?1",
            b":SGVsbG8=:",
            b"%\"a\"",
            b"*tok",
            b".a",
            b"a b",
            b"(\"a\")",
        ] {
            assert_eq!(key(&[line], KeySyntax::Lenient), Err(Code::KeyMalformed), "{}", String::from_utf8_lossy(line));
        }
        for lines in [&[b"k".as_slice(), b"k"], &[b"\"k", b"l\""]] {
            assert_eq!(key(lines, KeySyntax::Lenient), Err(Code::KeyMalformed));
        }
        assert_eq!(key(&[], KeySyntax::Lenient), Err(Code::KeyMissing));
    }

    #[test]
    fn strict_takes_only_the_quoted_form() {
        for line in ["k", "abc", "12", "?1", ":SGVsbG8=:", "%\"a\"", "*tok"] {
            assert_eq!(key(&[line.as_bytes()], KeySyntax::Strict), Err(Code::KeyMalformed), "{line}");
        }
        assert_eq!(key(&[b"\"k\";v=2"], KeySyntax::Strict), Ok("k".to_owned()));
    }

    #[test]
    fn debug_hides_the_key() {
        assert_eq!(format!("{:?}", from_path("8e03978e-40d5").unwrap()), "IdempotencyKey(8e03.., 13 characters)");
        assert_eq!(format!("{:?}", from_path("a").unwrap()), "IdempotencyKey(.., 1 characters)");
    }

    proptest! {
        #[test]
        fn a_quoted_key_reads_back(text in "[!-~]([ -~]{0,253}[!-~])?") {
            let key_in = from_path(&text).unwrap();
            prop_assert_eq!(key(&[key_in.quoted().as_bytes()], KeySyntax::Strict), Ok(text));
        }

        #[test]
        fn bare_and_quoted_are_one_key(text in "[A-Za-z0-9_-][A-Za-z0-9._~:/+=@-]{0,254}") {
            let quoted = format!("\"{text}\"");
            prop_assert_eq!(key(&[text.as_bytes()], KeySyntax::Lenient), key(&[quoted.as_bytes()], KeySyntax::Lenient));
        }
    }
}
