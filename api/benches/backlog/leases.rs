//! Stale leases: the booking system was down, and whoever worked on the keys is gone. How long it takes to clear them, how many calls at
//! once that costs the booking system, and what live requests notice of it.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::arguments::Arguments;
use crate::booking::Booking;
use crate::live::{self, Live};
use crate::process::{Process, Setup};
use crate::store::Store;

/// Requests at once while the booking system is down.
const CALLERS: usize = 100;
/// A backlog that is not cleared by then is not cleared.
const LIMIT: Duration = Duration::from_secs(900);

pub const HEAD: &str = "| database | stale leases | cleared in s | a second | completed, released | peak look-ups at once (allowed) | \
     live p50 ms: without, with | live p99 ms: without, with | ratio of p99 | live not 201 |\n|---|---:|---:|---:|---|---|---|---|---:|---:|";

pub async fn measure(arguments: &Arguments, store: &Store, folder: &Path) {
    let booking = Booking::start().await;
    let mut settings = vec![("DATABASE_URL".to_owned(), store.url()), ("BOOKING_URL".to_owned(), booking.url.clone())];
    settings.extend(arguments.settings.iter().cloned());
    let setup = Setup { folder, settings };

    let (api, jobs) = both(&setup).await;
    let before = live::run(api.port, arguments.rate, arguments.quiet).await;
    jobs.kill();
    api.kill();

    let others = store.of_state("completed", i64::MAX).await;
    leave_behind(&setup, &booking, arguments.leases).await;
    let until_ms = store.newest_ms().await;
    let leases = store.unsettled(until_ms).await;
    booking.be_down(false);
    booking.count_anew();

    let (api, jobs) = both(&setup).await;
    let live = Live::start(api.port, arguments.rate);
    let began = Instant::now();
    while store.unsettled(until_ms).await > 0 {
        assert!(began.elapsed() < LIMIT, "{} stale leases are left after {LIMIT:?}", store.unsettled(until_ms).await);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let took = began.elapsed().as_secs_f64();
    let meanwhile = live.stop().await;
    let [completed, released] = [store.of_state("completed", until_ms).await - others, store.of_state("released", until_ms).await];
    let (peak, allowed) = (booking.peak(), 2 * recovery_calls(arguments));
    let quiet = before.and(live::run(api.port, arguments.rate, arguments.quiet).await);
    println!(
        "| {} | {leases} | {took:.1} | {:.0} | {}, {} | {peak} ({allowed}) | {:.1}, {:.1} | {:.1}, {:.1} | {:.2} | {} of {} |",
        store.name(),
        leases as f64 / took,
        completed,
        released,
        quiet.ms(0.5),
        meanwhile.ms(0.5),
        quiet.ms(0.99),
        meanwhile.ms(0.99),
        meanwhile.ms(0.99) / quiet.ms(0.99),
        meanwhile.failed,
        meanwhile.count(),
    );
    assert!(peak <= allowed, "{peak} look-ups at once, {allowed} are allowed");
    assert_eq!(leases, arguments.leases as i64, "keys that nobody has settled, of the requests that were answered 503");
    // The booking system booked every second one before its answer was lost.
    assert_eq!([completed, released].iter().sum::<i64>(), leases, "keys that were settled");
    assert_eq!(quiet.failed + meanwhile.failed, 0, "live requests that were not answered 201");
    drop((api, jobs));
}

/// A server with its own scheduler, and a scheduler more.
async fn both(setup: &Setup<'_>) -> (Process, Process) {
    let api = setup.api(&[]).await;
    (api, setup.jobs(&[]))
}

/// Requests whose outcome nobody learns: their attempts end without one, and their process is killed.
async fn leave_behind(setup: &Setup<'_>, booking: &Booking, leases: usize) {
    booking.be_down(true);
    let short = [
        ("SCHEDULER", "off"),
        ("LEASE", "2s"),
        ("BOOKING_TIMEOUT", "100ms"),
        ("BOOKING_CONNECT_TIMEOUT", "100ms"),
        ("ANSWER_WITHIN", "100ms"),
    ];
    let api = setup.api(&short).await;
    let callers = (0..CALLERS).map(|caller| {
        let port = api.port;
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection to the server");
            for number in (caller..leases).step_by(CALLERS) {
                let status = live::exchange(&mut stream, &format!("left-{number:016x}")).await;
                assert_eq!(status, 503, "an outcome is known although the booking system is down");
            }
        })
    });
    for caller in futures_util::future::join_all(callers).await {
        caller.expect("no panic");
    }
    api.kill();
    // Leases that were not ended by their workers lapse.
    tokio::time::sleep(Duration::from_secs(3)).await;
}

fn recovery_calls(arguments: &Arguments) -> usize {
    let set = arguments.settings.iter().find(|(name, _)| name == "RECOVERY_CALLS");
    set.map_or(8, |(_, value)| value.parse().expect("RECOVERY_CALLS is a number"))
}
