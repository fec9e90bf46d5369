//! How the API description shows the bodies; they are validated by `create` and `change`, which count alike.

use poem_openapi::{Object, types::Example};

use super::DateTime;

/// A reservation to be made. An optional member may be absent or null, which is the same request.
#[derive(Debug, Clone, Object)]
#[oai(rename = "CreateReservation", deny_unknown_fields, skip_serializing_if_is_none, example)]
pub struct CreateReservation {
    /// What is reserved; 1 to 64 Unicode characters.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub item_code: String,
    /// How many; written as an integer, without fraction or exponent.
    #[oai(validator(minimum(value = "1"), maximum(value = "2147483647")))]
    pub quantity: i32,
    /// For whom; 1 to 128 Unicode characters.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub reserved_by: String,
    /// Begin of the period; kept to the microsecond.
    #[oai(nullable)]
    pub starts_at: Option<DateTime>,
    /// End of the period, after its begin; kept to the microsecond.
    #[oai(nullable)]
    pub ends_at: Option<DateTime>,
    /// Free text; up to 1000 Unicode characters.
    #[oai(nullable, validator(max_length = 1000))]
    pub note: Option<String>,
}

impl Example for CreateReservation {
    fn example() -> Self {
        Self {
            item_code: "ROOM-101".to_owned(),
            quantity: 1,
            reserved_by: "Hanako Yamada".to_owned(),
            starts_at: Some(DateTime("2030-01-02T10:00:00+09:00".to_owned())),
            ends_at: Some(DateTime("2030-01-02T11:00:00+09:00".to_owned())),
            note: Some("by the window".to_owned()),
        }
    }
}

/// A change of a reservation: at least one member. An absent member stays as it is, null clears an optional one.
#[derive(Debug, Clone, Object)]
#[oai(rename = "ChangeReservation", deny_unknown_fields, skip_serializing_if_is_none, example)]
pub struct ChangeReservation {
    /// How many; written as an integer, without fraction or exponent. Cannot be null.
    #[oai(validator(minimum(value = "1"), maximum(value = "2147483647")))]
    pub quantity: Option<i32>,
    /// Begin of the period; null clears it.
    #[oai(nullable)]
    pub starts_at: Option<DateTime>,
    /// End of the period, after its begin; null clears it.
    #[oai(nullable)]
    pub ends_at: Option<DateTime>,
    /// Free text; up to 1000 Unicode characters; null clears it.
    #[oai(nullable, validator(max_length = 1000))]
    pub note: Option<String>,
}

impl Example for ChangeReservation {
    fn example() -> Self {
        Self { quantity: Some(2), starts_at: None, ends_at: None, note: Some("two of us".to_owned()) }
    }
}
