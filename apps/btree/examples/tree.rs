//! A B-tree that many processes share. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard-btree --example tree
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::{CallSite, CallerOptions, Outboard};
use outboard_btree::{BTree, Inserter, Tree, TreeOptions};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outboard = Outboard::find()?; // this user's `outboard up`
    let mut memory = outboard.memory()?;
    let tree = Tree::create(&mut memory, "index", &TreeOptions { keys: 10_000 })?; // others: Tree::open(&mut memory, "index")
    // Inserts lock, and belong to the server; look-ups and scans run anywhere.
    let at_server = outboard.caller_with(CallerOptions::default().with_placement(CallSite::Server))?;
    let mut inserter = Inserter::new(at_server, &tree)?;
    inserter.insert(17, 4)?;
    inserter.insert(3, 9)?;
    let mut user = BTree::new(outboard.caller()?, &tree)?;
    assert_eq!((user.lookup(17)?, user.lookup(18)?), (Some(4), None));
    println!("in order: {:?}", user.scan(0, 10)?);
    tree.free(&mut memory)?;
    Ok(())
}
