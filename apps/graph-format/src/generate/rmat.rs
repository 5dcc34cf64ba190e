//! Edges of a recursive matrix: the adjacency matrix is cut into four quarters, one is chosen by chance, and so on
//! within it until one entry is left (Chakrabarti, Zhan and Faloutsos: R-MAT, SDM 2004).

use super::GenerateError;
use crate::random::Random;

/// The chances of the upper left, upper right and lower left quarter; the lower right has the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Skew {
    /// From the first half of the vertices to the first half.
    pub a: f64,
    /// From the first half to the second.
    pub b: f64,
    /// From the second half to the first.
    pub c: f64,
}

impl Default for Skew {
    /// Those of the Graph500 benchmark.
    fn default() -> Self {
        Self { a: 0.57, b: 0.19, c: 0.19 }
    }
}

impl Skew {
    /// Says whether these are chances.
    pub fn check(self) -> Result<(), GenerateError> {
        self.thresholds().map(|_| ()).ok_or(GenerateError::Skew { skew: self })
    }

    /// `None` if these are no chances.
    pub(super) fn thresholds(self) -> Option<Thresholds> {
        let Self { a, b, c } = self;
        // A rounding error is no reason to refuse three chances that are meant to add up to 1.
        const SLACK: f64 = 1e-9;
        let are_chances = [a, b, c].iter().all(|chance| (0.0..=1.0).contains(chance));
        (are_chances && a + b + c <= 1.0 + SLACK).then(|| {
            let of = |chance: f64| (chance.min(1.0) * (1u64 << 32) as f64).round() as u64;
            Thresholds { a: of(a), ab: of(a + b), abc: of(a + b + c) }
        })
    }
}

/// Sums of the chances, in parts of 2^32.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thresholds {
    a: u64,
    ab: u64,
    abc: u64,
}

impl Thresholds {
    /// Draws one edge. Two choices are made from each random number, and none of them is a branch, which a
    /// processor would guess wrong nearly half the time.
    pub(super) fn draw(self, scale: u32, random: &mut Random) -> (u32, u32) {
        let (mut from, mut to) = (0u32, 0u32);
        let mut choose = |chance: u64| {
            let (a, ab, abc) = (chance >= self.a, chance >= self.ab, chance >= self.abc);
            from = from << 1 | u32::from(ab);
            to = to << 1 | u32::from(a ^ ab ^ abc);
        };
        for _ in 0..scale / 2 {
            let number = random.next();
            choose(number >> 32);
            choose(number & u64::from(u32::MAX));
        }
        if scale % 2 == 1 {
            choose(random.next() >> 32);
        }
        (from, to)
    }
}
