//! The table in `docs/state-machine.md` and the diagrams there and in both READMEs say what `key_state` does, no more and no less.
#![allow(clippy::expect_used, reason = "a test that cannot go on says so and stops")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use entity::key_state::{Event, KeyState, next};

/// Not stored, as the table writes it.
const NONE: &str = "(none)";

/// From (state, event) to a state, all by name.
type Moves = BTreeMap<(String, String), String>;

fn name(state: Option<KeyState>) -> String {
    state.map_or(NONE, KeyState::as_str).to_owned()
}

/// What the code does, for all states and events.
fn moves_of_the_code() -> Moves {
    let states = || std::iter::once(None).chain(KeyState::ALL.into_iter().map(Some));
    let pairs = states().flat_map(|from| Event::ALL.into_iter().map(move |event| (from, event)));
    pairs.filter_map(|(from, event)| Some(((name(from), event.as_str().to_owned()), name(next(from, event).ok()?)))).collect()
}

fn page(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn add(moves: &mut Moves, from: &str, event: &str, to: &str, line: &str) {
    let before = moves.insert((from.to_owned(), event.to_owned()), to.to_owned());
    assert!(before.is_none(), "said twice: {line}");
}

/// The rows of the table whose head begins with `| state | event | next state |`.
fn moves_of_the_table(page: &str) -> Moves {
    let mut moves = Moves::new();
    let rows = page.lines().skip_while(|line| !line.starts_with("| state | event | next state |")).skip(2);
    for line in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, from, event, to, ..] = cells[..] else { panic!("too few cells: {line}") };
        add(&mut moves, from, event, to, line);
    }
    moves
}

/// The arrows of the page's only state diagram; an arrow may carry several events, with commas between them.
fn moves_of_the_diagram(page: &str) -> Moves {
    let mut diagrams = page.split("```mermaid\n").skip(1).filter_map(|block| block.strip_prefix("stateDiagram-v2\n"));
    let diagram = diagrams.next().and_then(|block| block.split("```").next()).expect("the page has a state diagram");
    assert!(diagrams.next().is_none(), "the page has more than one state diagram");
    let mut moves = Moves::new();
    let state = |text: &str| if text.trim() == "[*]" { NONE.to_owned() } else { text.trim().to_owned() };
    for line in diagram.lines().filter(|line| line.contains("-->")) {
        let (arrow, events) = line.split_once(':').unwrap_or_else(|| panic!("an arrow without an event: {line}"));
        let (from, to) = arrow.split_once("-->").unwrap_or_else(|| panic!("not an arrow: {line}"));
        for event in events.split(',') {
            add(&mut moves, &state(from), event.trim(), &state(to), line);
        }
    }
    moves
}

/// What differs, one line each.
fn differences(source: &str, said: &Moves, done: &Moves) -> Vec<String> {
    let show = |moves: &Moves, key| moves.get(key).map_or("not possible", String::as_str).to_owned();
    let mut keys: Vec<_> = said.keys().chain(done.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter(|key| said.get(*key) != done.get(*key))
        .map(|key| format!("{source}: {}, {}: says {}, the code does {}", key.0, key.1, show(said, key), show(done, key)))
        .collect()
}

#[test]
fn the_pages_say_what_the_code_does() {
    let done = moves_of_the_code();
    let machine = page("docs/state-machine.md");
    let mut faults = differences("table of docs/state-machine.md", &moves_of_the_table(&machine), &done);
    for path in ["docs/state-machine.md", "README.md", "README.ja.md"] {
        faults.extend(differences(&format!("diagram of {path}"), &moves_of_the_diagram(&page(path)), &done));
    }
    assert!(faults.is_empty(), "\n  {}", faults.join("\n  "));
}

#[test]
fn a_difference_is_seen() {
    let done = moves_of_the_code();
    let diagram = "```mermaid\nstateDiagram-v2\n    [*] --> in_progress: claim, renew\n    completed --> released: expire\n```\n";
    let faults = differences("page", &moves_of_the_diagram(diagram), &done);
    let known = |fault: &str| faults.iter().any(|f| f == fault);
    assert!(known("page: (none), renew: says in_progress, the code does not possible"), "{faults:?}");
    assert!(known("page: completed, expire: says released, the code does (none)"), "{faults:?}");
    assert!(known("page: in_progress, free: says not possible, the code does (none)"), "{faults:?}");
    assert!(!faults.iter().any(|fault| fault.starts_with("page: (none), claim")), "{faults:?}");
}
