//! What is booked there, and how a request changes it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::asked::Asked;
use super::booking::Mode;
use super::sends::Sends;

/// A booking that really exists there.
#[derive(Clone, Debug)]
pub struct Booking {
    pub booking_id: String,
    pub reference: String,
    pub item_code: String,
    pub details: Value,
    pub cancelled: bool,
    key: String,
}

/// All that the booking system knows.
#[derive(Default)]
pub struct Memory {
    pub bookings: Vec<Booking>,
    pub sends: Sends,
    /// References for which it is out of order.
    pub out_of_order: BTreeSet<String>,
    /// References of which every send is left in doubt, and those of them whose key is forgotten by now.
    pub to_be_forgotten: BTreeSet<String>,
    pub forgotten: BTreeSet<String>,
    /// References of which only a gateway speaks.
    pub behind_gateway: BTreeSet<String>,
    /// Keys of changes that took effect.
    changed: BTreeSet<String>,
    /// How often each thing was asked for.
    asked: BTreeMap<String, u64>,
}

/// A status, and what to say with it.
pub type Said = (u16, Value);

impl Memory {
    /// What names this request in every run, and how often it was made: references are new on every run, items are not.
    pub fn nth(&mut self, asked: &Asked) -> (String, u64) {
        let item = match asked.method.as_str() {
            "POST" => asked.text("item_code"),
            _ => self.bookings.iter().find(|b| b.reference == asked.reference).map(|b| b.item_code.clone()).unwrap_or_default(),
        };
        let what = format!("{} {item}", asked.method);
        let times = self.asked.entry(what.clone()).or_default();
        *times += 1;
        (what, *times)
    }

    /// Whether this is the repetition of a send that it recognises.
    pub fn was_done(&self, mode: Mode, asked: &Asked) -> bool {
        mode.deduplicates && self.bookings.iter().any(|b| b.key == asked.key)
    }

    /// What there is to say before anything is done. Without look-up everything is denied.
    pub fn truth(&self, mode: Mode, asked: &Asked) -> Said {
        let found = self.bookings.iter().find(|b| b.reference == asked.reference && !b.cancelled);
        match found.filter(|_| mode.looks_up || asked.method != "GET") {
            Some(booking) => (200, shown(booking)),
            None => not_there(),
        }
    }

    /// Does as asked. What there is to say then, and what must never have happened.
    pub fn carry_out(&mut self, mode: Mode, asked: &Asked) -> (Said, Option<String>) {
        if asked.method == "POST" {
            self.sends.came(&asked.text("reference"));
            return self.book(mode, asked);
        }
        let repeated = !self.changed.insert(asked.key.clone()) && mode.deduplicates;
        let Some(booking) = self.bookings.iter_mut().find(|b| b.reference == asked.reference) else { return (not_there(), None) };
        match asked.method.as_str() {
            "DELETE" => booking.cancelled = true,
            _ if booking.cancelled => return (not_there(), None),
            _ if repeated => {}
            _ => ["quantity", "note"].iter().for_each(|name| booking.details[*name] = asked.body[*name].clone()),
        }
        ((200, shown(booking)), None)
    }

    fn book(&mut self, mode: Mode, asked: &Asked) -> (Said, Option<String>) {
        if let Some(earlier) = self.bookings.iter().find(|b| mode.deduplicates && b.key == asked.key) {
            return ((200, shown(earlier)), None);
        }
        let booking = Booking {
            booking_id: format!("BK-{}", uuid::Uuid::new_v4().simple()),
            reference: asked.text("reference"),
            item_code: asked.text("item_code"),
            details: asked.body.clone(),
            cancelled: false,
            key: asked.key.clone(),
        };
        // Each item belongs to one key.
        let second = self.bookings.iter().find(|b| b.item_code == booking.item_code).map(|earlier| {
            let (item, first, second) = (&booking.item_code, &earlier.reference, &booking.reference);
            format!("a second booking for one key: {item} under {first}, then under {second}")
        });
        let said = (201, shown(&booking));
        self.bookings.push(booking);
        (said, second)
    }
}

fn not_there() -> Said {
    (404, json!({"error": "no such booking"}))
}

fn shown(booking: &Booking) -> Value {
    let mut shown = booking.details.clone();
    shown["booking_id"] = json!(booking.booking_id);
    shown["reference"] = json!(booking.reference);
    shown
}
