//! In how many ways a booking system can leave a caller without a clue.

use super::dice::Dice;

/// When what is asked for is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Now,
    /// After so many milliseconds, whoever still listens.
    Late(u64),
    None,
}

/// What is said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Says {
    TheTruth,
    /// Half of it.
    Half,
    Garbage,
    Status(u16),
    /// A gateway's page.
    Page(u16),
    Nothing,
    Goodbye,
    Reset,
}

#[derive(Clone, Copy)]
pub struct Behaviour {
    pub name: &'static str,
    pub wait_ms: u64,
    pub effect: Effect,
    pub says: Says,
    /// For scarce items.
    pub is_out_of_stock: bool,
}

/// A send takes effect at most this late: within `ABSENT_AFTER`, whatever else holds it up (`settings.rs`).
pub const LATEST_MS: u64 = 1000;

impl Behaviour {
    pub const GOOD: Self = Self { name: "answered", wait_ms: 0, effect: Effect::Now, says: Says::TheTruth, is_out_of_stock: false };

    /// For as long as a fault wants to see how often it is tried.
    pub const OUT_OF_ORDER: Self = Self { name: "out of order", says: Says::Page(503), effect: Effect::None, ..Self::GOOD };

    /// The same for look-ups.
    pub const BEHIND_GATEWAY: Self = Self { name: "met the same gateway again", says: Says::Page(404), effect: Effect::None, ..Self::GOOD };

    /// Whether all was done, and nobody can tell.
    pub fn loses_its_answer(self) -> bool {
        self.effect == Effect::Now && self.says != Says::TheTruth
    }

    /// Whether nothing was done, and nobody can tell.
    pub fn tells_nothing(self) -> bool {
        self.effect == Effect::None && !matches!(self.says, Says::TheTruth | Says::Status(_))
    }

    /// Whether its worker learns that this send had no effect.
    pub fn says_that_nothing_was_done(self) -> bool {
        self.effect == Effect::None && matches!(self.says, Says::Status(401 | 405 | 429))
    }

    pub fn roll(dice: &mut Dice, method: &str) -> Self {
        use Effect::{Late, None, Now};
        use Says::{Garbage, Goodbye, Half, Nothing, Page, Reset, Status, TheTruth};
        let sends = [
            (50, ("answered", Now, TheTruth)),
            (8, ("answered slowly", Now, TheTruth)),
            (5, ("was done late, without a word", Late(0), Nothing)),
            (3, ("was done late, after a 504", Late(0), Page(504))),
            (3, ("was done late, after a hang-up", Late(0), Goodbye)),
            (5, ("was done, then silence", Now, Nothing)),
            (4, ("was done, then a hang-up", Now, Goodbye)),
            (3, ("was done, then a reset", Now, Reset)),
            (5, ("was done, then 500", Now, Status(500))),
            (3, ("was done, half an answer", Now, Half)),
            (3, ("was done, garbage", Now, Garbage)),
            (4, ("was swallowed", None, Nothing)),
            (3, ("was not done, 503", None, Page(503))),
            (3, ("was not done, a gateway's 200", None, Page(200))),
            (3, ("was not done, a hang-up", None, Goodbye)),
            (4, ("was told 429", None, Status(429))),
            (1, ("was told 401", None, Status(401))),
            (1, ("was told 405", None, Status(405))),
        ];
        let look_ups = [
            (75, ("answered", None, TheTruth)),
            (10, ("answered slowly", None, TheTruth)),
            (4, ("got no answer", None, Nothing)),
            (4, ("was told 500", None, Status(500))),
            (3, ("met a gateway's 404", None, Page(404))),
            (2, ("got garbage", None, Garbage)),
            (2, ("got a hang-up", None, Goodbye)),
        ];
        let (name, effect, says) = if method == "GET" { dice.weighted(&look_ups) } else { dice.weighted(&sends) };
        if says == Page(200) && method != "POST" {
            // A change that is answered 200 counts as made, whatever stands in the body.
            return Self::GOOD;
        }
        let wait_ms = if name == "answered slowly" { dice.between(100, 600) } else { dice.between(0, 20) };
        let effect = match effect {
            Late(_) => Late(dice.between(50, LATEST_MS)),
            Now | None => effect,
        };
        Self { name, wait_ms, effect, says, is_out_of_stock: dice.percent(50) }
    }
}
