//! An array larger than the memory that it takes here. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard --example far_memory
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::Outboard;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outboard = Outboard::find()?; // this user's `outboard up`
    let far = outboard.far_with(outboard.far_options().with_buffer("16MiB".parse()?))?;
    let mut counts = far.allocate::<u64>(16 << 20)?; // 128 MiB, of which 16 MiB are here at a time
    for at in (0..counts.len()).step_by(4096) {
        counts[at] += at as u64; // a page fault, a fetch, and then memory like any other
    }
    let sum: u64 = counts.iter().sum();
    assert_eq!(sum, (0..16u64 << 20).step_by(4096).sum::<u64>());
    println!("the sum is {sum}, after {} fetches", far.fetches());
    Ok(())
}
