//! Numbers that look random, the same for the same seed whatever the number of ranks.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Stirs a number: every bit of the result depends on every bit of it, and no two numbers give the same.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// SplitMix64: a counter, well stirred. Its whole state is one number, so that it can travel.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream with this number of this seed.
    pub(crate) fn stream(seed: u64, number: u64) -> Self {
        Self(mix(seed ^ mix(number.wrapping_add(STEP))))
    }

    /// Goes on where another one was.
    pub(crate) fn at(state: u64) -> Self {
        Self(state)
    }

    /// Where it is.
    pub(crate) fn state(&self) -> u64 {
        self.0
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// From 0 to almost 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// One of `count` things, by 32 bits of a random number.
pub(crate) fn pick(bits: u32, count: u64) -> u64 {
    (u64::from(bits) * count) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_go_on_where_they_were() {
        let mut one = Random::stream(1, 2);
        assert_ne!(one.next(), Random::stream(1, 3).next());
        assert_ne!(Random::stream(2, 2).next(), Random::stream(1, 2).next());
        let mut moved = Random::at(one.state());
        assert_eq!(moved.next(), one.next());
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut random = Random::stream(7, 7);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.fraction())));
        assert_eq!((pick(0, 10), pick(u32::MAX, 10), pick(1 << 31, 10)), (0, 9, 5));
    }
}
