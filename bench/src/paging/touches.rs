//! What an application does to a region in steady state: one word here, one word there.

use std::time::Instant;

use fastrand::Rng;

use crate::BenchError;
use crate::raw::{Shape, Traffic};

/// What a region holds at first in the word at `offset`.
pub(crate) fn word(offset: usize) -> u64 {
    (offset as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    /// Where, in bytes.
    pub(crate) offset: usize,
    /// What is stored, if anything is.
    pub(crate) value: u64,
}

/// Random accesses without end, the same for the same seed.
#[derive(Clone)]
pub(crate) struct Touches {
    rng: Rng,
    words: usize,
}

impl Touches {
    /// Accesses to words anywhere in a region of this shape.
    pub(crate) fn new(shape: &Shape, seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), words: shape.footprint() / 8 }
    }

    /// Does `count` of them to `region` and returns how long those took that faulted, in nanoseconds: those
    /// during which the number of `faults` grew. Loads must find what [`word`] says.
    ///
    /// # Safety
    /// The region is mapped, of this shape, and no other thread stores to it.
    pub(crate) unsafe fn run(
        &mut self,
        region: *mut u8,
        traffic: Traffic,
        count: u64,
        faults: impl Fn() -> u64,
    ) -> Result<Vec<u32>, BenchError> {
        let mut times_ns = Vec::with_capacity(count as usize);
        let mut faults_seen = faults();
        for Touch { offset, value } in self.by_ref().take(count as usize) {
            let place = region.wrapping_add(offset).cast::<u64>();
            let began = Instant::now();
            let found = match traffic {
                // SAFETY: an aligned word of the region, by the contract.
                Traffic::Loads => unsafe { place.read_volatile() },
                Traffic::Stores => {
                    // SAFETY: as above.
                    unsafe { place.write_volatile(value) };
                    word(offset)
                }
            };
            let took = began.elapsed();
            if found != word(offset) {
                return Err(BenchError::Changed { what: "a word", expected: word(offset), found });
            }
            let now = faults();
            if now != faults_seen {
                faults_seen = now;
                times_ns.push(took.as_nanos() as u32);
            }
        }
        Ok(times_ns)
    }
}

impl Iterator for Touches {
    type Item = Touch;

    fn next(&mut self) -> Option<Touch> {
        Some(Touch { offset: self.rng.usize(..self.words) * 8, value: self.rng.u64(..) })
    }
}
