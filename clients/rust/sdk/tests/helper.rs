//! The helper's hand-written types are those of the document: each goes over into the generated one and back unchanged.

use reservation_client as helper;
use reservation_sdk::types;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Through the generated type. Nulls are left out on both sides: absent and null are one for these members.
fn through<Generated: Serialize + DeserializeOwned>(value: &impl Serialize) -> (Value, Value) {
    let ours = serde_json::to_value(value).expect("ours");
    let generated: Generated = serde_json::from_value(ours.clone()).expect("the document does not have this");
    (without_nulls(ours), without_nulls(serde_json::to_value(generated).expect("generated")))
}

fn without_nulls(value: Value) -> Value {
    let Value::Object(members) = value else { return value };
    members.into_iter().filter(|(_, member)| !member.is_null()).collect()
}

#[test]
fn a_new_reservation() {
    let ours = helper::NewReservation {
        item_code: "ROOM".into(),
        quantity: 1,
        reserved_by: "taro".into(),
        starts_at: Some("2030-01-02T10:00:00Z".into()),
        ends_at: Some("2030-01-02T11:00:00Z".into()),
        note: Some("by the window".into()),
    };
    let (ours, generated) = through::<types::CreateReservation>(&ours);
    assert_eq!(ours, generated);
}

#[test]
fn a_change() {
    let ours = helper::ChangeReservation {
        quantity: Some(2),
        starts_at: Some(Some("2030-01-02T10:00:00Z".into())),
        ends_at: Some(Some("2030-01-02T11:00:00Z".into())),
        note: Some(Some("two of us".into())),
    };
    let (ours, generated) = through::<types::ChangeReservation>(&ours);
    assert_eq!(ours, generated);
}

#[test]
fn a_reservation_in_every_status() {
    for status in ["pending", "confirmed", "rejected", "released", "cancelled"] {
        let body = json!({
            "id": "01a23500-649c-7431-9d32-538e2d9a744e", "status": status, "item_code": "ROOM", "quantity": 1, "reserved_by": "taro",
            "starts_at": "2030-01-02T10:00:00Z", "ends_at": "2030-01-02T11:00:00Z", "note": "n", "booking_id": "b",
            "created_at": "2030-01-01T10:00:00Z", "updated_at": "2030-01-01T10:00:00Z",
        });
        let ours: helper::Reservation = serde_json::from_value(body).expect("a reservation");
        let (ours, generated) = through::<types::Reservation>(&ours);
        assert_eq!(ours, generated);
    }
}

#[test]
fn a_problem_with_every_advice() {
    for retry in ["same_key", "corrected", "new_key", "never", "ask"] {
        let body = json!({
            "type": "/problems/internal", "title": "t", "status": 500, "detail": "d", "code": "internal", "retry": retry, "instance": "/i",
            "errors": [{"pointer": "/note", "detail": "d"}], "mismatch": ["/note"],
        });
        let ours: helper::Problem = serde_json::from_value(body).expect("a problem");
        let (ours, generated) = through::<types::Problem>(&ours);
        assert_eq!(ours, generated);
    }
}
