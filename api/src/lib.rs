//! The HTTP API: who calls, what key, what body; claims, hands the lease to `jobs`, answers.

pub mod config;
pub mod fingerprint;
pub mod http;
pub mod listener;
pub mod metrics;
pub mod sandbox;
pub mod serve;
pub mod service;
pub mod tokens;
pub mod waiting;
pub mod yaml;
