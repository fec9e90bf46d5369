//! The examples of the document: answers of a running server, recorded in `examples.json`; a test asks for them again.

use serde_json::{Value, json};

const RECORDED: &str = include_str!("examples.json");

/// Puts every recorded answer under `components`, and refers to it from where it can be answered.
pub(super) fn add_to(document: &mut Value) {
    // Our own file, read by every test; an empty one would fail them.
    let recorded: Value = serde_json::from_str(RECORDED).unwrap_or_default();
    for operations in document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut()) {
        for operation in operations.as_object_mut().into_iter().flat_map(|operations| operations.values_mut()) {
            let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
            for (status, answer) in operation["responses"].as_object_mut().into_iter().flatten() {
                refer(answer, &recorded, &format!("{id}-{status}"));
            }
        }
    }
    let examples = recorded.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), json!({"value": value}))).collect();
    document["components"]["examples"] = Value::Object(examples);
}

/// A success has the example of its operation and status; a problem those of the codes that its description names in backticks.
fn refer(answer: &mut Value, recorded: &Value, success: &str) {
    let description = answer["description"].as_str().unwrap_or_default().to_owned();
    for (media_type, content) in answer.get_mut("content").and_then(Value::as_object_mut).into_iter().flatten() {
        let names: Vec<&str> = match media_type.as_str() {
            "application/json" => vec![success],
            _ => description.split('`').skip(1).step_by(2).collect(),
        };
        let known = names.into_iter().filter(|name| recorded.get(*name).is_some());
        let examples: serde_json::Map<String, Value> =
            known.map(|name| (name.to_owned(), json!({"$ref": format!("#/components/examples/{name}")}))).collect();
        if !examples.is_empty() {
            content["examples"] = Value::Object(examples);
        }
    }
}
