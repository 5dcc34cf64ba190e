//! Numbers that look random. They are our own so that a seed names the same graph for ever, whatever becomes of
//! libraries.

/// SplitMix64: a counter, well stirred.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream with this number of this seed. Each piece of work has its own stream, so that it does not matter
    /// which thread does it.
    pub(crate) fn stream(seed: u64, number: u64) -> Self {
        Self(mix(seed ^ mix(number.wrapping_add(STEP))))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Stirs a number: every bit of the result depends on every bit of it, and no two numbers give the same.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Renames the numbers below a power of two, so that neighbours are neighbours no more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shuffle {
    bits: u32,
    keys: [u64; 3],
}

impl Shuffle {
    /// One way to rename the numbers of so many bits, up to 32.
    pub(crate) fn new(bits: u32, seed: u64) -> Self {
        let mut random = Random::stream(seed, u64::MAX);
        Self { bits, keys: [(); 3].map(|()| random.next()) }
    }

    /// The new name. Each round can be undone (an odd factor and a shifted copy of itself both can), so no two
    /// numbers get the same.
    pub(crate) fn rename(self, number: u32) -> u32 {
        let mask = (1u64 << self.bits) - 1;
        let shift = self.bits / 2 + 1;
        let round = |number: u64, key: u64| {
            let number = (number ^ (key >> 32)).wrapping_mul(key | 1) & mask;
            (number ^ (number >> shift)) & mask
        };
        self.keys.iter().fold(u64::from(number), |number, key| round(number & mask, *key)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renaming_gives_every_name_once() {
        for bits in 0..=12 {
            let shuffle = Shuffle::new(bits, 7);
            let mut names: Vec<u32> = (0..1 << bits).map(|number| shuffle.rename(number)).collect();
            assert!(bits < 8 || names.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() < 10);
            names.sort_unstable();
            assert!(names.iter().copied().eq(0..1 << bits), "{bits} bits");
        }
    }

    #[test]
    fn streams_of_a_seed_differ() {
        let first = |seed, number| Random::stream(seed, number).next();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
    }
}
