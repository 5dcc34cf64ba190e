//! What becomes of writes.

use outboard_wire::access::AccessStatus;

use super::WriteId;
use crate::{WritePath, WriteSpan};

/// Why a write cannot begin now. Nothing was done; try again when others have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotYet {
    /// As much is under way as there is room for.
    Full,
    /// A write before it touches the same bytes and has to end first.
    Ordered,
    /// A fence waits for the writes before it.
    Fenced,
    /// Too many writes have ended without the program asking for them.
    Untold,
}

/// How a write ended that did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// The target refused it, and nothing was written.
    Refused(AccessStatus),
    /// The target is gone, and whether it was written is not known.
    Lost,
}

/// A write that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedWrite {
    /// Which.
    pub id: WriteId,
    /// What it wrote, or did not.
    pub span: WriteSpan,
    /// By which path.
    pub path: WritePath,
    /// Visible at the target, or why not.
    pub result: Result<(), WriteFault>,
}

/// What a writer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Writes that were offloaded.
    pub offloaded: u64,
    /// Writes that were unloaded.
    pub unloaded: u64,
    /// Of those, writes that followed others on their bytes, and were not decided.
    pub followed: u64,
    /// Batches that were sent, again or for the first time.
    pub batches: u64,
    /// Entries that were sent again.
    pub resent: u64,
    /// Writes that were refused or lost.
    pub failed: u64,
}

/// What a target said that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonsense;
