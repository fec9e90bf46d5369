//! YAML for the OpenAPI documents: collections in block style, leaves as JSON, which YAML reads as it is.
//!
//! So no string needs rules for when to quote, and the text says exactly what the JSON document says.

use std::fmt::Write as _;

use serde_json::Value;

/// The document as YAML. Members come in the order of the value.
#[must_use]
pub fn from_json(document: &Value) -> String {
    let mut text = String::new();
    write(document, 0, &mut text);
    text
}

/// Writing into a `String` cannot fail.
fn write(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'/' | b'{' | b'}'))
                    && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
                    && !matches!(name.as_str(), "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n");
                let name = if plain { name.clone() } else { Value::from(name.as_str()).to_string() };
                let _ = write!(text, "{indent}{name}:");
                write_member(member, depth, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(text, "{indent}-");
                write_member(item, depth, text);
            }
        }
        Value::Object(_) | Value::Array(_) | Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {
            let _ = writeln!(text, "{indent}{value}");
        }
    }
}

fn write_member(value: &Value, depth: usize, text: &mut String) {
    let is_block = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => false,
    };
    if is_block {
        text.push('\n');
        write(value, depth + 1, text);
    } else {
        let _ = writeln!(text, " {value}");
    }
}
