//! Settings: a bad one stops the start with one clear line.

use super::support::prelude::*;
use super::support::service::{Setup, free_port};

tests!(sqlite [
    a_bad_setting_stops_the_start_and_names_itself,
    a_start_that_fails_repeats_no_secret,
    a_port_in_use_stops_the_start,
    help_lists_every_setting,
    a_flag_goes_before_the_environment,
] postgres [
    a_database_that_cannot_be_written_stops_the_start,
]);

async fn a_bad_setting_stops_the_start_and_names_itself(case: &Case) {
    let upstream = case.upstream().await;
    for (name, value) in [
        ("LEASE", "soon"),
        ("LEASE", "0s"),
        ("LEASE", "500ms"),         // less than twice the connect time-out
        ("KEY_RETENTION", "2s"),    // less than LEASE and BOOKING_TIMEOUT together
        ("ANSWER_WITHIN", "500ms"), // less than BOOKING_TIMEOUT
        ("BOOKING_TIMEOUT", "-1s"),
        ("BOOKING_URL", "no address"),
        ("BOOKING_URL", "ftp://127.0.0.1/"),
        ("BOOKING_URL", "http:///bookings"),
        ("BOOKING_URL", "http://127.0.0.1/ /"),
        ("BOOKING_URL", "http://user@127.0.0.1/"),
        ("BOOKING_URL", "http://127.0.0.1/?a=b"),
        ("BOOKING_TOKEN", "two words"),
        ("BOOKING_TOKEN", "ünsichtbar"),
        ("BOOKING_KEY_RETENTION", "1s"), // no more than BOOKING_TIMEOUT and ABSENT_AFTER together
        ("BOOKING_IDEMPOTENT", "perhaps"),
        ("ON_DUPLICATE", "perhaps"),
        ("ON_ABSENT", "perhaps"),
        ("KEY_SYNTAX", "loose"),
        ("SCHEDULER", "sometimes"),
        ("RELEASE_SCHEDULE", "often"),
        ("RELEASE_SCHEDULE", "0 0 0 31 2 *"), // never
        ("CLEANUP_SCHEDULE", "61 * * * * *"),
        ("DATABASE_URL", "mysql://127.0.0.1/x"),
        ("DATABASE_URL", "sqlite::memory:"),
        ("DATABASE_URL", "sqlite://x.db?mode=ro"),
        ("DATABASE_POOL", "0"),
        ("BODY_LIMIT", "much"),
        ("RATE_LIMIT", "some"),
        ("PUBLIC_URL", "no address"),
        ("PUBLIC_URL", "http://book.example/b c"),
        ("CORS_ORIGINS", ""),
        ("CORS_ORIGINS", "https://a.example,,https://b.example"),
        ("PUBLIC_URL", "https://user:word@book.example/"),
        ("API_TOKENS", "no-colon"),
        ("API_TOKENS", ","),
        ("API_TOKENS", "acme:one-token,other:one-token"),
        ("LISTEN", "no address"),
        ("LISTEN", "localhost:8000"),
        ("RUST_LOG", "jobs=loud"),
    ] {
        let ended = case.api(&upstream).set(name, value).run().await;
        let flag = format!("--{}", name.to_lowercase().replace('_', "-"));
        let complaint = &ended.expect_refusal().complaint;
        assert!(complaint.contains(name) || complaint.contains(&flag), "{name}={value} is not named: {complaint}");
    }
    // Open to everybody and reachable from elsewhere: refused.
    let ended = case.api(&upstream).set("LISTEN", format!("0.0.0.0:{}", free_port())).run().await;
    ended.expect_refusal();
    let ended = case.jobs(&upstream).set("RELEASE_SCHEDULE", "often").run().await;
    ended.expect_refusal();
    let ended = case.jobs(&upstream).arguments(["--once", "keys", "list"]).run().await;
    assert!(ended.expect_refusal().complaint.contains("--once"), "{ended:?}");
}

async fn a_start_that_fails_repeats_no_secret(case: &Case) {
    let upstream = case.upstream().await;
    let nobody = free_port();
    for (name, value) in [
        ("DATABASE_URL", "mysql://user:s3cret@127.0.0.1/x".to_owned()),
        ("DATABASE_URL", "postgres://user:s3cret@127.0.0.1:port/x".to_owned()),
        ("DATABASE_URL", format!("postgres://user:s3cret@127.0.0.1:{nobody}/x")),
        ("BOOKING_URL", "http://user:s3cret@127.0.0.1/".to_owned()),
        ("BOOKING_URL", "s3cret".to_owned()),
        ("PUBLIC_URL", "https://user:s3cret@book.example/".to_owned()),
        ("PUBLIC_URL", "https://book.example/?token=s3cret".to_owned()),
        ("DATABASE_URL", "postgres://127.0.0.1/x?pasword=s3cret".to_owned()),
        ("BOOKING_TOKEN", "s3cret s3cret".to_owned()),
        ("API_TOKENS", "s3cret".to_owned()),
        ("API_TOKENS", "acme:s3 cret".to_owned()),
    ] {
        let quick = |setup: Setup| setup.set("DATABASE_ACQUIRE_TIMEOUT", "500ms").set(name, &value);
        for setup in [
            quick(case.api(&upstream)),
            quick(case.jobs(&upstream).arguments(["keys", "list"])),
            quick(case.program("migration").arguments(["up"])),
        ] {
            let ended = setup.run().await;
            assert!(!ended.complaint.contains("s3") && !ended.output.contains("s3"), "{name}: {ended:?}");
            if value.contains(&nobody.to_string()) {
                let complaint = &ended.expect_refusal().complaint;
                assert!(complaint.contains(&format!("127.0.0.1:{nobody}")) && complaint.contains("refused"), "{complaint}");
            }
        }
        let help = case.program("api").set(name, &value).arguments(["--help"]).run().await;
        assert!(!help.expect_success().output.contains("s3"), "{name} is shown by --help");
    }
}

/// As a standby is, or a server that has run out of transaction ids.
async fn a_database_that_cannot_be_written_stops_the_start(case: &Case) {
    case.program("migration").arguments(["up"]).run().await.expect_success();
    let url = format!("{}?options=-c%20default_transaction_read_only%3Don", case.database.url());
    let upstream = case.upstream().await;
    for setup in [case.api(&upstream), case.jobs(&upstream)] {
        let ended = setup.set("DATABASE_URL", &url).run().await;
        assert!(ended.expect_refusal().complaint.contains("read-only"), "{ended:?}");
    }
}

async fn a_port_in_use_stops_the_start(case: &Case) {
    let (upstream, service) = case.started().await;
    let ended = case.api(&upstream).set("LISTEN", format!("127.0.0.1:{}", service.port())).run().await;
    assert!(ended.expect_refusal().complaint.contains(&service.port().to_string()), "{ended:?}");
    service.post(&case.key(), &case.body()).await.expect_created();
}

async fn help_lists_every_setting(case: &Case) {
    let help = case.program("api").arguments(["--help"]).run().await;
    help.expect_success();
    for name in [
        "DATABASE_URL",
        "LISTEN",
        "BOOKING_URL",
        "BOOKING_TOKEN",
        "SANDBOX_LISTEN",
        "BOOKING_TIMEOUT",
        "BOOKING_CONNECT_TIMEOUT",
        "ANSWER_WITHIN",
        "ABSENT_AFTER",
        "BOOKING_IDEMPOTENT",
        "BOOKING_LOOKUP",
        "BOOKING_KEY_RETENTION",
        "RECOVERY_CALLS",
        "LEASE",
        "KEY_RETENTION",
        "ON_DUPLICATE",
        "WAIT_LIMIT",
        "KEY_SYNTAX",
        "SCHEDULER",
        "RELEASE_SCHEDULE",
        "CLEANUP_SCHEDULE",
        "ON_ABSENT",
        "SHUTDOWN_GRACE",
        "API_TOKENS",
        "DATABASE_POOL",
        "DATABASE_ACQUIRE_TIMEOUT",
        "BODY_LIMIT",
        "BODY_TIMEOUT",
        "RATE_LIMIT",
        "PUBLIC_URL",
        "CORS_ORIGINS",
    ] {
        assert!(help.output.contains(name), "{name} is not in --help");
    }
    for program in ["jobs", "migration"] {
        assert!(case.program(program).arguments(["--help"]).run().await.expect_success().output.contains("DATABASE_URL"), "{program}");
    }
}

async fn a_flag_goes_before_the_environment(case: &Case) {
    let upstream = case.upstream().await;
    let service = case.api(&upstream).set("KEY_SYNTAX", "lenient").arguments(["--key-syntax", "strict"]).start().await;
    service.request("POST", "/reservations").raw_key("bare").json(&case.body()).await.expect_problem(400, "key-malformed");
}
