//! A function in C that runs beside the data: `count.o` is compiled as docs/calling.md says. In another terminal:
//! `outboard up`.
//!
//!     cargo run --release -p outboard --example count
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::{FunctionImage, FunctionOptions, Outboard, Rights};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outboard = Outboard::find()?;
    let (mut memory, mut caller) = (outboard.memory()?, outboard.caller()?);
    let region = memory.reserve(4096, None)?;
    let image = FunctionImage::from_object(&std::fs::read("count.o")?, "count")?;
    let count = caller.register(&image, FunctionOptions::default().with_region(&region, Rights::ALL))?;
    caller.call(count, &40u64.to_le_bytes())?;
    let reply = caller.call(count, &2u64.to_le_bytes())?;
    assert_eq!((reply.value, reply.bytes.as_slice()), (40, 42u64.to_le_bytes().as_slice()));
    println!("it was {}, and is {}", reply.value, reply.bytes[0]);
    Ok(())
}
