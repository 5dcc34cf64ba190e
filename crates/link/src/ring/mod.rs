//! A single-producer single-consumer ring whose two sides do not trust each other.
//!
//! Each side counts in private and publishes its count for the other; what the other publishes is checked
//! against what it can be before it is used. This module holds the counts and the doorbell protocol, which is
//! model-checked; the bytes lie in a [`Mirror`](crate::memory::Mirror).

mod cursors;
#[cfg(all(test, loom))]
mod model;
mod record;
#[cfg(all(test, not(loom)))]
mod tests;

pub use cursors::{Consumer, Cursors, Producer};
pub use record::{RECORD_ALIGN, record_len};
