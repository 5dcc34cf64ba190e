//! What functions find at every site besides regions.

use std::time::SystemTime;

/// The clock and the random numbers of a site.
#[derive(Debug)]
pub struct Ambient {
    random: u64,
}

impl Ambient {
    /// With random numbers that begin anywhere.
    pub fn new() -> Self {
        let mut seed = [0; 8];
        // Whatever it is, it is no secret; without random bytes all sites begin alike.
        let _ = rustix::rand::getrandom(&mut seed[..], rustix::rand::GetRandomFlags::empty());
        Self { random: u64::from_le_bytes(seed) }
    }

    /// With random numbers that follow from `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self { random: seed }
    }

    /// Nanoseconds since 1970.
    pub fn time(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    }

    /// Any number.
    pub fn random(&mut self) -> u64 {
        // SplitMix64: every state is as good as any other.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Default for Ambient {
    fn default() -> Self {
        Self::new()
    }
}
