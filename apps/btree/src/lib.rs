//! A B-tree in a region of a memory server: words as keys and values, in order, used by any number of processes at once.
//!
//! [`Tree`] makes and opens the region; [`BTree`] looks up and scans by functions, from any site, and [`Inserter`] inserts at
//! the server. The functions are in `functions/btree.c`, with how the tree works.

#![forbid(unsafe_code)]

mod build;
mod client;
mod error;
mod layout;
mod tree;

pub use client::{BTree, Inserter, TreeAnswer};
pub use error::BTreeError;
pub use tree::{Tree, TreeOptions};
