//! All cores at once on an array in far memory, by rayon. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard --example parallel
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::Outboard;
use rayon::prelude::*;

/// How many elements a thread takes at a time: 512 KiB of them, so that few faults fall on the border between two threads.
const BLOCK: usize = 64 << 10;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outboard = Outboard::find()?; // this user's `outboard up`
    let far = outboard.far_with(outboard.far_options().with_buffer("16MiB".parse()?))?;
    let mut numbers = far.allocate::<u64>(8 << 20)?; // 64 MiB, of which 16 MiB are here at a time
    numbers.par_chunks_mut(BLOCK).enumerate().for_each(|(block, part)| {
        for (number, place) in (block * BLOCK..).zip(part) {
            *place = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        }
    });
    let numbers = numbers.freeze()?; // read-only from now on, which makes faults cheaper
    let (sum, most) = numbers
        .par_chunks(BLOCK)
        .map(|part| (part.iter().sum::<u64>(), part.iter().copied().max()))
        .reduce(|| (0, None), |one, other| (one.0 + other.0, one.1.max(other.1)));
    assert_eq!(sum, numbers.iter().sum::<u64>());
    println!("{} threads: the sum is {sum}, the most {}", rayon::current_num_threads(), most.unwrap_or(0));
    Ok(())
}
