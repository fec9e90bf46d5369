//! The validated body as it enters the fingerprint, and how two of them differ.

use jobs::request::{Change, Details};
use serde_json::{Map, Value, json};

use super::pointer;

/// The body of a create: times in UTC, an absent optional member left out (null and absent are the same request).
#[must_use]
pub fn canonical_create(details: &Details) -> Value {
    let Details { item_code, quantity, reserved_by, starts_at, ends_at, note } = details;
    let mut members = Map::new();
    members.insert("item_code".to_owned(), json!(item_code));
    members.insert("quantity".to_owned(), json!(quantity));
    members.insert("reserved_by".to_owned(), json!(reserved_by));
    insert(&mut members, "starts_at", starts_at.map(|t| json!(t)));
    insert(&mut members, "ends_at", ends_at.map(|t| json!(t)));
    insert(&mut members, "note", note.as_ref().map(|n| json!(n)));
    Value::Object(members)
}

/// The body of a change: times in UTC, null kept (it clears a member), an absent member left out.
#[must_use]
pub fn canonical_change(change: &Change) -> Value {
    let Change { quantity, starts_at, ends_at, note } = change;
    let mut members = Map::new();
    insert(&mut members, "quantity", quantity.map(|q| json!(q)));
    insert(&mut members, "starts_at", starts_at.map(|t| json!(t)));
    insert(&mut members, "ends_at", ends_at.map(|t| json!(t)));
    insert(&mut members, "note", note.as_ref().map(|n| json!(n)));
    Value::Object(members)
}

/// JSON Pointers to the top-level members in which two canonical bodies differ, sorted; `""` if one is no object.
#[must_use]
pub fn mismatch(stored: &Value, sent: &Value) -> Vec<String> {
    let (Some(stored_members), Some(sent_members)) = (stored.as_object(), sent.as_object()) else {
        return if stored == sent { Vec::new() } else { vec![String::new()] };
    };
    let mut pointers: Vec<String> = stored_members
        .keys()
        .chain(sent_members.keys())
        .filter(|name| stored_members.get(*name) != sent_members.get(*name))
        .map(|name| pointer::to_member(name))
        .collect();
    pointers.sort();
    pointers.dedup();
    pointers
}

fn insert(members: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    members.extend(value.map(|value| (name.to_owned(), value)));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::http::payload::{change, create};

    #[test]
    fn spelling_is_gone_and_meaning_stays() {
        let of = |body: Value| canonical_create(&create(&body).unwrap());
        let body =
            of(json!({"note": null, "reserved_by": "b", "quantity": 1, "item_code": "A", "starts_at": "2030-01-02T10:00:00.000+09:00"}));
        assert_eq!(body, json!({"item_code": "A", "quantity": 1, "reserved_by": "b", "starts_at": "2030-01-02T01:00:00Z"}));
        let of = |body: Value| canonical_change(&change(&body).unwrap());
        assert_eq!(of(json!({"note": null, "ends_at": "2030-01-02T01:00:00Z"})), json!({"note": null, "ends_at": "2030-01-02T01:00:00Z"}));
    }

    #[test]
    fn the_members_that_differ_are_named_once_and_in_order() {
        let stored = json!({"quantity": 1, "note": "n", "item_code": "A"});
        for (sent, want) in [
            (json!({"quantity": 1, "note": "n", "item_code": "A"}), &[][..]),
            (json!({"quantity": 2, "note": "m", "item_code": "A"}), &["/note", "/quantity"]),
            (json!({"quantity": 1, "item_code": "A"}), &["/note"]),
            (json!({"quantity": 1, "note": null, "item_code": "A", "ends_at": null}), &["/ends_at", "/note"]),
            (json!(null), &[""]),
        ] {
            assert_eq!(mismatch(&stored, &sent), want, "{sent}");
        }
    }
}
