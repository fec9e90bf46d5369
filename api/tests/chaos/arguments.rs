//! What `make chaos` hands over.

use std::time::Duration;

use super::database::Engine;
use super::faults::{self, Fault};

/// A storm no longer than this: what is found is found among few keys, and pauses between looks stay short. A longer run is many of them.
const STORM: Duration = Duration::from_secs(20);
const SHORT_STORM: Duration = Duration::from_secs(8);

#[derive(Clone)]
pub struct Arguments {
    /// Of the first storm; each further one has the next.
    pub seed: u64,
    pub storms: u64,
    pub storm: Duration,
    /// It ends, too, when so many faults have met somebody.
    pub max_faults: Option<u64>,
    pub kinds: Vec<(u64, &'static str, Fault)>,
    /// As it was given.
    faults: Option<String>,
}

impl Arguments {
    /// Without any: one short storm that is the same every time.
    pub fn read() -> Self {
        let seconds = number("SECONDS");
        let max_faults = number("MAX_FAULTS");
        if max_faults == Some(0) {
            refuse("MAX_FAULTS: at least 1");
        }
        let seed = match number("SEED") {
            Some(seed) => seed,
            None if seconds.is_some() => u64::from(rand::random::<u32>()),
            None => 1,
        };
        let faults = given("FAULTS");
        let whole = seconds.map_or(SHORT_STORM, Duration::from_secs);
        let storms = whole.as_secs().div_ceil(STORM.as_secs()).max(1);
        Self { seed, storms, storm: whole.min(STORM), max_faults, kinds: kinds(faults.as_deref()), faults }
    }

    /// What cannot be done here, with a line that says so where it would have been.
    pub fn leave_out(&mut self, what: Fault, engine: Engine, why: &str) {
        for (_, name, _) in self.kinds.extract_if(.., |(_, _, fault)| *fault == what).filter(|_| what.applies(engine)) {
            println!("{name} is left out: {why}");
        }
    }

    /// How to run one storm again.
    pub fn again(&self, database: &str, seed: u64) -> String {
        let faults = self.faults.as_ref().map_or(String::new(), |faults| format!(" FAULTS={faults}"));
        format!("make chaos DB={database} SEED={seed} SECONDS={}{faults}", self.storm.as_secs())
    }
}

/// As `make chaos` has it; it hands it over under a longer name.
fn given(name: &str) -> Option<String> {
    std::env::var(format!("CHAOS_{name}")).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Option<u64> {
    given(name).map(|value| value.parse().unwrap_or_else(|_| refuse(&format!("{name}: a whole number, not '{value}'"))))
}

/// Whoever made a mistake is told that, and nothing else.
fn refuse(why: &str) -> ! {
    eprintln!("chaos: {why}");
    std::process::exit(2);
}

/// The kinds that are asked for; without a wish all that have a weight.
fn kinds(wanted: Option<&str>) -> Vec<(u64, &'static str, Fault)> {
    let mut kinds = faults::all();
    if let Some(wanted) = wanted {
        let names: Vec<_> = wanted.split(',').map(str::trim).filter(|name| *name != "none").collect();
        let known = names.iter().all(|name| kinds.iter().any(|(_, kind, _)| kind == name));
        if !known {
            refuse(&format!("FAULTS: none, or some of {}", kinds.iter().map(|(_, name, _)| *name).collect::<Vec<_>>().join(",")));
        }
        kinds.retain(|(_, name, _)| names.contains(name));
        kinds.iter_mut().for_each(|(weight, ..)| *weight = (*weight).max(1));
    }
    kinds.retain(|(weight, ..)| *weight > 0);
    kinds
}
