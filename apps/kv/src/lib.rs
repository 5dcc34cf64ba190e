//! A hash table in a region of a memory server: keys and values of some bytes, used by any number of processes at once.
//!
//! [`KvTable`] makes and opens the region; [`Kv`] gets, puts and deletes by functions that run at the server. The functions
//! are in `functions/kv.c`, with how the table works.

#![forbid(unsafe_code)]

mod client;
mod error;
mod layout;
mod table;
pub mod ycsb;

pub use client::{Kv, TableAnswer, image};
pub use error::KvError;
pub use layout::Layout;
pub use table::{KvTable, TableOptions};
