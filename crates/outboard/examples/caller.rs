//! A function that runs beside the data. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard --example caller

use outboard::{Caller, CallerOptions, FunctionImage, FunctionOptions, Memory, Rights};

/// Adds its argument to the first word of its first region, and returns what that was. In C it would come from an object
/// (`FunctionImage::from_object`).
const COUNT: &str = "
    ldxdw r3, [r1+0]
    mov r1, 0
    mov r2, 0
    call region_fetch_add
    exit";

#[allow(clippy::print_stdout, reason = "it is what the example is for")]
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut memory = Memory::find()?;
    let mut caller = Caller::find(CallerOptions::default())?;
    let region = memory.reserve(4096, None)?;
    let options = FunctionOptions::default().with_region(&region, Rights::ALL);
    let count = caller.register(&FunctionImage::from_text(COUNT, "main")?, options)?;
    for number in 1..=10u64 {
        caller.call(count, &number.to_le_bytes())?;
    }
    let sum = caller.call(count, &0u64.to_le_bytes())?.value;
    assert_eq!(sum, 55);
    println!("{} has counted to {sum}", caller.site());
    Ok(())
}
