//! What goes wrong around the processes: one fault after another, often several at once, as the dice say.

use std::sync::Arc;
use std::time::Duration;

use super::database::Engine;
use super::dice::Dice;
use super::proxy::Manner;
use super::strike::strike;
use super::troubles::Kind;
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
    /// Nothing passes between it and its database for longer than a lease; then all of it does.
    Silence,
    /// What the database says to a process that does only jobs comes when everybody else has settled what it took over.
    Deaf,
    /// A refusal is told to a worker that cannot store it, until another worker sends for the same key: then it comes to be stored.
    LateRefusal,
    /// Its connections to the database end, just when it is told that it has booked.
    CutWhenBooked,
    /// A worker tries again and again, and its database is silent meanwhile: for longer than its lease.
    SilentWhileTrying,
    /// A booking whose answer was lost is looked up, and a gateway answers in its own name that it knows no such page.
    Gateway,
    /// Everybody's writes wait.
    Lock,
    /// PostgreSQL ends every session.
    Sessions,
    /// PostgreSQL is stopped, in good order or not, and started again: that of all worlds.
    Restart,
    /// No process of a world can write to a file.
    Full,
    /// The database's clock steps.
    Clock,
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
        (1, "silence", Fault::Silence),
        (2, "deaf", Fault::Deaf),
        (6, "late-refusal", Fault::LateRefusal),
        (5, "cut-when-booked", Fault::CutWhenBooked),
        (4, "silent-while-trying", Fault::SilentWhileTrying),
        (2, "gateway", Fault::Gateway),
        (2, "lock", Fault::Lock),
        (1, "sessions", Fault::Sessions),
        (1, "restart", Fault::Restart),
        (1, "full", Fault::Full),
        (1, "clock", Fault::Clock),
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

impl Fault {
    /// Without a wire to the database there is nothing to do to it.
    pub const fn applies(self, engine: Engine) -> bool {
        match self {
            Self::Sleep | Self::Silence | Self::Deaf | Self::LateRefusal | Self::CutWhenBooked | Self::SilentWhileTrying => {
                matches!(engine, Engine::Postgres)
            }
            Self::Sessions | Self::Restart | Self::Wire(Side::Database, _) => matches!(engine, Engine::Postgres),
            // Nobody limits the files of a server that serves all.
            Self::Full => matches!(engine, Engine::Sqlite),
            Self::Kill | Self::Stop | Self::Pause | Self::Gateway | Self::Lock | Self::Clock | Self::Wire(Side::Booking, _) => true,
        }
    }

    /// What it keeps a process from.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Kill | Self::Stop | Self::Pause | Self::Sleep | Self::Gateway | Self::Wire(Side::Booking, _) => Kind::Sending,
            Self::Sessions | Self::CutWhenBooked | Self::Wire(Side::Database, Damage::Cut) => Kind::Sudden,
            Self::Silence | Self::Deaf | Self::LateRefusal | Self::SilentWhileTrying | Self::Wire(Side::Database, _) => Kind::Storing,
            Self::Lock | Self::Restart | Self::Full => Kind::Storing,
            Self::Clock => Kind::Stepped,
        }
    }

    /// Whether it befalls all processes.
    pub const fn befalls_all(self) -> bool {
        matches!(self, Self::Lock | Self::Sessions | Self::Restart | Self::Full | Self::Clock)
    }

    /// Whether it befalls those of all worlds: they share one PostgreSQL server.
    pub const fn befalls_all_worlds(self, engine: Engine) -> bool {
        matches!((self, engine), (Self::Restart | Self::Clock, Engine::Postgres))
    }
}

/// Goes on until the storm is over, and returns when everything is mended again.
pub async fn rage(world: &Arc<World>, kinds: &[(u64, &'static str, Fault)]) {
    let kinds: Vec<_> = kinds.iter().filter(|(_, _, fault)| fault.applies(world.database.engine)).collect();
    let mut dice = Dice::of(world.seed, "faults");
    let mut running = tokio::task::JoinSet::new();
    while !world.is_calm() && !kinds.is_empty() {
        let choice: Vec<_> = kinds.iter().enumerate().map(|(at, (weight, ..))| (*weight, at)).collect();
        let (_, name, fault) = *kinds[dice.weighted(&choice)];
        let (world_of_fault, mut own) = (Arc::clone(world), Dice::of(dice.between(0, u64::MAX - 1), name));
        running.spawn(async move {
            if strike(&world_of_fault, &mut own, fault).await {
                world_of_fault.ledger.count("faults", name);
                world_of_fault.common.enough.one_more();
            }
        });
        tokio::time::sleep(Duration::from_millis(dice.between(100, 500))).await;
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("a fault goes on to its end");
    }
}
