//! Chance that a seed repeats: whoever rolls has dice of their own, so that the order of events does not change what is rolled.

/// `SplitMix64`, so that a seed means the same in years to come.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    /// The dice of one purpose.
    pub fn of(seed: u64, purpose: &str) -> Self {
        // FNV-1a
        let hash = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut dice = Self(seed ^ hash);
        dice.roll();
        dice
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.roll() % (most - least + 1)
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.between(1, 100) <= chance
    }

    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.between(0, all.len() as u64 - 1) as usize]
    }

    /// One of them, each as likely as its weight says.
    pub fn weighted<T: Copy>(&mut self, all: &[(u64, T)]) -> T {
        let mut left = self.between(1, all.iter().map(|(weight, _)| weight).sum());
        for (weight, one) in all {
            if left <= *weight {
                return *one;
            }
            left -= weight;
        }
        unreachable!("the weights are summed up above")
    }
}
