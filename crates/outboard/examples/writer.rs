//! Remote writes that choose their path one by one. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard --example writer

use outboard::{Memory, Writer, WriterOptions};

#[allow(clippy::print_stdout, reason = "it is what the example is for")]
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut memory = Memory::find()?;
    let mut writer = Writer::find(WriterOptions::default())?;
    let region = memory.reserve(64 << 20, None)?;
    let target = writer.open(&region)?;
    for number in 0..10_000u64 {
        writer.write(target, number * 4096, &number.to_le_bytes())?;
    }
    writer.flush()?; // all of it is visible now
    let mut last = [0; 8];
    memory.read(&region, 9_999 * 4096, &mut last)?;
    assert_eq!(u64::from_le_bytes(last), 9_999);
    println!("{}", writer.explain());
    Ok(())
}
