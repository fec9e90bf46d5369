//! The fingerprint: two spellings of one request have one, two requests have two.

use super::runner::fuzz;
use api::fingerprint::{CURRENT, Fingerprint, compute};
use api::http::payload::{canonical_change, canonical_create, change, create, parse_strict};
use chrono::{DateTime, FixedOffset, SecondsFormat};
use entity::timestamp::Timestamp;
use jobs::request::{Change, Details};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Few values, so that two requests are often equal, or differ in one member.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["A", "B", "a", "e\u{301}", "\u{e9}", "\u{1f600}/\"\\", "\u{7f}\u{1}", "1"]).prop_map(str::to_owned),
        "[^\0]{1,20}"
    ]
}

fn instant() -> impl Strategy<Value = Timestamp> {
    let first = -62_100_000_000_000_000_i64;
    prop_oneof![0..3_i64, first..253_300_000_000_000_000, (0..1000_i64).prop_map(|s| s * 1_000_000)]
        .prop_map(|micros| Timestamp::from_micros(micros).unwrap())
}

fn details() -> impl Strategy<Value = Details> {
    let period = (prop::option::of(instant()), prop::option::of(instant()));
    (text(), prop_oneof![1..4_i32, 1..=i32::MAX], text(), period, prop::option::of(prop_oneof![Just(String::new()), text()])).prop_map(
        |(item_code, quantity, reserved_by, (starts_at, ends_at), note)| {
            let ends_at = ends_at.filter(|end| starts_at.is_none_or(|begin| begin < *end));
            Details { item_code, quantity, reserved_by, starts_at, ends_at, note }
        },
    )
}

/// How a request is written: everything that does not matter.
#[derive(Clone, Debug)]
struct Spelling {
    turn: usize,
    space: String,
    escape: bool,
    nulls: bool,
    offset_minutes: i32,
    beyond_micros: String,
}

fn spelling() -> impl Strategy<Value = Spelling> {
    (0..6_usize, "[ \t\r\n]{0,3}", any::<bool>(), any::<bool>(), -1439..=1439_i32, "[0-9]{0,9}").prop_map(
        |(turn, space, escape, nulls, offset_minutes, beyond_micros)| Spelling {
            turn,
            space,
            escape,
            nulls,
            offset_minutes,
            beyond_micros,
        },
    )
}

impl Spelling {
    fn text(&self, text: &str) -> String {
        if self.escape {
            let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            format!("\"{units}\"")
        } else {
            json!(text).to_string()
        }
    }

    fn instant(&self, at: Timestamp) -> String {
        let offset = FixedOffset::east_opt(self.offset_minutes * 60).unwrap();
        let local =
            DateTime::from_timestamp_micros(at.micros()).unwrap().with_timezone(&offset).to_rfc3339_opts(SecondsFormat::Micros, false);
        // An offset must not lead out of the four digits of a year.
        let local = if local.starts_with(['+', '-']) { at.to_string() } else { local };
        let digits = local.find('.').map_or(local.len(), |dot| dot + 7);
        if digits < local.len() {
            self.text(&format!("{}{}{}", &local[..digits], self.beyond_micros, &local[digits..]))
        } else {
            self.text(&local)
        }
    }

    /// The members as JSON.
    fn write(&self, mut members: Vec<(&str, String)>) -> String {
        let n = members.len().max(1);
        members.rotate_left(self.turn % n);
        let space = &self.space;
        let members: Vec<_> =
            members.iter().map(|(name, value)| format!("{space}{}{space}:{space}{value}{space}", self.text(name))).collect();
        format!("{space}{{{}}}{space}", members.join(","))
    }

    fn create(&self, details: &Details) -> String {
        let null = || self.nulls.then(|| "null".to_owned());
        let members = [
            ("item_code", Some(self.text(&details.item_code))),
            ("quantity", Some(details.quantity.to_string())),
            ("reserved_by", Some(self.text(&details.reserved_by))),
            ("starts_at", details.starts_at.map(|at| self.instant(at)).or_else(null)),
            ("ends_at", details.ends_at.map(|at| self.instant(at)).or_else(null)),
            ("note", details.note.as_ref().map(|note| self.text(note)).or_else(null)),
        ];
        self.write(members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }

    fn change(&self, change: &Change) -> String {
        let or_null = |value: Option<String>| value.unwrap_or_else(|| "null".to_owned());
        let members = [
            ("quantity", change.quantity.map(|quantity| quantity.to_string())),
            ("starts_at", change.starts_at.map(|at| or_null(at.map(|at| self.instant(at))))),
            ("ends_at", change.ends_at.map(|at| or_null(at.map(|at| self.instant(at))))),
            ("note", change.note.as_ref().map(|note| or_null(note.as_ref().map(|note| self.text(note))))),
        ];
        self.write(members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }
}

fn fingerprint(route: (&str, &str), id: Option<&str>, body: &Value) -> Fingerprint {
    let parameters: BTreeMap<_, _> = id.iter().map(|id| ("id", *id)).collect();
    compute(CURRENT, route.0, route.1, &parameters, body).unwrap()
}

fn of_create(text: &str) -> (Details, Fingerprint) {
    let details = create(&parse_strict(text.as_bytes()).unwrap()).unwrap_or_else(|faults| panic!("{faults:?}: {text}"));
    let fingerprint = fingerprint(("POST", "/reservations"), None, &canonical_create(&details));
    (details, fingerprint)
}

fn of_change(id: &str, text: &str) -> (Change, Fingerprint) {
    let details = change(&parse_strict(text.as_bytes()).unwrap()).unwrap_or_else(|faults| panic!("{faults:?}: {text}"));
    let fingerprint = fingerprint(("PATCH", "/reservations/{id}"), Some(id), &canonical_change(&details));
    (details, fingerprint)
}

fn changes() -> impl Strategy<Value = Change> {
    let member = |keep: bool| keep;
    (details(), any::<[bool; 4]>(), any::<[bool; 4]>()).prop_filter_map("nothing to change", move |(details, present, cleared)| {
        let change = Change {
            quantity: member(present[0]).then_some(details.quantity),
            starts_at: present[1].then(|| details.starts_at.filter(|_| !cleared[1])),
            ends_at: present[2].then(|| details.ends_at.filter(|_| !cleared[2])),
            note: present[3].then(|| details.note.filter(|_| !cleared[3])),
        };
        (change != Change::default()).then_some(change)
    })
}

#[test]
fn one_request_has_one_fingerprint_and_two_have_two() {
    fuzz("fingerprints-create", (details(), details(), 0..8_usize, spelling(), spelling()), |(one, other, member, spelt, otherwise)| {
        let (read, fingerprint) = of_create(&spelt.create(&one));
        prop_assert_eq!(&read, &one);
        prop_assert_eq!(of_create(&otherwise.create(&one)), (read, fingerprint));
        // Another request: another one altogether, or one that differs in a single member.
        let mut near = one.clone();
        match member {
            0 => near.item_code = other.item_code,
            1 => near.quantity = other.quantity,
            2 => near.reserved_by = other.reserved_by,
            3 => near.note = other.note,
            4 => (near.starts_at, near.ends_at) = (other.starts_at, None),
            5 => (near.item_code, near.reserved_by) = (one.reserved_by.clone(), one.item_code.clone()),
            _ => near = other,
        }
        let (_, near_fingerprint) = of_create(&otherwise.create(&near));
        prop_assert_eq!(near == one, near_fingerprint == fingerprint, "{:?}", near);
        Ok(())
    });
}

#[test]
fn one_change_has_one_fingerprint_and_two_have_two() {
    let ids = || prop::sample::select(vec!["01900000-0000-7000-8000-000000000000", "01900000-0000-7000-8000-000000000001"]);
    fuzz(
        "fingerprints-change",
        (changes(), changes(), ids(), ids(), spelling(), spelling()),
        |(one, other, id, other_id, spelt, otherwise)| {
            let (read, fingerprint) = of_change(id, &spelt.change(&one));
            prop_assert_eq!(&read, &one);
            prop_assert_eq!(of_change(id, &otherwise.change(&one)), (read, fingerprint));
            for (near, near_id) in [(&other, id), (&one, other_id)] {
                let (_, near_fingerprint) = of_change(near_id, &otherwise.change(near));
                prop_assert_eq!((near, near_id) == (&one, id), near_fingerprint == fingerprint, "{:?} of {}", near, near_id);
            }
            Ok(())
        },
    );
}
