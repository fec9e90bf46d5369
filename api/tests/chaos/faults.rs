//! What goes wrong around the processes: one fault after another, often several at once, as the dice say.

use std::sync::Arc;
use std::time::Duration;

use super::database::Engine;
use super::dice::Dice;
use super::process::Taken;
use super::proxy::{Manner, Proxy};
use super::settings::{HOLD_MS, PAUSE_MS, SILENCE_MS, SLEEP_MS};
use super::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL, and a new start.
    Kill,
    /// SIGTERM, and a new start.
    Stop,
    /// SIGSTOP for longer than a lease, then SIGCONT.
    Pause,
    /// The same while it waits for its database, and until everybody believes that it sent nothing.
    Sleep,
    /// Its database is silent for longer than a lease, and then delivers all it was told.
    Silence,
    /// Everybody's writes wait.
    Lock,
    /// PostgreSQL ends every session.
    Sessions,
    Wire(Side, Damage),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Database,
    Booking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    Cut,
    Down,
    As(Manner),
}

/// Every kind, as `FAULTS` names it, with its weight. Without one it must be named: it can meet what `docs/guarantees.md` leaves open.
pub fn all() -> Vec<(u64, &'static str, Fault)> {
    let mut all = vec![
        (6, "kill", Fault::Kill),
        (2, "stop", Fault::Stop),
        (4, "pause", Fault::Pause),
        (0, "sleep", Fault::Sleep),
        (3, "silence", Fault::Silence),
        (2, "lock", Fault::Lock),
        (1, "sessions", Fault::Sessions),
    ];
    for (side, prefix) in [(Side::Database, "database"), (Side::Booking, "booking")] {
        for (weight, name, damage) in [
            (2, "cut", Damage::Cut),
            (1, "down", Damage::Down),
            (2, "hold", Damage::As(Manner::Hold)),
            (1, "slow", Damage::As(Manner::Slow(40))),
            (3, "lose-answers", Damage::As(Manner::LoseAnswers)),
            (1, "lose-questions", Damage::As(Manner::LoseQuestions)),
            (1, "half-close", Damage::As(Manner::HalfClose)),
        ] {
            // A handful of names, made once a run.
            all.push((weight, &*format!("{prefix}-{name}").leak(), Fault::Wire(side, damage)));
        }
    }
    all
}

/// Goes on until the storm is over, and returns when everything is mended again.
pub async fn rage(world: &Arc<World>, kinds: &[(u64, &'static str, Fault)]) {
    let kinds: Vec<_> = kinds.iter().filter(|(_, _, fault)| applies(*fault, world.database.engine)).collect();
    let mut dice = Dice::of(world.seed, "faults");
    let mut running = tokio::task::JoinSet::new();
    while !world.is_calm() && !kinds.is_empty() {
        let choice: Vec<_> = kinds.iter().enumerate().map(|(at, (weight, ..))| (*weight, at)).collect();
        let (_, name, fault) = *kinds[dice.weighted(&choice)];
        let (world_of_fault, mut own) = (Arc::clone(world), Dice::of(dice.between(0, u64::MAX - 1), name));
        running.spawn(async move {
            if strike(&world_of_fault, &mut own, fault).await {
                world_of_fault.ledger.count("faults", name);
            }
        });
        tokio::time::sleep(Duration::from_millis(dice.between(100, 500))).await;
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("a fault goes on to its end");
    }
}

fn applies(fault: Fault, engine: Engine) -> bool {
    engine == Engine::Postgres || !matches!(fault, Fault::Sleep | Fault::Silence | Fault::Sessions | Fault::Wire(Side::Database, _))
}

/// One fault, from its beginning to its mending; false where it met nobody.
async fn strike(world: &World, dice: &mut Dice, fault: Fault) -> bool {
    let process = dice.one_of(&world.processes);
    let hold = Duration::from_millis(dice.between(HOLD_MS.0, HOLD_MS.1));
    let whom = (!matches!(fault, Fault::Lock | Fault::Sessions)).then_some(process.name.as_str());
    let sudden = matches!(fault, Fault::Sessions | Fault::Wire(Side::Database, Damage::Cut));
    let _trouble = world.troubles.begin(whom, sudden);
    match fault {
        Fault::Kill | Fault::Stop | Fault::Pause => {
            let Some(taken) = process.take() else { return false };
            trouble_process(&taken, dice, fault, hold).await;
            true
        }
        Fault::Sleep => {
            let (Some(taken), Some(wire)) = (process.take(), process.database_link.as_ref()) else { return false };
            let asleep = async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                taken.signal("STOP");
                tokio::time::sleep(Duration::from_millis(SLEEP_MS)).await;
                taken.signal("CONT");
            };
            tokio::join!(wire.be(Manner::Hold, Duration::from_millis(600)), asleep);
            true
        }
        Fault::Silence => match process.database_link.as_ref() {
            Some(wire) => wire.be(Manner::Hold, Duration::from_millis(dice.between(SILENCE_MS.0, SILENCE_MS.1))).await,
            None => false,
        },
        Fault::Lock => world.database.block_writes(hold * 2).await,
        Fault::Sessions => {
            world.database.end_sessions().await;
            true
        }
        Fault::Wire(side, damage) => {
            let wire = match side {
                Side::Booking => Some(&process.booking_link),
                Side::Database => process.database_link.as_ref(),
            };
            match wire {
                Some(wire) => damage_wire(wire, damage, hold).await,
                None => false,
            }
        }
    }
}

async fn trouble_process(taken: &Taken<'_>, dice: &mut Dice, fault: Fault, hold: Duration) {
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
            tokio::time::sleep(Duration::from_millis(dice.between(PAUSE_MS.0, PAUSE_MS.1))).await;
            taken.signal("CONT");
        }
    }
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
