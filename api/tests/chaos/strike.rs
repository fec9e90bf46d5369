//! One fault, from its beginning to its mending.

use std::time::Duration;

use super::dice::Dice;
use super::faults::{Damage, Fault, Side};
use super::process::{Process, Taken};
use super::proxy::{Manner, Proxy};
use super::settings::{DEAF_MS, FULL_MS, HOLD_MS, LEASE_MS, PAUSE_MS, SILENCE_MS, SLEEP_MS};
use super::traps::When;
use super::world::World;

/// A worst moment comes soon, or another fault has its turn.
const SOON: Duration = Duration::from_secs(4);
/// The time in which a key of a worker that cannot store is taken over, settled, and asked for again.
const TAKEN_OVER: Duration = Duration::from_secs(12);

/// False where it met nobody.
pub async fn strike(world: &World, dice: &mut Dice, fault: Fault) -> bool {
    // A server that hears nothing serves nobody, and is no danger for that.
    let choice: Vec<_> = world.processes.iter().filter(|process| fault != Fault::Deaf || process.port.is_none()).collect();
    let process = *dice.one_of(&choice);
    let hold = Duration::from_millis(dice.between(HOLD_MS.0, HOLD_MS.1));
    let mut length = |(least, most)| Duration::from_millis(dice.between(least, most));
    // Those that wait for their moment say themselves when it has come.
    let waits = matches!(fault, Fault::LateRefusal | Fault::CutWhenBooked | Fault::SilentWhileTrying | Fault::Gateway);
    let whom = (!fault.befalls_all()).then_some(process.name.as_str());
    let _troubles: Vec<_> = world.ledgers_of(fault).iter().filter(|_| !waits).map(|of| of.troubles.begin(fault.kind(), whom)).collect();
    match (fault, process.database_link.as_ref()) {
        (Fault::Kill | Fault::Stop | Fault::Pause, _) => {
            let pause = length(PAUSE_MS);
            let Some(taken) = process.take() else { return false };
            trouble_process(&taken, fault, hold, pause).await;
            true
        }
        (Fault::Sleep, Some(wire)) => {
            let Some(taken) = process.take() else { return false };
            let asleep = async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                taken.signal("STOP");
                tokio::time::sleep(Duration::from_millis(SLEEP_MS)).await;
                taken.signal("CONT");
            };
            tokio::join!(wire.be(Manner::Hold, Duration::from_millis(600)), asleep);
            true
        }
        (Fault::Silence, Some(wire)) => wire.be(Manner::Hold, length(SILENCE_MS)).await,
        (Fault::Deaf, Some(wire)) => wire.be(Manner::HoldAnswers, length(DEAF_MS)).await,
        (Fault::LateRefusal, Some(_)) => refuse_late(world).await,
        (Fault::CutWhenBooked, Some(_)) => cut_when_booked(world).await,
        (Fault::SilentWhileTrying, Some(_)) => be_silent_while_trying(world).await,
        (Fault::Gateway, _) => hide_behind_a_gateway(world).await,
        (Fault::Lock, _) => world.database.block_writes(hold * 3).await,
        (Fault::Sessions, _) => world.database.end_sessions().await,
        (Fault::Restart, _) => match &world.common.server {
            Some(server) => server.restart(if dice.percent(50) { "fast" } else { "immediate" }, hold).await,
            None => false,
        },
        (Fault::Full, _) => fill_the_disk(world, length(FULL_MS)).await,
        (Fault::Clock, _) => step_the_clock(world, dice).await,
        (Fault::Wire(Side::Booking, damage), _) => damage_wire(&process.booking_link, damage, hold).await,
        (Fault::Wire(Side::Database, damage), Some(wire)) => damage_wire(wire, damage, hold).await,
        (_, None) => false,
    }
}

async fn trouble_process(taken: &Taken<'_>, fault: Fault, hold: Duration, pause: Duration) {
    match fault {
        Fault::Kill => {
            taken.kill();
            tokio::time::sleep(hold / 2).await;
            taken.start_again();
        }
        Fault::Stop => {
            taken.terminate(Duration::from_secs(3)).await;
            taken.start_again();
        }
        _ => {
            taken.signal("STOP");
            tokio::time::sleep(pause).await;
            taken.signal("CONT");
        }
    }
}

/// What it stores late is refused by its lease; a store that did not compare it would complete a key that is just being booked.
async fn refuse_late(world: &World) -> bool {
    // Where nothing is ever sent again, there is nothing to wait for.
    if world.only_a_person_can_tell() {
        return false;
    }
    let Some(told) = world.booking.traps().wait(When::Refused, SOON).await else { return false };
    let Some((process, wire)) = linked(world, &told.process) else { return false };
    let _trouble = world.ledger.troubles.begin(Fault::LateRefusal.kind(), Some(&process.name));
    let sent_again = async {
        let reference = told.reference.clone();
        drop(told);
        world.booking.traps().wait(When::Sent { reference }, TAKEN_OVER).await
    };
    let Some(another) = wire.be_until(Manner::Hold, sent_again).await else { return false };
    // Time to store it, before the other is told anything.
    tokio::time::sleep(Duration::from_millis(500)).await;
    another.is_some()
}

/// It has its lease, and can have new connections: it tries again.
async fn cut_when_booked(world: &World) -> bool {
    let Some(told) = world.booking.traps().wait(When::Booked, SOON).await else { return false };
    let Some((process, wire)) = linked(world, &told.process) else { return false };
    let _trouble = world.ledger.troubles.begin(Fault::CutWhenBooked.kind(), Some(&process.name));
    wire.cut();
    world.ledger.cut_when_booked(told.reference.clone());
    true
}

/// It cannot renew its lease, and must stop when that is over (`lease.rs` compares), though `ANSWER_WITHIN` is not.
async fn be_silent_while_trying(world: &World) -> bool {
    let Some(told) = world.booking.traps().wait(When::Unknown, SOON).await else { return false };
    let Some((process, wire)) = linked(world, &told.process) else { return false };
    let _trouble = world.ledger.troubles.begin(Fault::SilentWhileTrying.kind(), Some(&process.name));
    let reference = told.reference.clone();
    world.booking.be_out_of_order(&reference, true);
    let trying = async {
        drop(told);
        tokio::time::sleep(Duration::from_millis(2500)).await;
    };
    let silent = wire.be_until(Manner::Hold, trying).await;
    world.booking.be_out_of_order(&reference, false);
    silent.is_some()
}

/// For longer than it takes until "not there" would be believed, if that were what the page says.
async fn hide_behind_a_gateway(world: &World) -> bool {
    let Some(lost) = world.booking.traps().wait(When::Lost, SOON).await else { return false };
    let reference = lost.reference.clone();
    world.booking.be_behind_gateway(&reference, true);
    drop(lost);
    tokio::time::sleep(TAKEN_OVER).await;
    world.booking.be_behind_gateway(&reference, false);
    true
}

/// For all processes of a world, whichever are started meanwhile.
async fn fill_the_disk(world: &World, length: Duration) -> bool {
    let Some(_disk) = world.take_disk() else { return false };
    world.processes.iter().for_each(|process| process.disk_is_full(true));
    tokio::time::sleep(length).await;
    world.processes.iter().for_each(|process| process.disk_is_full(false));
    true
}

/// It lasts as long as a lease that was given by the clock as it was before.
async fn step_the_clock(world: &World, dice: &mut Dice) -> bool {
    let Some(clock) = world.clock() else { return false };
    clock.step(dice);
    tokio::time::sleep(Duration::from_millis(LEASE_MS)).await;
    true
}

fn linked<'a>(world: &'a World, name: &str) -> Option<(&'a Process, &'a Proxy)> {
    let process = world.processes.iter().find(|process| process.name == name)?;
    Some((process, process.database_link.as_ref()?))
}

async fn damage_wire(wire: &Proxy, damage: Damage, length: Duration) -> bool {
    match damage {
        Damage::Cut => {
            wire.cut();
            true
        }
        Damage::Down => wire.be_down(length).await,
        Damage::As(manner) => wire.be(manner, length).await,
    }
}
