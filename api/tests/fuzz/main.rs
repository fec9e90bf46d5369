//! Fuzz targets on stable Rust: what reads bytes that strangers send. `cargo test -p api --test fuzz` runs each for a moment;
//! `FUZZ_SECONDS=300 cargo test --release -p api --test fuzz -- --nocapture` runs each for so long and tells how many executions that were.
//!
//! Inputs are made from those in `corpus/` by mutation, and from nothing. A failing one is kept in `regressions/` and tried first for ever.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs,
    reason = "a test that cannot go on says so and stops"
)]

mod answers;
mod bodies;
mod fingerprints;
mod keys;
mod runner;
