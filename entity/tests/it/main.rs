//! The tables and transitions on real databases, the same suite on SQLite and PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod changes;
mod choke_points;
mod collations;
mod failed_commits;
mod guards;
mod lifecycle;
mod support;
