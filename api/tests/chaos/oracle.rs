//! The verdict: what is there, what is here, and what every caller was ever told must be one story.

use std::collections::BTreeMap;
use std::time::Duration;

use super::booking::Booking;
use super::caller::exchange;
use super::database::Reservation;
use super::ledger::{Intent, Stored, show};
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

/// Each booking there is a reservation here, and the other way round, with the same values.
async fn bookings_are_reservations(world: &World, unknown: &[&str]) {
    let reservations = world.database.reservations().await;
    let mut here: BTreeMap<&str, &Reservation> = reservations.iter().map(|r| (r.id.as_str(), r)).collect();
    let (mut confirmed, mut cancelled, mut open) = (0, 0, 0);
    for booking in &world.booking.bookings() {
        match here.remove(booking.reference.as_str()) {
            Some(reservation) => {
                compare(world, booking, reservation);
                *(if booking.cancelled { &mut cancelled } else { &mut confirmed }) += 1;
            }
            None if unknown.contains(&booking.reference.as_str()) => open += 1,
            None => world.ledger.violation(format!("a booking without a reservation: {} ({})", booking.reference, booking.item_code)),
        }
    }
    for (id, reservation) in here {
        world.ledger.violation(format!("a reservation without a booking: {id}, {}", reservation.booking_id));
    }
    for (kind, count) in [("confirmed", confirmed), ("cancelled", cancelled), ("booked and unknown here", open)] {
        for _ in 0..count {
            world.ledger.count("at the end", kind);
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
    for turn in 0..20 {
        if let Ok(reply) = exchange(ports[(at + turn) % ports.len()], intent, "").await {
            return Some((reply.stored_part(), reply.code(), reply.is_replay()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    None
}
