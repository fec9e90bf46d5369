//! The verdict: what is there, what is here, and what every caller was ever told must be one story.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::bookings::Booking;
use super::caller::exchange;
use super::database::Reservation;
use super::ledger::{Intent, Stored, show};
use super::settings;
use super::troubles::Kind;
use super::world::World;

pub async fn judge(world: &World) {
    settle(world).await;
    let open = world.database.open_keys().await;
    for (state, reference) in &open {
        // Where nobody but a person can tell, unknown is where a creation ends.
        if !(state == "outcome_unknown" && world.only_a_person_can_tell()) {
            world.ledger.violation(format!("a key is left {state} without anybody to settle it: {reference}"));
        }
    }
    let unknown: Vec<&str> = open.iter().filter(|(state, _)| state == "outcome_unknown").map(|(_, reference)| reference.as_str()).collect();
    bookings_are_reservations(world, &unknown).await;
    count_those_who_tried_again(world, &unknown);
    sends_have_callers(world);
    answers_are_true(world);
    answers_last(world).await;
    for process in &world.processes {
        for line in process.log().lines().filter(|line| line.contains("panicked at") || line.contains("a claim panicked")) {
            world.ledger.violation(format!("{}: {line}", process.name));
        }
    }
}

/// Nobody asks for anything any more: the jobs alone must come to an end.
async fn settle(world: &World) {
    while world.has_time() {
        if !world.booking.has_more_to_come() && world.database.unsettled().await == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Each booking there is a reservation here, and the other way round, with the same values, and with those that its caller was told last.
async fn bookings_are_reservations(world: &World, unknown: &[&str]) {
    let reservations = world.database.reservations().await;
    let mut here: BTreeMap<&str, &Reservation> = reservations.iter().map(|r| (r.id.as_str(), r)).collect();
    for booking in &world.booking.bookings() {
        match here.remove(booking.reference.as_str()) {
            Some(reservation) => {
                compare(world, booking, reservation);
                world.ledger.count("at the end", if booking.cancelled { "cancelled" } else { "confirmed" });
            }
            None if unknown.contains(&booking.reference.as_str()) => {
                world.ledger.count("at the end", "booked and unknown here");
            }
            None => world.ledger.violation(format!("a booking without a reservation: {} ({})", booking.reference, booking.item_code)),
        }
    }
    for (id, reservation) in here {
        world.ledger.violation(format!("a reservation without a booking: {id}, {}", reservation.booking_id));
    }
    let here: BTreeMap<&str, &Reservation> = reservations.iter().map(|r| (r.id.as_str(), r)).collect();
    for (id, last) in world.ledger.last() {
        let status = if last.cancelled { "cancelled" } else { "confirmed" };
        let found = here.get(id.as_str()).map(|r| (r.status.as_str(), r.quantity));
        if found != Some((status, last.quantity)) {
            world.ledger.violation(format!("{id}: its caller was told {last:?}, here it is {found:?}"));
        }
    }
}

fn compare(world: &World, booking: &Booking, reservation: &Reservation) {
    let status = if booking.cancelled { "cancelled" } else { "confirmed" };
    let there = (status, booking.booking_id.as_str(), booking.details["quantity"].as_i64());
    let here = (reservation.status.as_str(), reservation.booking_id.as_str(), Some(reservation.quantity));
    // What a cancelled booking's values were last is nobody's concern.
    if there != here && !(booking.cancelled && (there.0, there.1) == (here.0, here.1)) {
        world.ledger.violation(format!("{}: there {there:?}, here {here:?}", booking.reference));
    }
}

/// A worker that lost its connections just before it was told that it has booked, and that nothing else troubled, has stored it all the
/// same: it tries again as long as it has its lease. Where nothing can be looked up or sent again, a key that is unknown tells of one that
/// has not. Seldom its time is too short (a pool full of ended connections, a lease that was nearly over), so they are counted, and
/// `main.rs` compares the sums.
fn count_those_who_tried_again(world: &World, unknown: &[&str]) {
    // From the claim on, and as long as the lease that is left then.
    const BEFORE: Duration = Duration::from_millis(300);
    const AFTER: Duration = Duration::from_millis(700);
    if !world.only_a_person_can_tell() {
        return;
    }
    for reference in world.ledger.all_cut_when_booked() {
        let Some(sent) = world.booking.only_send(&reference) else { continue };
        let Some(answered) = sent.answered.filter(|at| at.duration_since(sent.arrived) < BEFORE) else { continue };
        let from = sent.arrived.checked_sub(BEFORE).unwrap_or(sent.arrived);
        if !world.ledger.troubles.met(&[Kind::Sending, Kind::Storing], &sent.process, from, answered + AFTER) {
            let stored = !unknown.contains(&reference.as_str());
            world.ledger.count("tried again", if stored { "stored" } else { "not stored" });
        }
    }
}

/// A server without jobs of its own sends for requests only, and not for one whose caller was told that it sent nothing.
fn sends_have_callers(world: &World) {
    for sent in world.booking.sends() {
        let only_serves = world.servers().any(|(name, _)| name == sent.process) && sent.process != settings::WITH_JOBS_INSIDE;
        if only_serves && !world.ledger.explains(&sent.process, &sent.item, sent.arrived) {
            let (process, item) = (&sent.process, &sent.item);
            world.ledger.violation(format!("{item} was sent by {process}, though everybody who asked it was told that nothing was sent"));
        }
    }
}

/// Whoever was told "confirmed" has that booking, and whoever was told "rejected" has none.
fn answers_are_true(world: &World) {
    let bookings = world.booking.bookings();
    for (intent, told) in world.ledger.intents().into_iter().filter(|(intent, _)| intent.method == "POST") {
        let Some((status, _, body)) = told else { continue };
        let (asked, told) = (parsed(intent.body.as_bytes()), parsed(&body));
        let there = bookings.iter().find(|b| asked["item_code"] == b.item_code.as_str());
        let is_true = match (status, there) {
            (201, Some(b)) => told["id"] == b.reference.as_str() && told["booking_id"] == b.booking_id.as_str(),
            (422, None) => true,
            _ => false,
        };
        if !is_true {
            world.ledger.violation(format!("{intent:?} was told {status} {told}, but there is {there:?}"));
        }
    }
}

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

/// Each key gives the answer it has given before, and every key has one, unless nobody can tell.
async fn answers_last(world: &World) {
    for (at, (intent, told)) in world.ledger.intents().into_iter().enumerate() {
        let ports = world.ports();
        match answer(&intent, &ports, at).await {
            None => world.ledger.violation(format!("no answer any more: {intent:?}")),
            Some((stored, _, true)) => {
                if let Some(first) = told.filter(|first| *first != stored) {
                    let (first, now) = (show(&first), show(&stored));
                    world.ledger.violation(format!("another answer than before, {intent:?}: first {first}, now {now}"));
                }
            }
            // The first word of it: a caller gave up asking where only a person can tell, or a booking system said "busy" to its last try.
            Some((stored, code, false)) => {
                let unknown = code.as_deref() == Some("outcome-unknown") && world.only_a_person_can_tell();
                if told.is_some() || !unknown {
                    world.ledger.violation(format!("the answer is gone, or there is none, {intent:?}: now {}", show(&stored)));
                }
            }
        }
    }
}

/// The answer, its code, and whether it is a stored one.
async fn answer(intent: &Intent, ports: &[u16], at: usize) -> Option<(Stored, Option<String>, bool)> {
    for turn in 0..100 {
        if let Ok(reply) = exchange(ports[(at + turn) % ports.len()], intent, "").await {
            return Some((reply.stored_part(), reply.code(), reply.is_replay()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    None
}
