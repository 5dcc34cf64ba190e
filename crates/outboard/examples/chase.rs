//! A call that follows data from one memory server to another: `chase.o` is compiled as docs/calling.md says. In another
//! terminal: `outboard up`, and in a third `outboard memory --listen unix:@second`.
//!
//!     cargo run --release -p outboard --example chase
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::{CallerOptions, FunctionImage, FunctionOptions, Outboard, Rights};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outboard = Outboard::find()?;
    let other = outboard.clone().with_address("unix:@second".parse()?);
    let mut caller = outboard.caller()?; // its memory server is server 0
    let second = caller.open_server(&other, CallerOptions::default())?; // server 1
    let (mut here, mut there) = (outboard.memory()?, other.memory()?);

    // A record is a value, the number of the server of the next one, and its offset there.
    let [records, more_records] = [here.reserve(4096, None)?, there.reserve(4096, None)?];
    here.write(&records, 0, &[17, 1, 64].map(u64::to_le_bytes).concat())?;
    there.write(&more_records, 64, &[4, u64::MAX, 0].map(u64::to_le_bytes).concat())?;

    let image = FunctionImage::from_object(&std::fs::read("chase.o")?, "chase")?;
    let chase = caller.register(&image, FunctionOptions::default().with_region(&records, Rights::READ))?;
    let options = FunctionOptions::default().with_region(&more_records, Rights::READ);
    caller.register_at(second, &image, options)?;
    let reply = caller.call(chase, &0u64.to_le_bytes())?; // what all parts have replied, in their order
    assert_eq!(reply.bytes, [17u64, 4].map(u64::to_le_bytes).concat());
    println!("found {} here and {} there", reply.bytes[0], reply.bytes[8]);
    Ok(())
}
