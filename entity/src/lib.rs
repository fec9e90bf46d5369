//! The tables, and every change of a key's state as one guarded SQL statement.
//!
//! Knows the database and its clock; knows nothing of HTTP or of the booking system.

pub mod api_token;
pub mod attempt_journal;
pub mod crash_point;
pub mod database;
pub mod idempotency_key;
pub mod job_run;
pub mod key_scope;
pub mod key_state;
pub mod lifecycle;
pub mod operator_action;
pub mod reservation;
pub mod store_error;
pub mod timestamp;
