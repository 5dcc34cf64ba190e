//! Edges between any two vertices.

use crate::random::Random;

/// Both ends from one random number.
pub(super) fn draw(scale: u32, random: &mut Random) -> (u32, u32) {
    let number = random.next();
    let end = |bits: u32| (u64::from(bits) >> (32 - scale)) as u32;
    (end((number >> 32) as u32), end(number as u32))
}
