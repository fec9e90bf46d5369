//! The sandbox's OpenAPI document: one file, given as JSON and, rewritten, as YAML.

use serde_json::Value;

/// The document, hand-written.
pub(super) const JSON: &str = include_str!("openapi.json");

/// The same document as YAML.
pub(super) fn yaml() -> Result<String, serde_json::Error> {
    let document: Value = serde_json::from_str(JSON)?;
    Ok(crate::yaml::from_json(&document))
}
