//! What a caller asked for, after validation: kept with the key for recovery, and sent to the booking system.

pub use entity::reservation::Details;
use entity::timestamp::Timestamp;

/// A change of a reservation: an absent member stays, `null` clears an optional one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// New quantity, if it changes.
    pub quantity: Option<i32>,
    /// New begin: `Some(None)` clears it.
    pub starts_at: Option<Option<Timestamp>>,
    /// New end: `Some(None)` clears it.
    pub ends_at: Option<Option<Timestamp>>,
    /// New note: `Some(None)` clears it.
    pub note: Option<Option<String>>,
}

impl Change {
    /// The whole new values, as the booking system is sent them (contract, section 5).
    #[must_use]
    pub fn apply(&self, old: &Details) -> Details {
        Details {
            quantity: self.quantity.unwrap_or(old.quantity),
            starts_at: self.starts_at.unwrap_or(old.starts_at),
            ends_at: self.ends_at.unwrap_or(old.ends_at),
            note: self.note.clone().unwrap_or_else(|| old.note.clone()),
            ..old.clone()
        }
    }
}
