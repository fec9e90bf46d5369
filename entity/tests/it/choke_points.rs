//! Every statement and every call passes one place each, where the crash points sit: so none can be without.

use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn statements_are_sent_by_one_file_and_calls_by_another() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (crates, allowed, words) in [
        (
            &["entity", "jobs", "api"][..],
            "entity/src/database.rs",
            &["one_raw(", "all_raw(", "execute_raw(", "execute_unprepared", "begin_with", ".commit()", "sqlx::"][..],
        ),
        (&["entity", "jobs", "api"][..], "jobs/src/booking/http.rs", &["reqwest::Client", ".send().await"][..]),
    ] {
        for path in crates.iter().flat_map(|name| sources(&root.join(name).join("src"))) {
            let text = std::fs::read_to_string(&path).unwrap();
            let through_ours = text.replace("tx.commit()", "");
            let text = if path.ends_with(allowed) || path.ends_with("tests.rs") { continue } else { through_ours };
            for word in words {
                assert!(!text.contains(word), "{} uses {word}: only {allowed} may", path.display());
            }
        }
    }
}
