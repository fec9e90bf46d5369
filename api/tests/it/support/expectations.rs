//! What a test demands of an answer; it fails with the answer where that is something else.

use super::reply::Reply;
use serde_json::Value;

impl Reply {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(self.body()).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The id of the reservation in the body.
    #[track_caller]
    pub fn id(&self) -> String {
        self.json()["id"].as_str().unwrap_or_else(|| panic!("no id: {self:?}")).to_owned()
    }

    #[track_caller]
    pub fn etag(&self) -> String {
        self.header("etag").unwrap_or_else(|| panic!("no ETag: {self:?}")).to_owned()
    }

    /// It is this problem; its form was checked when it came (see `ledger.rs`).
    #[track_caller]
    pub fn expect_problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, self.code().as_deref()), (status, Some(code)), "{self:?}");
        assert!(!self.is_replay() || code == "booking-rejected", "a problem that is not stored is marked as a replay: {self:?}");
        self
    }

    /// It is the first answer to a request that booked; the reservation in it.
    #[track_caller]
    pub fn expect_created(&self) -> Value {
        assert_eq!(self.status, 201, "{self:?}");
        assert!(!self.is_replay(), "the first answer is marked as a replay: {self:?}");
        let reservation = self.json();
        assert_eq!(reservation["status"], "confirmed", "{self:?}");
        assert!(reservation["booking_id"].is_string(), "{self:?}");
        reservation
    }

    /// It is 204 without a body.
    #[track_caller]
    pub fn expect_no_content(&self) -> &Self {
        assert_eq!((self.status, self.body()), (204, &b""[..]), "{self:?}");
        self
    }

    /// It is the same answer once more, and says so.
    #[track_caller]
    pub fn expect_replay_of(&self, first: &Reply) -> &Self {
        assert!(self.is_replay(), "not marked as a replay: {self:?}");
        assert_eq!(self.stored_part(), first.stored_part(), "the replay differs: {self:?}, first: {first:?}");
        self
    }

    /// It shows the same reservation, as it was then.
    #[track_caller]
    pub fn expect_same_reservation(&self, first: &Reply) -> &Self {
        assert_eq!((self.status, self.json(), self.etag()), (200, first.json(), first.etag()), "{self:?}");
        self
    }

    /// `Retry-After` in whole seconds.
    #[track_caller]
    pub fn retry_after(&self) -> u64 {
        let value = self.header("retry-after").unwrap_or_else(|| panic!("no Retry-After: {self:?}"));
        value.parse().unwrap_or_else(|_| panic!("Retry-After {value:?}: {self:?}"))
    }
}
