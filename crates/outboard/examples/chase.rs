//! A call that follows data from one memory server to another: `chase.o` is compiled as docs/calling.md says. In another
//! terminal: `outboard up`, and in a third `outboard memory --listen unix:@second`.
//!
//!     cargo run --release -p outboard --example chase
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::{Address, Caller, CallerOptions, FunctionImage, FunctionOptions, Job, Rights};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut job = Job::join()?; // its memory server is server 0
    let mut caller = Caller::new(&mut job, CallerOptions::default())?;
    let other: Address = "unix:@second".parse()?;
    let second = caller.open_server(&job, &other, CallerOptions::default())?; // server 1
    let mut there = job.open_memory(&other)?;
    let here = job.memory().ok_or("no memory server runs; start one with `outboard up`")?;

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
