//! How a process tells its links apart.

use std::sync::atomic::{AtomicU64, Ordering};

/// A link's number in this process; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

impl LinkId {
    /// A number that no link has had.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Where a link came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkOrigin {
    /// The peer connected to us.
    Accepted,
    /// We connected, by the dial of this number.
    Dialled(usize),
}
