//! A process that dies at any statement or call, and dies again at the same place while it recovers, loses nothing and books once.
//!
//! The places are learnt from the service itself: each journey is first made with a process that writes down every crash point it passes.

use super::support::Engine;
use super::support::prelude::*;
use futures_util::{StreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

tests!(both[dying_anywhere_and_again_at_the_same_place_books_once]);

/// Journeys made at the same time: they wait for leases, not for the processor.
const AT_ONCE: usize = 6;

/// What the journeys must pass.
const TRANSITIONS: [&str; 11] =
    ["claim", "renew", "end lease", "finalize", "free", "take over", "give up", "look again", "expire", "book", "look up"];

/// How often a journey is made again for what a slow machine missed: whether a lease is renewed, or a look comes before the expiry,
/// depends on time.
const ROUNDS: usize = 4;

/// What every machine passes within [`ROUNDS`], and dies at.
const CERTAIN: [&str; 8] = ["claim", "finalize", "free", "end lease", "take over", "expire", "book", "look up"];

/// What a caller does; together they pass every transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journey {
    /// Booked at once.
    Plain,
    /// Booked, but the answer never came.
    Unanswered,
    /// Refused at once: the key is freed, then booked.
    Busy,
    /// Neither deduplication nor an answer: nobody can tell until `ABSENT_AFTER`.
    Unknown,
    /// Booked, then changed, then cancelled.
    Changed,
    /// Booked, and the retention is over soon.
    Expired,
}

const JOURNEYS: [Journey; 6] = [Journey::Plain, Journey::Unanswered, Journey::Busy, Journey::Unknown, Journey::Changed, Journey::Expired];

/// One journey through processes that come and go.
struct Travel {
    case: Case,
    upstream: Upstream,
    journey: Journey,
    key: String,
    body: Value,
    change: String,
}

impl Travel {
    async fn new(engine: Engine, journey: Journey) -> Self {
        let case = Case::new(engine).await;
        let upstream = case.upstream_that(journey != Journey::Unknown, true).await;
        let (key, body, change) = (case.key(), case.body(), case.key());
        match journey {
            Journey::Plain | Journey::Changed | Journey::Expired => {}
            Journey::Unanswered => upstream.on_post(&body, [vec![Book, Silence], vec![Answer]]),
            Journey::Busy => upstream.on_post(&body, [vec![Busy(429, "1")], vec![Answer]]),
            Journey::Unknown => upstream.on_post(&body, [vec![Silence], vec![Answer]]),
        }
        Self { case, upstream, journey, key, body, change }
    }

    fn process(&self, setting: Option<(&str, &str)>) -> Service {
        let setup = self.case.api(&self.upstream).set("LEASE", "900ms").set("BOOKING_TIMEOUT", "400ms").set("ANSWER_WITHIN", "800ms");
        let setup = setup
            .set("KEY_RETENTION", if self.journey == Journey::Expired { "1400ms" } else { "1h" })
            .set("ABSENT_AFTER", if self.journey == Journey::Unknown { "1500ms" } else { "300ms" });
        match setting {
            Some((name, value)) => setup.set(name, value).spawn(),
            None => setup.spawn(),
        }
    }

    /// Asks until the answer is final; false where the process is gone.
    async fn until_final(&self, service: &Service, what: impl Fn() -> super::support::client::Request) -> bool {
        let end = Instant::now() + Duration::from_secs(120);
        while Instant::now() < end {
            if service.has_ended() {
                return false;
            }
            match what().attempt().await {
                Ok(reply) if reply.status < 300 => return true,
                Ok(reply) if matches!(reply.status, 409 | 429 | 502 | 503) => {}
                // Changed already by the life before, and read anew since.
                Ok(reply) if self.journey == Journey::Changed && matches!(reply.status, 412 | 422) => return true,
                Ok(reply) => panic!("{:?}: {reply:?}", self.journey),
                Err(_) => {}
            }
            pass(150).await;
        }
        panic!("{:?} never came to its end: {}", self.journey, service.log());
    }

    /// Makes the journey as far as this process lives.
    async fn go(&self, service: &Service) {
        if !self.until_final(service, || service.post(&self.key, &self.body)).await || self.journey != Journey::Changed {
            return;
        }
        let Some(id) = self.upstream.bookings_of(&self.body).first().map(|b| b.reference.clone()) else { return };
        let Ok(read) = service.reservation(&id).attempt().await else { return };
        let etag = read.header("etag").unwrap_or_default().to_owned();
        let change = json!({"quantity": 2});
        if self.until_final(service, || service.patch(&id, &self.change, &etag, &change)).await {
            self.until_final(service, || service.delete(&id)).await;
        }
    }

    /// Makes it with this setting, and lets the jobs do what is left; whether the process died on the way.
    async fn with(&self, name: &str, value: &str) -> bool {
        let service = self.process(Some((name, value)));
        for _ in 0..100 {
            let ready = service.get("/health/ready").unwatched().attempt().await.is_ok_and(|reply| reply.status == 200);
            if ready || service.has_ended() {
                break;
            }
            pass(50).await;
        }
        self.go(&service).await;
        // Long enough for a lapse, a second look, an expiry and the runs of the jobs.
        for _ in 0..40 {
            if service.has_ended() {
                return true;
            }
            pass(100).await;
        }
        if service.has_ended() {
            return true;
        }
        service.kill_9();
        false
    }
}

/// Every crash point that this journey passes.
async fn places_of(engine: Engine, journey: Journey) -> Vec<(Journey, String)> {
    let travel = Travel::new(engine, journey).await;
    let seen = travel.case.folder().join("crash-points");
    let path = seen.display().to_string();
    travel.with("CRASH_POINTS_SEEN", &path).await;
    // A second process finds what the first left under its lease: recovery passes places of its own.
    let lines = std::fs::read_to_string(&seen).expect("the service writes down where it was");
    let places = lines.lines().map(|line| (journey, line.to_owned())).collect();
    travel.case.judge_and_remove().await;
    places
}

/// Dies at `place`, dies there again if it passes it again, and then comes to its end; how often it died.
async fn survive(engine: Engine, journey: Journey, place: &str) -> u32 {
    let travel = Travel::new(engine, journey).await;
    let mut deaths = 0;
    for _ in 0..2 {
        deaths += u32::from(travel.with("CRASH_AT", place).await);
    }
    let service = travel.process(None);
    service.is_ready().await;
    travel.go(&service).await;
    eventually("no key is left without a worker", async || {
        let state = service.key_state(&travel.key).await;
        (state.as_deref() != Some("in_progress")).then_some(())
    })
    .await;
    let bookings = travel.upstream.bookings_of(&travel.body);
    // After its expiry a key is as good as new: there a retry books again, under another reference.
    let references: BTreeSet<_> = bookings.iter().map(|b| &b.reference).collect();
    assert_eq!(bookings.len(), if journey == Journey::Expired { references.len() } else { 1 }, "{journey:?} at {place}: {bookings:?}");
    travel.case.expect_no_orphans(&travel.upstream, &service).await;
    drop(service);
    travel.case.database.remove().await;
    deaths
}

async fn dying_anywhere_and_again_at_the_same_place_books_once(case: &Case) {
    let engine = case.engine;
    // Each place with the first journey that passes it: one journey a place is enough.
    let mut places: BTreeMap<String, Journey> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let passed: Vec<_> = stream::iter(JOURNEYS).map(|journey| places_of(engine, journey)).buffered(AT_ONCE).collect().await;
        for (journey, place) in passed.into_iter().flatten() {
            places.entry(place).or_insert(journey);
        }
        if TRANSITIONS.iter().all(|transition| places.contains_key(&format!("{transition}:before"))) {
            break;
        }
    }
    for transition in TRANSITIONS {
        assert!(places.contains_key(&format!("{transition}:before")), "no journey passes {transition}: {places:?}");
    }
    let (mut died, mut twice) = (0, 0);
    let mut missed: Vec<(&str, Journey)> = places.iter().map(|(place, journey)| (place.as_str(), *journey)).collect();
    for round in 0..ROUNDS {
        // Whoever has missed its place gets the machine more and more for itself.
        let deaths: Vec<(&str, Journey, u32)> = stream::iter(missed)
            .map(async |(place, journey)| (place, journey, survive(engine, journey, place).await))
            .buffer_unordered(AT_ONCE >> round.min(2))
            .collect()
            .await;
        died += deaths.iter().filter(|(_, _, n)| *n > 0).count();
        twice += deaths.iter().filter(|(_, _, n)| *n == 2).count();
        missed =
            deaths.into_iter().filter(|(place, _, n)| *n == 0 && is_certain(place)).map(|(place, journey, _)| (place, journey)).collect();
    }
    eprintln!("{} crash points on {engine:?}: died at {died}, at {twice} of them again during recovery", places.len());
    assert!(missed.is_empty(), "passed at first, and not again: {missed:?}");
}

/// A place that only a slow machine passes, such as a renewal, may be missed; the transitions may not.
fn is_certain(place: &str) -> bool {
    CERTAIN.contains(&place.rsplit_once(':').map_or(place, |(transition, _)| transition))
}
