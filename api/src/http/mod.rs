//! HTTP: the routes and everything that reads a request or writes an answer.

pub mod app;
pub mod auth;
pub mod docs;
pub mod document;
pub mod documented;
pub mod entity_tag;
pub mod guard;
pub mod health;
pub mod in_flight;
pub mod key_header;
pub mod keyed;
pub mod keys;
pub mod language;
pub mod leftover;
pub mod parameter;
pub mod payload;
pub mod prefer;
pub mod problem;
pub mod problem_page;
pub mod query;
pub mod reservations;
pub mod root;
pub mod schema;
pub mod stored;
