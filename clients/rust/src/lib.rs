#![doc = include_str!("../README.md")]

mod answer;
mod client;
mod error;
mod models;
mod store;

pub use self::{
    client::{Answer, Client},
    error::Error,
    models::{ChangeReservation, FieldError, NewReservation, Problem, Reservation, Retry, Status},
    store::{FileStore, MemoryStore, Record, SavedAnswer, SavedRequest, State, Store},
};
