//! Remote writes that choose their path one by one. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard --example writer
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::Outboard;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outboard = Outboard::find()?; // this user's `outboard up`
    let (mut memory, mut writer) = (outboard.memory()?, outboard.writer()?);
    let region = memory.reserve(64 << 20, None)?;
    let target = writer.open(&region)?;
    for number in 0..10_000u64 {
        writer.write(target, number * 4096, &number.to_le_bytes())?;
    }
    writer.fence(); // what follows begins when everything before has ended
    let last = writer.write_with_signal(target, 9_999 * 4096, &17u64.to_le_bytes())?;
    writer.flush()?; // all of it is visible now
    while let Some(told) = writer.poll() {
        told.result?; // only writes with a signal are told, and those that failed
        assert_eq!(told.id, last);
        println!("the last write is visible, by {}", told.path);
    }
    let mut bytes = [0; 8];
    memory.read(&region, 9_999 * 4096, &mut bytes)?;
    assert_eq!(u64::from_le_bytes(bytes), 17);
    writer.explain().iter().for_each(|line| println!("{line}"));
    Ok(())
}
