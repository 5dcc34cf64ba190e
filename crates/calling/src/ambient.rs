//! What functions find at every site besides regions.

/// The time of day, the random numbers and the log of a site. This room has no clock: `driver` or a simulator gives one.
#[derive(Clone, Copy, Debug)]
pub struct Ambient {
    random: u64,
    time: fn() -> u64,
    log: fn(&[u8]),
}

impl Ambient {
    /// Random numbers follow from `seed`. `time` tells the nanoseconds since 1970, and `log` is told what functions say.
    pub fn new(seed: u64, time: fn() -> u64, log: fn(&[u8])) -> Self {
        Self { random: seed, time, log }
    }

    /// Nanoseconds since 1970.
    pub fn time(&self) -> u64 {
        (self.time)()
    }

    /// Any number.
    #[inline]
    pub fn random(&mut self) -> u64 {
        // SplitMix64: every state is as good as any other.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Passes on what a function says.
    pub fn log(&self, message: &[u8]) {
        (self.log)(message);
    }
}
