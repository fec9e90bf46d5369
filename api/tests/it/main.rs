//! The service seen from outside: real processes, real sockets, a scripted booking system, both databases.
//!
//! Nothing here knows the code. What must hold after every test is in `support/ledger.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "a test that cannot go on says so and stops")]

#[macro_use]
mod support;

mod answers;
mod caller_gone;
mod changes;
mod config;
mod content_codings;
mod crash;
mod crash_points;
mod documents;
mod expired;
mod failover;
mod framework_errors;
mod http2;
mod instruments;
mod jobs;
mod key_syntax;
mod leases;
mod limits;
mod named_tests;
mod operator;
mod other_side;
mod panics;
mod pooler;
mod prefer;
mod reads;
mod refusals;
mod refused_changes;
mod sandbox;
mod scenarios;
mod scope;
mod shutdown;
mod starts;
mod statements;
mod storage;
mod storage_postgres;
mod storage_refuses;
mod storage_replicas;
mod strict_body;
mod sweeps;
mod time_zones;
mod tokens;
mod unknown_outcome;
mod unknown_retried;
mod write_ahead_log;
