//! What the sandbox's callers send and get, and the checks on it.

use chrono::{DateTime, FixedOffset};
use serde::{Deserialize, Serialize};

/// A booking as its callers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Booking {
    pub booking_id: String,
    #[serde(flatten)]
    pub request: NewBooking,
}

/// The body of `POST /bookings`. Unknown members are ignored, as a system does that is older than its callers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NewBooking {
    pub reference: String,
    pub item_code: String,
    pub quantity: u32,
    pub reserved_by: String,
    pub starts_at: Option<String>,
    pub ends_at: Option<String>,
    pub note: Option<String>,
}

/// The body of `PATCH /bookings/{reference}`: the whole new values; an absent member becomes null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NewValues {
    pub quantity: u32,
    pub starts_at: Option<String>,
    pub ends_at: Option<String>,
    pub note: Option<String>,
}

impl Booking {
    pub(super) fn new(request: NewBooking) -> Self {
        let mut random = uuid::Uuid::new_v4().simple().to_string();
        random.truncate(12);
        Self { booking_id: format!("BK-{random}"), request }
    }

    pub(super) fn apply(&mut self, values: NewValues) {
        let NewValues { quantity, starts_at, ends_at, note } = values;
        self.request.quantity = quantity;
        self.request.starts_at = starts_at;
        self.request.ends_at = ends_at;
        self.request.note = note;
    }
}

impl NewBooking {
    /// Says what is wrong with it.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        check_length(&self.reference, 1..=255, "reference has 1 to 255 characters")?;
        check_length(&self.item_code, 1..=64, "item_code has 1 to 64 characters")?;
        check_length(&self.reserved_by, 1..=128, "reserved_by has 1 to 128 characters")?;
        check_values(self.quantity, self.starts_at.as_deref(), self.ends_at.as_deref(), self.note.as_deref())
    }
}

impl NewValues {
    /// Says what is wrong with them.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        check_values(self.quantity, self.starts_at.as_deref(), self.ends_at.as_deref(), self.note.as_deref())
    }
}

fn check_values(quantity: u32, starts_at: Option<&str>, ends_at: Option<&str>, note: Option<&str>) -> Result<(), &'static str> {
    if quantity < 1 {
        return Err("quantity is at least 1");
    }
    check_length(note.unwrap_or_default(), 0..=1000, "note has at most 1000 characters")?;
    if let (Some(starts_at), Some(ends_at)) = (time(starts_at)?, time(ends_at)?)
        && ends_at <= starts_at
    {
        return Err("ends_at is after starts_at");
    }
    Ok(())
}

fn check_length(text: &str, allowed: std::ops::RangeInclusive<usize>, otherwise: &'static str) -> Result<(), &'static str> {
    if allowed.contains(&text.chars().count()) { Ok(()) } else { Err(otherwise) }
}

fn time(text: Option<&str>) -> Result<Option<DateTime<FixedOffset>>, &'static str> {
    text.map(DateTime::parse_from_rfc3339).transpose().map_err(|_| "starts_at and ends_at are RFC 3339 times with an offset")
}
