//! What a look-up shows of a booking, compared with a change of it: did the change take effect?

use entity::reservation::Details;
use entity::timestamp::Timestamp;
use serde_json::{Map, Value};

/// The members that a change can change, as the booking system shows them. A member that it leaves out, or shows in a form that we
/// cannot read, says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    quantity: Option<i64>,
    starts_at: Option<Option<ShownTime>>,
    ends_at: Option<Option<ShownTime>>,
    note: Option<Option<String>>,
}

/// A time in the precision in which it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShownTime {
    at: Timestamp,
    /// Microseconds between one time that can be shown and the next.
    step: i64,
}

/// What a booking says of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It took effect.
    Applied,
    /// It did not.
    NotApplied,
    /// It shows neither the old values nor the new ones, or some of each.
    CannotTell,
}

impl Shown {
    /// Reads the members of a booking; of anything else, nothing.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        let Ok(members) = serde_json::from_slice::<Map<String, Value>>(body) else { return Self::default() };
        let time = |name| match members.get(name)? {
            Value::Null => Some(None),
            Value::String(text) => ShownTime::read(text).map(Some),
            _ => None,
        };
        Self {
            quantity: members.get("quantity").and_then(Value::as_i64),
            starts_at: time("starts_at"),
            ends_at: time("ends_at"),
            note: match members.get("note") {
                Some(Value::Null) => Some(None),
                Some(Value::String(text)) => Some(Some(text.clone())),
                _ => None,
            },
        }
    }

    /// Whether a change from `before` to `after` took effect. Only members that it changes say so: one that shows the new value and not
    /// the old one, or the other way round. A change of nothing has no effect to be seen.
    #[must_use]
    pub fn effect_of(&self, before: &Details, after: &Details) -> Effect {
        let quantity = |details: &Details| self.quantity.map(|shown| shown == i64::from(details.quantity));
        let starts_at = |details: &Details| self.starts_at.map(|shown| ShownTime::is(shown, details.starts_at));
        let ends_at = |details: &Details| self.ends_at.map(|shown| ShownTime::is(shown, details.ends_at));
        let note = |details: &Details| self.note.as_ref().map(|shown| *shown == details.note);
        let changed = [
            (before.quantity != after.quantity, quantity(before), quantity(after)),
            (before.starts_at != after.starts_at, starts_at(before), starts_at(after)),
            (before.ends_at != after.ends_at, ends_at(before), ends_at(after)),
            (before.note != after.note, note(before), note(after)),
        ];
        if changed.iter().all(|(changes, ..)| !changes) {
            return Effect::NotApplied;
        }
        let (mut applied, mut not_applied) = (false, false);
        for (_, old, new) in changed.into_iter().filter(|(changes, ..)| *changes) {
            match (old, new) {
                (Some(false), Some(true)) => applied = true,
                (Some(true), Some(false)) => not_applied = true,
                // A third value: somebody else has changed it, or it is kept there in another form.
                (Some(false), Some(false)) => return Effect::CannotTell,
                // Not shown, or too coarse to tell one from the other.
                _ => {}
            }
        }
        match (applied, not_applied) {
            (true, false) => Effect::Applied,
            (false, true) => Effect::NotApplied,
            (true, true) | (false, false) => Effect::CannotTell,
        }
    }
}

impl ShownTime {
    fn read(text: &str) -> Option<Self> {
        let at = Timestamp::parse(text).ok()?;
        let digits = text.split_once('.').map_or(0, |(_, after)| after.bytes().take_while(u8::is_ascii_digit).count());
        let step = 10_i64.pow(6 - u32::try_from(digits.min(6)).unwrap_or(6));
        Some(Self { at, step })
    }

    /// Whether it is this time, cut or rounded to what is shown.
    fn is(shown: Option<Self>, time: Option<Timestamp>) -> bool {
        match (shown, time) {
            (None, None) => true,
            (Some(Self { at, step }), Some(time)) => {
                let cut = time.micros() - time.micros().rem_euclid(step);
                let rounded = if time.micros() - cut >= step - step / 2 { cut + step } else { cut };
                [cut, rounded].contains(&at.micros())
            }
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use serde_json::json;

    fn details(members: &Value) -> Details {
        let mut all = json!({"item_code": "A", "reserved_by": "B", "quantity": 1, "starts_at": null, "ends_at": null, "note": null});
        for (name, value) in members.as_object().unwrap() {
            all[name] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    fn effect(shown: &Value, before: &Value, after: &Value) -> Effect {
        Shown::read(shown.to_string().as_bytes()).effect_of(&details(before), &details(after))
    }

    #[test]
    fn the_new_value_says_applied_the_old_one_not_applied_and_anything_else_nothing() {
        let (before, after) = (json!({"quantity": 2, "note": "window"}), json!({"quantity": 7, "note": null}));
        for (shown, expected) in [
            (json!({"quantity": 7, "note": null}), Effect::Applied),
            (json!({"quantity": 7}), Effect::Applied),
            (json!({"note": null}), Effect::Applied),
            (json!({"quantity": 2, "note": "window"}), Effect::NotApplied),
            (json!({"note": "window"}), Effect::NotApplied),
            (json!({}), Effect::CannotTell),
            (json!({"quantity": "7"}), Effect::CannotTell),
            (json!({"quantity": 7, "note": "window"}), Effect::CannotTell),
            (json!({"quantity": 7, "note": "aisle"}), Effect::CannotTell),
            // What the change leaves alone says nothing of it.
            (json!({"starts_at": null, "ends_at": null}), Effect::CannotTell),
        ] {
            assert_eq!(effect(&shown, &before, &after), expected, "{shown}");
        }
        assert_eq!(effect(&json!([]), &before, &after), Effect::CannotTell);
        assert_eq!(effect(&json!({}), &before, &before), Effect::NotApplied, "a change of nothing");
    }

    #[test]
    fn times_are_compared_in_the_precision_in_which_they_are_shown() {
        let (before, after) = (json!({"starts_at": "2031-05-06T10:00:00.25Z"}), json!({"starts_at": "2031-05-06T11:00:00.75Z"}));
        for (shown, expected) in [
            ("2031-05-06T11:00:00.75Z", Effect::Applied),
            ("2031-05-06T20:00:00.750+09:00", Effect::Applied),
            ("2031-05-06T11:00:00Z", Effect::Applied),
            ("2031-05-06T11:00:01Z", Effect::Applied),
            ("2031-05-06T11:00:00.7Z", Effect::Applied),
            ("2031-05-06T11:00:00.750000000Z", Effect::Applied),
            ("2031-05-06T11:00:00.74Z", Effect::CannotTell),
            ("2031-05-06T10:00:00Z", Effect::NotApplied),
            ("2031-05-06T10:00:00.3Z", Effect::NotApplied),
            ("2031-05-06T10:00:00.000Z", Effect::CannotTell),
            ("2031-05-06", Effect::CannotTell),
        ] {
            assert_eq!(effect(&json!({"starts_at": shown}), &before, &after), expected, "{shown}");
        }
        // Too coarse to tell the old one from the new one.
        let (before, after) = (json!({"ends_at": "2031-05-06T10:00:00.1Z"}), json!({"ends_at": "2031-05-06T10:00:00.2Z"}));
        assert_eq!(effect(&json!({"ends_at": "2031-05-06T10:00:00Z"}), &before, &after), Effect::CannotTell);
        assert_eq!(effect(&json!({"ends_at": null}), &before, &after), Effect::CannotTell);
        assert_eq!(effect(&json!({"ends_at": null}), &before, &json!({})), Effect::Applied);
    }
}
