//! Expired keys: a large number at once, several processes that delete them, one of which is killed half-way. How long it takes, how large
//! the largest batch is, whether the processes get in each other's way, and what live requests notice of it.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::arguments::Arguments;
use crate::booking::Booking;
use crate::live::{self, Live};
use crate::process::Setup;
use crate::store::Store;

const LIMIT: Duration = Duration::from_secs(1800);
/// Sweepers at once.
const SWEEPERS: usize = 3;

pub const HEAD: &str = "| database | expired keys | deleted in s | a second | largest batch | deadlocks | errors in logs | \
     live p50 ms: without, with | live p99 ms: without, with | ratio of p99 | live not 201 |\n|---|---:|---:|---:|---:|---:|---:|---|---|---:|---:|";

pub async fn measure(arguments: &Arguments, store: &Store, folder: &Path) {
    let booking = Booking::start().await;
    let mut settings = vec![("DATABASE_URL".to_owned(), store.url()), ("BOOKING_URL".to_owned(), booking.url.clone())];
    settings.extend(arguments.settings.iter().cloned());
    let setup = Setup { folder, settings };

    let api = setup.api(&[("SCHEDULER", "off")]).await;
    store.add_expired(arguments.expired).await;
    let quiet = live::run(api.port, arguments.rate, arguments.quiet).await;
    let live = Live::start(api.port, arguments.rate);
    let mut sweepers: Vec<_> = (0..SWEEPERS).map(|_| setup.jobs(&[("CLEANUP_SCHEDULE", "* * * * * *")])).collect();
    let (began, all) = (Instant::now(), store.expired().await);
    let mut left = all;
    while left > 0 {
        assert!(began.elapsed() < LIMIT, "{left} expired keys are left after {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(250)).await;
        left = store.expired().await;
        if left < all / 2 && sweepers.len() == SWEEPERS {
            sweepers.remove(0).kill();
        }
    }
    let took = began.elapsed().as_secs_f64();
    let meanwhile = live.stop().await;
    let quiet = quiet.and(live::run(api.port, arguments.rate, arguments.quiet).await);
    let told = store.batches().await;
    let or_none = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    println!(
        "| {} | {all} | {took:.1} | {:.0} | {} | {} | {} | {:.1}, {:.1} | {:.1}, {:.1} | {:.2} | {} of {} |",
        store.name(),
        all as f64 / took,
        or_none(told.map(|(largest, _)| largest)),
        or_none(told.map(|(_, deadlocks)| deadlocks)),
        sweepers.iter().map(|sweeper| sweeper.errors()).sum::<usize>() + api.errors(),
        quiet.ms(0.5),
        meanwhile.ms(0.5),
        quiet.ms(0.99),
        meanwhile.ms(0.99),
        meanwhile.ms(0.99) / quiet.ms(0.99),
        meanwhile.failed,
        meanwhile.count(),
    );
    assert_eq!(all, arguments.expired as i64, "expired keys at the beginning");
    assert_eq!(quiet.failed + meanwhile.failed, 0, "live requests that were not answered 201");
}
