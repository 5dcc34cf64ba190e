//! Random numbers that are the same in every run.

/// SplitMix64.
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The numbers of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A number below a limit, all about as likely.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_known_and_below_their_limit() {
        // The first number of seed 1234567 in the reference implementation.
        assert_eq!(Random::new(1_234_567).next(), 6_457_827_717_110_365_317);
        let mut random = Random::new(1);
        let mut counts = [0; 3];
        (0..3000).for_each(|_| counts[random.below(3) as usize] += 1);
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
