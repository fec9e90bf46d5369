//! Whether an answer is one that the OpenAPI document announces for that operation: status, media type, headers, and every member.

use super::reply::Reply;
use serde_json::Value;
use std::sync::OnceLock;

/// The document of the service, as the first process of the run serves it.
pub static DOCUMENT: OnceLock<Value> = OnceLock::new();

/// Headers that mean something to a caller: what comes must be declared.
const HEADERS: [&str; 7] = ["location", "etag", "idempotent-replayed", "preference-applied", "retry-after", "link", "www-authenticate"];

/// B61: how the answer differs from the document; `None` also where the path is no operation.
pub fn undeclared(method: &str, target: &str, reply: &Reply) -> Option<String> {
    let document = DOCUMENT.get()?;
    let path = target.split('?').next().unwrap_or_default();
    let (_, operations) = document["paths"].as_object()?.iter().find(|(template, _)| matches(template, path))?;
    let answer = &operations.get(method.to_lowercase())?["responses"][reply.status.to_string()];
    if answer.is_null() {
        return Some(format!("{} is not in the document", reply.status));
    }
    let declared = |name: &str| answer["headers"].as_object().is_some_and(|h| h.keys().any(|key| key.eq_ignore_ascii_case(name)));
    if let Some(name) = HEADERS.into_iter().find(|name| reply.header(name).is_some() && !declared(name)) {
        return Some(format!("{} with {name} is not in the document", reply.status));
    }
    let Some(media_type) = reply.header("content-type") else {
        return (!answer["content"].is_null()).then(|| format!("{} without the body that the document announces", reply.status));
    };
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    match answer["content"].get(essence) {
        None => Some(format!("{} as {essence} is not in the document", reply.status)),
        Some(content) => fault(document, &content["schema"], &reply.json(), "").map(|f| format!("{}: {f}: {reply:?}", reply.status)),
    }
}

/// The first place where a value is not what the schema says: the part of OpenAPI 3.0 that the document uses, and no member beyond it.
pub fn fault(document: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(reference.strip_prefix('#').unwrap_or_default());
        return schema.map_or_else(|| Some(format!("{reference} is nowhere")), |schema| fault(document, schema, value, at));
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return parts.iter().find_map(|part| fault(document, part, value, at));
    }
    let here = |what: &str| Some(format!("{at:?} is {value}, not {what}"));
    match (schema["type"].as_str(), value) {
        (_, Value::Null) if schema["nullable"] == true => None,
        (Some("object"), Value::Object(members)) => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            if let Some(missing) = required.into_iter().find(|name| !members.contains_key(*name)) {
                return Some(format!("{at}/{missing} is missing"));
            }
            members.iter().find_map(|(name, member)| match schema["properties"].get(name) {
                None => Some(format!("{at}/{name} is not in the document")),
                Some(schema) => fault(document, schema, member, &format!("{at}/{name}")),
            })
        }
        (Some("array"), Value::Array(items)) => {
            items.iter().enumerate().find_map(|(i, item)| fault(document, &schema["items"], item, &format!("{at}/{i}")))
        }
        (Some("string"), Value::String(text)) => {
            let length = text.chars().count() as u64;
            let short = schema["minLength"].as_u64().is_some_and(|least| length < least);
            let long = schema["maxLength"].as_u64().is_some_and(|most| length > most);
            let outside = schema["enum"].as_array().is_some_and(|values| !values.contains(value));
            let no_time = schema["format"] == "date-time" && chrono::DateTime::parse_from_rfc3339(text).is_err();
            if short || long || outside || no_time { here(&schema.to_string()) } else { None }
        }
        (Some("integer"), Value::Number(number)) => {
            let low = schema["minimum"].as_i64().is_some_and(|least| number.as_i64().is_none_or(|n| n < least));
            let high = schema["maximum"].as_i64().is_some_and(|most| number.as_i64().is_none_or(|n| n > most));
            if low || high || !(number.is_i64() || number.is_u64()) { here(&schema.to_string()) } else { None }
        }
        (Some("boolean"), Value::Bool(_)) => None,
        (kind, _) => here(kind.unwrap_or("of any type that is known here")),
    }
}

fn matches(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len() && template.iter().zip(&path).all(|(t, p)| t == p || (t.starts_with('{') && !p.is_empty()))
}
