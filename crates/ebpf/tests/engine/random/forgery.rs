//! Continuations from a site that means harm, or was hit by a cosmic ray.

use fastrand::Rng;

use super::operations::wide_constant;

/// Flips a few bits.
pub(super) fn spoil(rng: &mut Rng, bytes: &mut [u8]) {
    for _ in 0..rng.usize(1..4) {
        let place = rng.usize(..bytes.len());
        bytes[place] ^= 1 << rng.u8(..8);
    }
}

/// Puts an address, or another number that matters, where a continuation has an argument, a register, or something
/// on a stack, in its context or in a buffer.
pub(super) fn forge(rng: &mut Rng, bytes: &mut [u8]) {
    const ARGUMENTS: usize = 48;
    const REGISTERS: usize = 98;
    for _ in 0..rng.usize(1..3) {
        let start = match rng.u8(..4) {
            0 => ARGUMENTS + 8 * rng.usize(..5),
            1 => rng.usize(REGISTERS..bytes.len() - 7),
            _ => REGISTERS + 8 * rng.usize(..4),
        };
        bytes[start..start + 8].copy_from_slice(&wide_constant(rng).to_le_bytes());
    }
}
