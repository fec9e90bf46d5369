//! Work done under a lease: settle one claimed key, release stale leases, delete expired keys.
//!
//! Knows the booking system and the scheduler; knows nothing of who calls. Begin with [`settle`].

pub mod answer;
pub mod booking;
pub mod boot_clock;
pub mod config;
pub mod delete_expired_keys;
pub mod drain;
mod jitter;
pub mod journal;
pub mod operator;
pub mod outcomes;
pub mod release_stale_leases;
pub mod request;
pub mod rules;
pub mod scheduler;
pub mod settle;
pub mod telemetry;
