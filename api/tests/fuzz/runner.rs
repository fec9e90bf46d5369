//! Runs a property for a number of cases or for a time, and makes bytes out of a corpus.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, FileFailurePersistence, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::time::{Duration, Instant};

/// Cases of a short run, and of each round of a long one.
const CASES: u32 = 512;

pub fn fuzz<S: Strategy>(target: &str, inputs: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let kept: &'static str = format!("tests/fuzz/regressions/{target}.txt").leak();
    let started = Instant::now();
    let mut executions = 0_u64;
    loop {
        let persistence = Some(Box::new(FileFailurePersistence::Direct(kept)) as Box<_>);
        let config = Config { cases: CASES, failure_persistence: persistence, max_shrink_iters: 20_000, ..Config::default() };
        // A short run makes the same cases every time, so that a change does not fail for what it did not change.
        let mut runner = match seconds {
            0 => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
            _ => TestRunner::new(config),
        };
        if let Err(failure) = runner.run(&inputs, &property) {
            panic!("{target}, after {executions} executions: {failure}");
        }
        executions += u64::from(CASES);
        if started.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    eprintln!("fuzz {target}: {executions} executions in {:.1?}", started.elapsed());
}

/// One change of some bytes.
#[derive(Clone, Debug)]
enum Mutation {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Delete(Index, usize),
    Double(Index, usize),
    Cut(Index),
}

/// A line of the corpus with up to six changes, or bytes out of nowhere. `words` are what the grammar is made of.
pub fn bytes(corpus: &'static str, words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        3 => prop::sample::select(words).prop_map(|w| w.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    let mutation = prop_oneof![
        2 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        4 => (any::<Index>(), word).prop_map(|(at, word)| Mutation::Insert(at, word)),
        2 => (any::<Index>(), 1..8_usize).prop_map(|(at, n)| Mutation::Delete(at, n)),
        1 => (any::<Index>(), 1..300_usize).prop_map(|(at, n)| Mutation::Double(at, n)),
        1 => any::<Index>().prop_map(Mutation::Cut),
    ];
    let lines: Vec<Vec<u8>> = corpus.lines().map(|line| line.as_bytes().to_vec()).collect();
    prop_oneof![
        9 => (prop::sample::select(lines), prop::collection::vec(mutation, 0..6)).prop_map(|(line, mutations)| mutations.iter().fold(line, mutate)),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

fn mutate(mut bytes: Vec<u8>, mutation: &Mutation) -> Vec<u8> {
    match mutation {
        Mutation::Set(at, byte) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Mutation::Insert(at, word) => {
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..at, word.iter().copied());
        }
        Mutation::Delete(at, n) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes.drain(at..(at + n).min(bytes.len()));
        }
        Mutation::Double(at, n) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            let part = bytes[at..(at + n).min(bytes.len())].to_vec();
            bytes.splice(at..at, part);
        }
        Mutation::Cut(at) => bytes.truncate(at.index(bytes.len() + 1)),
        Mutation::Set(..) | Mutation::Delete(..) | Mutation::Double(..) => {}
    }
    bytes
}
