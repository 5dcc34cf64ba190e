//! A hash table that many processes share. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard-kv --example table
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::{Caller, CallerOptions, Memory};
use outboard_kv::{Kv, Table, TableOptions};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut memory = Memory::find()?; // the server of this user's `outboard up`
    let options = TableOptions { keys: 10_000, key_max: 16, value_max: 64 };
    let table = Table::create(&mut memory, "users", &options)?; // others: Table::open(&mut memory, "users")
    let mut kv = Kv::new(Caller::find(CallerOptions::default())?, &table)?;
    kv.put(b"ada", b"lovelace")?;
    assert_eq!(kv.get(b"ada")?, Some(b"lovelace".to_vec()));
    assert!(kv.delete(b"ada")?);
    println!("ada is {:?} now", kv.get(b"ada")?);
    table.free(&mut memory)?;
    Ok(())
}
