//! Lists that grow in far memory, found by an index in ordinary memory. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard --example growing
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use std::collections::HashMap;

use outboard::{FarArena, FarVec, Outboard, RegionOptions};

const USERS: u64 = 1000;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outboard = Outboard::find()?; // this user's `outboard up`
    let far = outboard.far_with(outboard.far_options().with_buffer("4MiB".parse()?))?;
    let arena = far.arena(256 << 20, &RegionOptions::default())?; // takes memory only as it is written
    let mut visits: HashMap<u64, FarVec<u64, FarArena>> = HashMap::new();
    for day in 0..20 {
        for user in 0..USERS {
            let list = visits.entry(user).or_insert_with(|| FarVec::new_in(&arena));
            for visit in 0..100 {
                list.push(day * 100 + visit)?;
            }
        }
    }
    for list in visits.values() {
        assert!(list.iter().copied().eq(0..2000)); // used like any slice
    }
    println!("{USERS} lists have {} MiB, of which 4 MiB are here at a time", arena.allocated() >> 20);
    visits.retain(|user, _| user % 10 == 0); // frees the others, and touches none of them
    arena.trim()?; // their memory is given back, here and at the memory server
    println!("{} lists have {} KiB", visits.len(), arena.allocated() >> 10);
    Ok(())
}
