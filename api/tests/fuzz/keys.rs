//! The header `Idempotency-Key`: any bytes are one key or none, in both syntaxes alike.

use super::runner::{bytes, fuzz};
use api::http::key_header::{KeySyntax, read};
use api::http::problem::Code;
use poem::http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

const WORDS: &[&str] =
    &["\"", "\\\"", "\\\\", "\\", ";", ";a=1", "; b=\"x;y\"", ";c", ",", " ", "\t", "=", "?1", ":YQ==:", "(", ")", "k", "*"];

fn key(line: &[u8], syntax: KeySyntax) -> Option<Result<String, Code>> {
    let mut headers = HeaderMap::new();
    // What is no header value never becomes a request.
    headers.append("idempotency-key", HeaderValue::from_bytes(line).ok()?);
    Some(read(&headers, syntax).map(|key| key.as_str().to_owned()).map_err(|problem| problem.code()))
}

/// Read by hand: `Some(None)` where it is no key, `None` where it has parameters, which only the parser judges.
fn by_hand(line: &[u8], syntax: KeySyntax) -> Option<Option<String>> {
    let text = line.trim_ascii();
    let is_key = |key: &str| (1..=255).contains(&key.len()) && !key.starts_with(' ') && !key.ends_with(' ');
    let Some(inner) = text.strip_prefix(b"\"") else {
        let first = text.first().is_some_and(|b| b.is_ascii_alphanumeric() || b"_-".contains(b));
        let bare = first && text.len() <= 255 && text.iter().all(|b| b.is_ascii_alphanumeric() || b"._~:/+=@-".contains(b));
        return Some((bare && syntax == KeySyntax::Lenient).then(|| String::from_utf8(text.to_vec()).unwrap()));
    };
    let (mut key, mut rest) = (String::new(), inner.iter());
    loop {
        match rest.next() {
            Some(b'"') => break,
            Some(b'\\') => match rest.next() {
                Some(&escaped @ (b'"' | b'\\')) => key.push(char::from(escaped)),
                _ => return Some(None),
            },
            Some(&plain @ b' '..=b'~') => key.push(char::from(plain)),
            _ => return Some(None),
        }
    }
    match rest.as_slice() {
        [] => Some(is_key(&key).then_some(key)),
        [b';', ..] if is_key(&key) => None,
        _ => Some(None),
    }
}

#[test]
fn any_bytes_are_one_key_or_none() {
    fuzz("keys", bytes(include_str!("corpus/keys.txt"), WORDS), |line| {
        for syntax in [KeySyntax::Lenient, KeySyntax::Strict] {
            let Some(read) = key(&line, syntax) else { return Ok(()) };
            if let Some(want) = by_hand(&line, syntax) {
                prop_assert_eq!(&read, &want.ok_or(Code::KeyMalformed), "{:?}", syntax);
            }
            match &read {
                Ok(text) => {
                    prop_assert!(
                        (1..=255).contains(&text.len()) && text.bytes().all(|b| (b' '..=b'~').contains(&b)) && text.trim() == text
                    );
                    let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
                    prop_assert_eq!(key(quoted.as_bytes(), KeySyntax::Strict), Some(Ok(text.clone())));
                    prop_assert_eq!(key(quoted.as_bytes(), KeySyntax::Lenient), Some(Ok(text.clone())));
                }
                Err(code) => prop_assert_eq!(*code, Code::KeyMalformed),
            }
        }
        // What strict takes, lenient takes for the same key.
        if let Some(Ok(strict)) = key(&line, KeySyntax::Strict) {
            prop_assert_eq!(key(&line, KeySyntax::Lenient), Some(Ok(strict)));
        }
        Ok(())
    });
}
