//! A hash table that many processes share. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard-kv --example table
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::Outboard;
use outboard_kv::{Kv, KvTable, TableOptions};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outboard = Outboard::find()?; // this user's `outboard up`
    let mut memory = outboard.memory()?;
    let options = TableOptions { keys: 10_000, key_max: 16, value_max: 64 };
    let table = KvTable::create(&mut memory, "users", &options)?; // others: KvTable::open(&mut memory, "users")
    let mut kv = Kv::new(outboard.caller()?, &table)?;
    kv.put(b"ada", b"lovelace")?;
    assert_eq!(kv.get(b"ada")?, Some(b"lovelace".to_vec()));
    assert!(kv.delete(b"ada")?);
    println!("ada is {:?} now", kv.get(b"ada")?);
    table.free(&mut memory)?;
    Ok(())
}
