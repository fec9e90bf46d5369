//! Settings: a bad one stops the start with one clear line.

use super::support::prelude::*;
use super::support::service::free_port;

tests!(sqlite [
    a_bad_setting_stops_the_start_and_names_itself,
    a_port_in_use_stops_the_start,
    help_lists_every_setting,
    a_flag_goes_before_the_environment,
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
        ("BOOKING_IDEMPOTENT", "perhaps"),
        ("ON_DUPLICATE", "perhaps"),
        ("ON_ABSENT", "perhaps"),
        ("KEY_SYNTAX", "loose"),
        ("SCHEDULER", "sometimes"),
        ("RELEASE_SCHEDULE", "often"),
        ("CLEANUP_SCHEDULE", "61 * * * * *"),
        ("DATABASE_URL", "mysql://127.0.0.1/x"),
        ("DATABASE_POOL", "0"),
        ("BODY_LIMIT", "much"),
        ("RATE_LIMIT", "some"),
        ("PUBLIC_URL", "no address"),
        ("API_TOKENS", "no-colon"),
        ("LISTEN", "no address"),
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
