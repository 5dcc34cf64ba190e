//! Moments and choices that a seed decides.

/// A small generator of numbers; the same seed gives the same ones.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Whether something that happens once in `times` happens now.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Puts items into another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// The seed of this run: drawn anew, or the one in `OUTBOARD_SEED`. Printed, so that a failure can be repeated.
#[must_use]
pub fn seed() -> u64 {
    let given = std::env::var("OUTBOARD_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Random::new(now.as_nanos() as u64 ^ u64::from(std::process::id())).next() >> 16
    });
    println!("OUTBOARD_SEED={seed} repeats this");
    seed
}
