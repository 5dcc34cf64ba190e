//! A region of a memory server, by calls. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard --example memory
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::Outboard;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut memory = Outboard::find()?.memory()?; // the server of this user's `outboard up`
    let table = memory.reserve(1 << 20, None)?; // ends with this process; give it a name to keep it
    memory.write(&table, 4096, b"far away")?; // visible there when the call returns
    let before = memory.fetch_add(&table, 0, 5)?;
    let mut bytes = [0; 8];
    memory.read(&table, 4096, &mut bytes)?;
    assert_eq!((before, &bytes), (0, b"far away"));
    println!("{} has “{}”", memory.peer(), String::from_utf8_lossy(&bytes));
    Ok(())
}
