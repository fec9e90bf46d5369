//! A start that has to wait: it says what for, and ends when it is told to.

use super::support::prelude::*;
use super::support::service::Setup;

tests!(both [
    a_line_never_steers_the_terminal,
] sqlite [
    a_file_that_sqlite_cannot_use_is_named_as_itself,
    a_start_behind_a_writer_names_its_process,
] postgres [
    a_start_behind_a_lock_names_who_holds_it_and_goes_on_when_free,
    a_start_that_waits_ends_when_told_to,
]);

const LOCK: &str = "LOCK TABLE seaql_migrations IN ACCESS EXCLUSIVE MODE";

/// Everything that opens the database: each with the arguments that make it do so.
const PROGRAMS: [(&str, &[&str]); 6] =
    [("api", &[]), ("api", &["token", "list"]), ("jobs", &[]), ("jobs", &["--once"]), ("jobs", &["keys", "list"]), ("migration", &["up"])];

fn program(case: &Case, upstream: &Upstream, (name, arguments): (&'static str, &'static [&'static str])) -> Setup {
    let setup = match name {
        "api" => case.api(upstream),
        "jobs" => case.jobs(upstream),
        name => case.program(name),
    };
    setup.set("DATABASE_ACQUIRE_TIMEOUT", "30s").arguments(arguments.iter().copied())
}

async fn says(service: &Service, words: &str) -> String {
    eventually(words, async || service.log().lines().find(|line| line.contains(words)).map(str::to_owned)).await
}

/// F12
async fn a_start_behind_a_lock_names_who_holds_it_and_goes_on_when_free(case: &Case) {
    let (upstream, service) = case.started().await;
    let lock = case.database.locked(&format!("SET application_name = 'night dump'; {LOCK}")).await;
    let waiting = PROGRAMS.map(|which| (which, program(case, &upstream, which).spawn()));
    for ((name, _), waits) in &waiting {
        let line = says(waits, "still waits for").await;
        assert!(line.starts_with(&format!("{name}: ")), "{line}");
        for words in ["the table seaql_migrations is held by session", "night dump", "idle in transaction"] {
            assert!(line.contains(words), "{line}");
        }
        assert!(!waits.has_ended(), "{name}: {}", waits.log());
    }
    service.post(&case.key(), &case.body()).await.expect_created();
    lock.release().await;
    for ((name, arguments), waits) in waiting {
        match (name, arguments) {
            ("api", []) => waits.is_ready().await,
            ("jobs", []) => waits.terminate(),
            _ => {}
        }
        if (name, arguments.is_empty()) != ("api", true) {
            assert_eq!(waits.ends().await, Some(0), "{name} {arguments:?}: {}", waits.log());
        }
    }
}

/// F13
async fn a_start_that_waits_ends_when_told_to(case: &Case) {
    let (upstream, service) = case.started().await;
    drop(service);
    let lock = case.database.locked(LOCK).await;
    let behind_a_lock = PROGRAMS.map(|which| program(case, &upstream, which).spawn());
    let silent = case.database.link().await;
    for waits in &behind_a_lock {
        says(waits, "still waits for the migration").await;
        waits.terminate();
        assert_eq!(waits.ends().await, Some(1), "{}", waits.log());
        says(waits, "stopped before it was done, while it waited for the migration").await;
    }
    lock.release().await;
    silent.hold();
    let without_an_answer = PROGRAMS.map(|which| program(case, &upstream, which).spawn());
    for waits in &without_an_answer {
        says(waits, "does not answer").await;
        waits.terminate();
        assert_eq!(waits.ends().await, Some(1), "{}", waits.log());
        says(waits, "stopped before it was done, while it waited for the database").await;
    }
    silent.let_go();
}

async fn a_start_behind_a_writer_names_its_process(case: &Case) {
    let (upstream, service) = case.started().await;
    drop(service);
    let writer = case.database.block_writes().await;
    for which in PROGRAMS {
        let waits = program(case, &upstream, which).spawn();
        let line = says(&waits, "still waits for").await;
        assert!(line.contains(&format!("is locked by process {}", std::process::id())), "{line}");
        waits.terminate();
        assert_eq!(waits.ends().await, Some(1), "{}", waits.log());
    }
    writer.release().await;
}

async fn a_file_that_sqlite_cannot_use_is_named_as_itself(case: &Case) {
    for (name, folder) in [("notes.db-wal", false), ("drawer.db-wal", true), ("drawer.db-shm", true), ("drawer.db-journal", true)] {
        let file = case.folder().join(name);
        let database = name.split('-').next().unwrap();
        if folder {
            std::fs::create_dir(&file).unwrap();
        } else {
            std::fs::write(&file, "what I must not forget").unwrap();
        }
        let url = format!("sqlite://{}?mode=rwc", case.folder().join(database).display());
        let ended = case.program("migration").set("DATABASE_URL", &url).arguments(["up"]).run().await;
        assert!(ended.expect_refusal().complaint.contains(name), "{ended:?}");
        if folder {
            std::fs::remove_dir(&file).unwrap();
        } else {
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "what I must not forget");
        }
    }
}

async fn a_line_never_steers_the_terminal(case: &Case) {
    const STEERS: &str = "\u{1b}[2J\u{9b}1m\u{202e}\rx";
    let (upstream, service) = case.started().await;
    service.post(&case.key(), &case.body()).await.expect_created();
    let fine = |text: &str| text.chars().all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}'));
    for (name, arguments) in [
        ("api", &[STEERS][..]),
        ("api", &["token", "create", "--account", STEERS]),
        ("api", &["--listen", STEERS]),
        ("jobs", &["keys", STEERS]),
        ("jobs", &["keys", "list", "--state", STEERS]),
        ("migration", &[STEERS]),
        ("migration", &["up", "--database-url", STEERS]),
    ] {
        let setup = if name == "jobs" { case.jobs(&upstream) } else { case.program(name) };
        let ended = setup.arguments(arguments.iter().copied()).run().await;
        assert!(ended.status.is_some_and(|status| status > 0) && fine(&ended.complaint) && fine(&ended.output), "{arguments:?}: {ended:?}");
    }
    // What is stored, too.
    case.database.execute(&format!("UPDATE idempotency_key SET account = '{STEERS}'")).await;
    let list = case.jobs(&upstream).arguments(["keys", "list"]).run().await;
    assert!(list.expect_success().output.contains("\\u{1b}[2J") && fine(&list.output), "{list:?}");
}
