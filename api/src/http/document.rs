//! The OpenAPI document: generated from the operations, mended where the generator falls short, the same in every form it is given.

mod examples;

use poem_openapi::{ContactObject, OpenApiService};
use serde_json::{Value, json};

use super::keys::KeysApi;
use super::reservations::ReservationsApi;

/// The operations as one service.
#[must_use]
pub fn service() -> OpenApiService<(ReservationsApi, KeysApi), ()> {
    OpenApiService::new((ReservationsApi, KeysApi), "Reservation API", env!("CARGO_PKG_VERSION"))
        .description(
            "Reservations that can be retried safely. Every `POST` and `PATCH` carries an `Idempotency-Key`: make one key per intended \
             operation, before its first attempt, and send the same request under the same key until its answer is final. It is carried \
             out once, and every retry gets the same bytes.\n\nErrors are `application/problem+json` (RFC 9457). Their member `retry` says \
             what to do: `same_key` send it again as it is after `Retry-After`, `corrected` correct it, `new_key` the key belongs to \
             another request, `never` it is final, `ask` the outcome is unknown: ask again, and do not make a new key.",
        )
        .contact(ContactObject::new().name("The maintainers of the Reservation API"))
        .license(poem_openapi::LicenseObject::new("MIT").url("https://opensource.org/license/mit"))
}

/// The document.
#[must_use]
pub fn document() -> Value {
    // The generator's own JSON always parses; an empty document would fail every test of it.
    let mut document: Value = serde_json::from_str(&service().spec()).unwrap_or_default();
    // Relative to the document itself, so that it holds behind any proxy and under any sub-path.
    document["servers"] = json!([{"url": ".", "description": "Where this document was loaded from"}]);
    for schema in ["CreateReservation", "ChangeReservation"] {
        // Unknown members are refused, but the generator does not say so.
        document["components"]["schemas"][schema]["additionalProperties"] = json!(false);
    }
    document["components"]["schemas"]["ChangeReservation"]["minProperties"] = json!(1);
    // The generator requires no member that may be null; an answer always has them.
    for schema in ["Reservation", "ReservationList", "IdempotencyKey"] {
        let schema = &mut document["components"]["schemas"][schema];
        schema["required"] = schema["properties"].as_object().into_iter().flat_map(|members| members.keys()).cloned().collect();
    }
    document["components"]["schemas"]["Problem"]["properties"]["status"] =
        json!({"description": "The status code of this answer.", "type": "integer", "format": "int32", "minimum": 400, "maximum": 599});
    // What it is about comes first; the generator sorts by name.
    if let Some(tags) = document["tags"].as_array_mut() {
        tags.sort_by_key(|tag| tag["name"] != "Reservations");
    }
    mend_operations(&mut document);
    drop_noise(&mut document);
    write_integers_as_integers(&mut document);
    examples::add_to(&mut document);
    document
}

fn mend_operations(document: &mut Value) {
    let list = &mut document["paths"]["/reservations"]["get"];
    for parameter in list["parameters"].as_array_mut().into_iter().flatten().filter(|parameter| parameter["name"] == "limit") {
        parameter["schema"] = json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 100, "default": 20});
    }
    // Said, so that it reads as meant and not as forgotten.
    document["paths"]["/idempotency-policy"]["get"]["security"] = json!([]);
    // What can be asked about the reservation that an answer shows.
    let by_id = |operation: &str| json!({"operationId": operation, "parameters": {"id": "$response.body#/id"}});
    let links = json!({
        "read": by_id("getReservation"),
        "change": by_id("changeReservation"),
        "cancel": by_id("cancelReservation"),
    });
    for (path, method, status) in [
        ("/reservations", "post", "201"),
        ("/reservations", "post", "202"),
        ("/reservations/{id}", "patch", "200"),
        ("/reservations/{id}", "patch", "202"),
        ("/reservations/{id}", "get", "200"),
    ] {
        document["paths"][path][method]["responses"][status]["links"] = links.clone();
    }
}

/// What says nothing (`deprecated: false`, `explode`), and the second half of `allOf: [reference, description]`: the description stands
/// beside it, and some readers take the half for a type of its own.
fn drop_noise(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if members.get("deprecated") == Some(&json!(false)) {
                members.remove("deprecated");
            }
            if members.contains_key("in") {
                members.remove("explode");
            }
            if let Some(Value::Array(parts)) = members.get_mut("allOf") {
                parts.retain(|part| part.get("$ref").is_some());
            }
            members.values_mut().for_each(drop_noise);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_noise),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The generator keeps limits as floating-point numbers, which some readers refuse for an integer.
fn write_integers_as_integers(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(write_integers_as_integers),
        Value::Array(items) => items.iter_mut().for_each(write_integers_as_integers),
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9e15) {
                // Whole and far within the range, as just compared.
                #[expect(clippy::cast_possible_truncation, reason = "compared with the range of i64 above")]
                let whole = whole as i64;
                *number = whole.into();
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// As committed in `openapi.yaml`.
#[must_use]
pub fn yaml() -> String {
    format!("# Generated by `make openapi`; do not edit.\n{}", crate::yaml::from_json(&document()))
}
