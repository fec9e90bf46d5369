//! A worker on a real database and beside a booking system that does what a script says: the script holds answers back and so decides
//! what comes first. What the SQL does is tried in `entity/tests/it`, what callers see in `api/tests/it`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod booking;
mod changes;
mod creations;
mod order;
mod release_job;
mod world;
