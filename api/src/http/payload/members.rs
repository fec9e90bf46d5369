//! The members of a create or change body, validated all at once (limits: contract, section 3).

use entity::timestamp::Timestamp;
use jobs::request::{Change, Details};
use serde_json::{Map, Value};

use super::{pointer, strict::MAX_FAULTS};
use crate::http::problem::FieldError;

/// Longest `item_code`, in Unicode characters.
pub(super) const ITEM_CODE_MAX: usize = 64;
/// Longest `reserved_by`, in Unicode characters.
pub(super) const RESERVED_BY_MAX: usize = 128;
/// Longest `note`, in Unicode characters.
pub(super) const NOTE_MAX: usize = 1000;

const CREATE: [&str; 6] = ["item_code", "quantity", "reserved_by", "starts_at", "ends_at", "note"];
const CHANGE: [&str; 4] = ["quantity", "starts_at", "ends_at", "note"];

/// The body of `POST /reservations`; an optional member may be absent or null, which is the same.
///
/// # Errors
/// Every fault at once, never none.
pub fn create(value: &Value) -> Result<Details, Vec<FieldError>> {
    let mut members = Members::of(value, &CREATE)?;
    let item_code = members.required("item_code", |v| text(v, 1, ITEM_CODE_MAX));
    let quantity = members.required("quantity", quantity);
    let reserved_by = members.required("reserved_by", |v| text(v, 1, RESERVED_BY_MAX));
    let starts_at = members.nullable("starts_at", instant).flatten();
    let ends_at = members.nullable("ends_at", instant).flatten();
    let note = members.nullable("note", |v| text(v, 0, NOTE_MAX)).flatten();
    members.check_period(starts_at, ends_at);
    match (item_code, quantity, reserved_by) {
        (Some(item_code), Some(quantity), Some(reserved_by)) if members.faults.is_empty() => {
            Ok(Details { item_code, quantity, reserved_by, starts_at, ends_at, note })
        }
        _ => Err(members.faults),
    }
}

/// The body of `PATCH /reservations/{id}`; null clears an optional member, an absent one stays.
///
/// Where only one end of the period changes, its order can be checked only against the reservation: [`check_period`].
///
/// # Errors
/// Every fault at once, never none; a body that changes nothing is one.
pub fn change(value: &Value) -> Result<Change, Vec<FieldError>> {
    let mut members = Members::of(value, &CHANGE)?;
    let change = Change {
        quantity: members.present("quantity", quantity),
        starts_at: members.nullable("starts_at", instant),
        ends_at: members.nullable("ends_at", instant),
        note: members.nullable("note", |v| text(v, 0, NOTE_MAX)),
    };
    members.check_period(change.starts_at.flatten(), change.ends_at.flatten());
    if members.faults.is_empty() && change == Change::default() {
        members.fault("", "there is nothing to change");
    }
    if members.faults.is_empty() { Ok(change) } else { Err(members.faults) }
}

/// The end of a period must be after its begin; either may be open.
///
/// # Errors
/// The fault, at `/ends_at`.
pub fn check_period(starts: Option<Timestamp>, ends: Option<Timestamp>) -> Result<(), FieldError> {
    match (starts, ends) {
        (Some(starts), Some(ends)) if ends <= starts => Err(FieldError::new("/ends_at", "must be after starts_at")),
        _ => Ok(()),
    }
}

/// The members of one object while they are read, and the faults so far.
struct Members<'v> {
    object: &'v Map<String, Value>,
    faults: Vec<FieldError>,
}

impl<'v> Members<'v> {
    fn of(value: &'v Value, known: &[&str]) -> Result<Self, Vec<FieldError>> {
        let object = value.as_object().ok_or_else(|| vec![FieldError::new("", "must be a JSON object")])?;
        let mut members = Self { object, faults: Vec::new() };
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            members.fault(&pointer::to_member(name), "is not a member of this request");
        }
        // Room for the known members' own faults: a caller with many unknown ones still sees those.
        members.faults.truncate(MAX_FAULTS);
        Ok(members)
    }

    fn required<T>(&mut self, name: &str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        if !self.object.contains_key(name) {
            self.fault(&pointer::to_member(name), "is required");
        }
        self.present(name, read)
    }

    /// A member that may be absent, but not null.
    fn present<T>(&mut self, name: &str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        match read(self.object.get(name)?) {
            Ok(value) => Some(value),
            Err(detail) => {
                self.fault(&pointer::to_member(name), &detail);
                None
            }
        }
    }

    /// A member that may be absent (`None`) or null (`Some(None)`).
    fn nullable<T>(&mut self, name: &str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<Option<T>> {
        match self.object.get(name)? {
            Value::Null => Some(None),
            _ => self.present(name, read).map(Some),
        }
    }

    fn check_period(&mut self, starts: Option<Timestamp>, ends: Option<Timestamp>) {
        self.faults.extend(check_period(starts, ends).err());
    }

    fn fault(&mut self, pointer: &str, detail: &str) {
        self.faults.push(FieldError::new(pointer, detail));
    }
}

fn text(value: &Value, min: usize, max: usize) -> Result<String, String> {
    let fault = || {
        if min == 0 {
            format!("must be a text of at most {max} characters")
        } else {
            format!("must be a text of {min} to {max} characters")
        }
    };
    let text = value.as_str().ok_or_else(fault)?;
    if (min..=max).contains(&text.chars().count()) { Ok(text.to_owned()) } else { Err(fault()) }
}

/// Only an integer literal: `1.0`, `1e0` and `-0` were read as floating-point numbers, and their spelling is refused.
fn quantity(value: &Value) -> Result<i32, String> {
    value
        .as_i64()
        .and_then(|n| i32::try_from(n).ok())
        .filter(|n| *n >= 1)
        .ok_or_else(|| format!("must be an integer from 1 to {}, written without fraction or exponent", i32::MAX))
}

fn instant(value: &Value) -> Result<Timestamp, String> {
    value
        .as_str()
        .and_then(|text| Timestamp::parse(text).ok())
        .ok_or_else(|| "must be an RFC 3339 date-time with offset, such as 2030-01-02T10:00:00+09:00".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::http::payload::parse_strict;
    use serde_json::json;

    fn pointers<T: std::fmt::Debug>(result: Result<T, Vec<FieldError>>) -> Vec<String> {
        result.unwrap_err().into_iter().map(|f| f.pointer).collect()
    }

    fn base(over: &Value) -> Value {
        let mut body = json!({"item_code": "A", "quantity": 1, "reserved_by": "b"});
        body.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
        body
    }

    #[test]
    fn limits_count_characters_and_null_is_absent() {
        let body =
            base(&json!({"item_code": "予".repeat(64), "reserved_by": "約".repeat(128), "note": "😀".repeat(1000), "quantity": 2147483647,
            "starts_at": null, "ends_at": "2030-01-02T10:00:00+09:00"}));
        let details = create(&body).unwrap();
        assert_eq!((details.quantity, details.starts_at), (i32::MAX, None));
        assert_eq!(details.ends_at.unwrap().to_string(), "2030-01-02T01:00:00Z");
        assert_eq!(create(&base(&json!({"note": ""}))).unwrap().note.as_deref(), Some(""));
        assert_eq!(create(&base(&json!({"note": null}))), create(&base(&json!({}))));
    }

    #[test]
    fn each_fault_of_a_create_is_at_its_member() {
        for (over, want) in [
            (json!({"item_code": ""}), "/item_code"),
            (json!({"item_code": "x".repeat(65)}), "/item_code"),
            (json!({"item_code": null}), "/item_code"),
            (json!({"reserved_by": ""}), "/reserved_by"),
            (json!({"reserved_by": "x".repeat(129)}), "/reserved_by"),
            (json!({"note": "x".repeat(1001)}), "/note"),
            (json!({"note": 5}), "/note"),
            (json!({"extra/": 1}), "/extra~1"),
            (json!({"starts_at": "2030-01-02"}), "/starts_at"),
            (json!({"starts_at": 1}), "/starts_at"),
            (json!({"starts_at": "2030-01-02T10:00:00Z", "ends_at": "2030-01-02T19:00:00+09:00"}), "/ends_at"),
        ] {
            assert_eq!(pointers(create(&base(&over))), [want], "{over}");
        }
        for literal in
            ["1.0", "1e0", "10E-1", "\"1\"", "0", "-1", "-0", "null", "true", "[1]", "2147483648", "18446744073709551617", "1e300"]
        {
            let value = parse_strict(format!("{{\"item_code\":\"A\",\"reserved_by\":\"b\",\"quantity\":{literal}}}").as_bytes()).unwrap();
            assert_eq!(pointers(create(&value)), ["/quantity"], "{literal}");
        }
        for value in [json!(null), json!([]), json!("x"), json!(1), json!([base(&json!({}))])] {
            assert_eq!(pointers(create(&value)), [""]);
        }
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let body = json!({"x": 1, "quantity": 0, "note": [], "starts_at": "?", "item_code": "A"});
        assert_eq!(pointers(create(&body)), ["/x", "/quantity", "/reserved_by", "/starts_at", "/note"]);
        assert_eq!(create(&json!({"item_code": "A", "quantity": 1})).unwrap_err(), [FieldError::new("/reserved_by", "is required")]);
        let unknown: Map<String, Value> = (0..100).map(|n| (format!("m{n}"), json!(n))).collect();
        assert_eq!(pointers(create(&Value::Object(unknown))).len(), MAX_FAULTS + 3);
    }

    #[test]
    fn a_change_tells_null_from_absent() {
        let change_of = |body: Value| change(&body);
        assert_eq!(change_of(json!({"note": null})).unwrap(), Change { note: Some(None), ..Change::default() });
        assert_eq!(change_of(json!({"quantity": 2})).unwrap(), Change { quantity: Some(2), ..Change::default() });
        for (body, want) in [
            (json!({}), vec![""]),
            (json!({"quantity": null}), vec!["/quantity"]),
            (json!({"item_code": "A", "reserved_by": "b"}), vec!["/item_code", "/reserved_by"]),
            (json!({"starts_at": "2030-01-02T10:00:00Z", "ends_at": "2030-01-02T10:00:00Z"}), vec!["/ends_at"]),
        ] {
            assert_eq!(pointers(change_of(body)), want);
        }
        assert!(change_of(json!({"starts_at": null, "ends_at": "2030-01-02T10:00:00Z"})).is_ok());
    }
}
