//! What the tests stand on.

pub mod backlog;
pub mod case;
pub mod client;
pub mod cluster;
pub mod coding;
pub mod database;
pub mod disk;
pub mod document;
mod expectations;
pub mod h2;
pub mod ledger;
pub mod link;
pub mod pgbouncer;
pub mod postgres;
pub mod reply;
pub mod service;
pub mod upstream;
mod upstream_answers;
pub mod wait;
pub mod wire;

/// What nearly every test file uses.
pub mod prelude {
    pub use super::case::{Case, changed};
    pub use super::reply::Reply;
    pub use super::service::Service;
    pub use super::upstream::{Step, Step::*, Upstream};
    pub use super::wait::{eventually, pass, together};
    pub use serde_json::{Value, json};
}

/// Which database a test runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

/// Makes tests of async functions: `both [a, b]` gives `sqlite::a`, `postgres::a`, `sqlite::b`, `postgres::b`.
/// A function that is in no list is dead code, which the compiler reports.
macro_rules! tests {
    ($(both [$($both:ident),* $(,)?])? $(sqlite [$($sqlite:ident),* $(,)?])? $(postgres [$($postgres:ident),* $(,)?])?) => {
        mod sqlite {
            $($( case_on!(Sqlite $both); )*)?
            $($( case_on!(Sqlite $sqlite); )*)?
        }
        mod postgres {
            $($( case_on!(Postgres $both); )*)?
            $($( case_on!(Postgres $postgres); )*)?
        }
    };
}

/// One test: the function `name` of the file, on one engine.
macro_rules! case_on {
    ($engine:ident $name:ident) => {
        #[test]
        fn $name() {
            $crate::support::case::run($crate::support::Engine::$engine, concat!(module_path!(), "::", stringify!($name)), super::$name);
        }
    };
}
