//! The SDK as progenitor generates it from openapi.yaml; nothing is added.

include!(concat!(env!("OUT_DIR"), "/sdk.rs"));
