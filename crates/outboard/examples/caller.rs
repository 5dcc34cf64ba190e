//! A function that runs beside the data. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard --example caller
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::{FunctionImage, FunctionOptions, Outboard, Rights};

/// Adds its argument to the first word of its first region, and returns what that was.
const COUNT: &str = "
    ldxdw r3, [r1+0]
    mov r1, 0
    mov r2, 0
    call region_fetch_add
    exit";

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outboard = Outboard::find()?; // this user's `outboard up`
    let (mut memory, mut caller) = (outboard.memory()?, outboard.caller()?);
    let region = memory.reserve(4096, None)?;
    let options = FunctionOptions::default().with_region(&region, Rights::ALL);
    let count = caller.register(&FunctionImage::from_text(COUNT, "main")?, options)?;
    let before = caller.call(count, &7u64.to_le_bytes())?; // one call, waited for
    assert_eq!(before.value, 0);
    for number in 0..100u64 {
        caller.begin(count, &number.to_le_bytes())?; // many at once, sent together
    }
    let mut failed = None;
    while caller.under_way() > 0 {
        caller.drain(|_, result| failed = result.err().or(failed.take()));
    }
    failed.map_or(Ok(()), Err)?;
    let sum = caller.call(count, &0u64.to_le_bytes())?.value;
    assert_eq!(sum, 7 + 4950);
    println!("{} has counted to {sum}", caller.site());
    Ok(())
}
