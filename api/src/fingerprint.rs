//! What makes two requests the same: a hash over what they mean, not over how they are spelled.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The version that new records are written in. Released versions stay computable for ever: a record is compared in its own.
pub const CURRENT: u16 = 1;

/// SHA-256 over the RFC 8785 form of version, method, route, path parameters and validated body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// The record was written by a newer release. The answer is 500, never "another request": that could make a caller book twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("fingerprint version {0} is not known to this release")]
pub struct UnknownVersion(pub u16);

/// The fingerprint of a request. `route` is the pattern, as in `/reservations/{id}`; `body` is the validated, canonical one.
///
/// # Errors
/// [`UnknownVersion`] for a version this release cannot compute.
pub fn compute(
    version: u16,
    method: &str,
    route: &str,
    path_parameters: &BTreeMap<&str, &str>,
    body: &Value,
) -> Result<Fingerprint, UnknownVersion> {
    match version {
        1 => {
            let request = json!({"version": 1, "method": method, "route": route, "path_parameters": path_parameters, "body": body});
            Ok(Fingerprint(Sha256::digest(canonical_bytes(&request)).into()))
        }
        unknown => Err(UnknownVersion(unknown)),
    }
}

/// The RFC 8785 form (JCS).
#[must_use]
pub fn canonical_bytes(value: &Value) -> Vec<u8> {
    #[expect(clippy::expect_used, reason = "a `Value` has string names, no duplicates and finite numbers: nothing can fail")]
    serde_json_canonicalizer::to_vec(value).expect("a JSON value has an RFC 8785 form")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::http::payload::{canonical_create, create, parse_strict};
    use proptest::prelude::*;

    const ROUTE: &str = "/reservations";

    /// From the bytes a caller sends to the fingerprint, as a request goes.
    fn of_text(text: &str) -> Fingerprint {
        let body = canonical_create(&create(&parse_strict(text.as_bytes()).unwrap()).unwrap());
        compute(CURRENT, "POST", ROUTE, &BTreeMap::new(), &body).unwrap()
    }

    #[test]
    fn golden_vectors_never_change() {
        let vectors: Vec<Value> = serde_json::from_str(include_str!("../tests/golden/fingerprint_v1.json")).unwrap();
        assert!(!vectors.is_empty());
        for v in vectors {
            let parameters = v["path_parameters"].as_object().unwrap().iter().map(|(k, p)| (k.as_str(), p.as_str().unwrap())).collect();
            let got = compute(1, v["method"].as_str().unwrap(), v["route"].as_str().unwrap(), &parameters, &v["body"]).unwrap();
            assert_eq!(hex::encode(got.0), v["sha256"].as_str().unwrap(), "{v}");
        }
        assert_eq!(compute(2, "POST", ROUTE, &BTreeMap::new(), &Value::Null), Err(UnknownVersion(2)));
    }

    #[test]
    fn rfc_8785_sorts_names_by_utf_16_code_units() {
        let value = json!({"\u{fb33}": 1, "\u{1f600}": 2, "a": "\u{20ac}\u{f}\n"});
        assert_eq!(String::from_utf8(canonical_bytes(&value)).unwrap(), "{\"a\":\"\u{20ac}\\u000f\\n\",\"\u{1f600}\":2,\"\u{fb33}\":1}");
    }

    #[derive(Debug, Clone)]
    struct Body {
        members: Vec<(&'static str, Value)>,
    }

    fn body() -> impl Strategy<Value = Body> {
        ("[^\0]{1,64}", 1..=i32::MAX, "[^\0]{1,128}", prop::option::of("[^\0]{0,50}")).prop_map(
            |(item_code, quantity, reserved_by, note)| {
                let mut members = vec![("item_code", json!(item_code)), ("quantity", json!(quantity)), ("reserved_by", json!(reserved_by))];
                members.extend(note.map(|n| ("note", json!(n))));
                Body { members }
            },
        )
    }

    /// Every character of a text as `\uXXXX`.
    fn escaped(text: &str) -> String {
        text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect()
    }

    fn spelled(members: &[(&str, Value)], space: &str, escape: bool) -> String {
        let text = |s: &str| if escape { format!("\"{}\"", escaped(s)) } else { json!(s).to_string() };
        let spelled: Vec<String> = members
            .iter()
            .map(|(name, value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), &text);
                format!("{space}{}{space}:{space}{value}{space}", text(name))
            })
            .collect();
        format!("{space}{{{}}}{space}", spelled.join(","))
    }

    proptest! {
        #[test]
        fn spelling_never_matters(body in body(), space in "[ \t\r\n]{0,3}", escape: bool, turn in 0..4_usize, null: bool) {
            let mut other = body.members.clone();
            if null {
                other.push(("starts_at", Value::Null));
            }
            let turn = turn % other.len();
            other.rotate_left(turn);
            prop_assert_eq!(of_text(&spelled(&body.members, "", false)), of_text(&spelled(&other, &space, escape)));
        }

        #[test]
        fn any_changed_member_matters(body in body(), at in 0..4_usize) {
            let mut other = body.members.clone();
            let at = at % other.len();
            let name = other[at].0;
            other[at].1 = match &other[at].1 {
                Value::Number(n) => json!(if n.as_i64() == Some(1) { 2 } else { n.as_i64().unwrap() - 1 }),
                // Another first character keeps the length.
                text => json!(text.as_str().unwrap().chars().enumerate().map(|(i, c)| if i > 0 { c } else if c == 'a' { 'b' } else { 'a' }).collect::<String>()),
            };
            prop_assume!(other[at].1 != body.members[at].1);
            prop_assert_ne!(of_text(&spelled(&body.members, "", false)), of_text(&spelled(&other, "", false)), "{}", name);
        }

        #[test]
        fn method_route_and_parameters_matter(id in "[a-z0-9-]{1,36}") {
            let of = |method: &str, route: &str, id: &str| compute(CURRENT, method, route, &BTreeMap::from([("id", id)]), &json!({"note": null})).unwrap();
            let one = of("PATCH", "/reservations/{id}", &id);
            prop_assert_ne!(one, of("POST", "/reservations/{id}", &id));
            prop_assert_ne!(one, of("PATCH", "/bookings/{id}", &id));
            prop_assert_ne!(one, of("PATCH", "/reservations/{id}", &format!("{id}x")));
        }
    }
}
