//! Strict JSON and the bodies made of it: any bytes are one request or a bounded list of faults.

use super::runner::{bytes, fuzz};
use api::http::payload::{canonical_change, canonical_create, change, create, parse_strict};
use api::http::problem::FieldError;
use proptest::prelude::*;
use serde_json::Value;

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u0000",
    "\\ud83d",
    "\\ude00",
    "\\u0061",
    "null",
    "true",
    "1",
    "1.0",
    "1e0",
    "-0",
    "0",
    "-1",
    "2147483647",
    "2147483648",
    "1e400",
    "18446744073709551616",
    " ",
    "\n",
    "\"note\":",
    "\"quantity\":",
    "\"item_code\":",
    "\"starts_at\":",
    "\"2031-05-06T10:00:00Z\"",
    "+09:00",
    "Z",
    "\"x\":1",
    "\u{feff}",
    "\u{0}",
    "\u{1f600}",
    "//",
    "\"quantit\\u0079\":2",
];

/// Members of all objects in a value.
fn members(value: &Value) -> usize {
    match value {
        Value::Object(object) => object.len() + object.values().map(members).sum::<usize>(),
        Value::Array(items) => items.iter().map(members).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Object(object) => object.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Colons outside of strings: one for each member as it was written.
fn colons(json: &[u8]) -> usize {
    let (mut inside, mut escaped, mut n) = (false, false, 0);
    for &byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b':' if !inside => n += 1,
            _ => {}
        }
    }
    n
}

fn are_bounded(faults: &[FieldError]) -> Result<(), TestCaseError> {
    prop_assert!(!faults.is_empty() && faults.len() <= 64, "{} faults", faults.len());
    for fault in faults {
        prop_assert!(fault.pointer.len() <= 256 && fault.detail.len() <= 200, "{:?}", fault);
        prop_assert!(fault.pointer.is_empty() || fault.pointer.starts_with('/'));
    }
    Ok(())
}

#[test]
fn any_bytes_are_one_request_or_faults() {
    fuzz("bodies", bytes(include_str!("corpus/bodies.txt"), WORDS), |body| {
        let usual = serde_json::from_slice::<Value>(&body);
        let value = match parse_strict(&body) {
            Ok(value) => value,
            Err(faults) => {
                // Stricter than the usual reader for two reasons only.
                if let Ok(usual) = usual {
                    prop_assert!(has_nul(&usual) || colons(&body) > members(&usual), "refused: {:?}", faults);
                }
                return are_bounded(&faults);
            }
        };
        let usual = usual.ok();
        prop_assert_eq!(Some(&value), usual.as_ref());
        prop_assert!(!has_nul(&value) && colons(&body) == members(&value), "taken: {}", value);
        match create(&value) {
            // The canonical form is a request of its own, and the same one.
            Ok(details) => prop_assert_eq!(create(&canonical_create(&details)), Ok(details)),
            Err(faults) => are_bounded(&faults)?,
        }
        match change(&value) {
            Ok(details) => prop_assert_eq!(change(&canonical_change(&details)), Ok(details)),
            Err(faults) => are_bounded(&faults)?,
        }
        Ok(())
    });
}
