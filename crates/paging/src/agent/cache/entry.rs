//! One slot of the cache and what lies in it.

use outboard_wire::mutant;

use super::pieces::PieceSet;
use super::replacement::Usage;

/// The end of a list that is linked by numbers.
pub(crate) const NO_NUMBER: u32 = u32::MAX;

/// Which range of which region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EntryKey {
    pub(crate) region: u32,
    pub(crate) entry: u64,
}

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenancy {
    /// For nothing.
    Free,
    /// For the range that the table finds here.
    Resident(EntryKey),
    /// For no new request: what lay here was dropped while bytes still moved in or out.
    Leaving,
}

/// A slot of the cache.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) tenancy: Tenancy,
    /// Reasons not to give the slot to another: loads into it, requests that wait for it or are answered from it,
    /// write-backs whose bytes it holds.
    pub(crate) pins: u32,
    /// The pieces that exist: fewer than usual at the end of a region.
    pub(crate) whole: PieceSet,
    /// Bytes as the server has them.
    pub(crate) valid: PieceSet,
    /// On their way from the server.
    pub(crate) loading: PieceSet,
    /// On their way, but written meanwhile: what arrives may be older, and is not valid.
    pub(crate) spoiled: PieceSet,
    /// Newer than at the server: valid once the write-backs that brought them are acknowledged.
    pub(crate) held: PieceSet,
    /// Held pieces of which a write-back has failed: never valid.
    pub(crate) broken: PieceSet,
    /// Read ahead and not asked for yet.
    pub(crate) fresh: PieceSet,
    /// Asked for during the present visit.
    pub(crate) touched: PieceSet,
    /// How many pieces were read ahead since the entry came.
    pub(crate) prefetched: u32,
    /// Whether what follows from the present visit has been planned.
    pub(crate) is_planned: bool,
    /// The loads under way, linked through the loads.
    pub(crate) first_load: u32,
    pub(crate) usage: Usage,
}

impl Entry {
    /// A slot without a user.
    pub(crate) fn free() -> Self {
        Self {
            tenancy: Tenancy::Free,
            pins: 0,
            whole: PieceSet::NONE,
            valid: PieceSet::NONE,
            loading: PieceSet::NONE,
            spoiled: PieceSet::NONE,
            held: PieceSet::NONE,
            broken: PieceSet::NONE,
            fresh: PieceSet::NONE,
            touched: PieceSet::NONE,
            prefetched: 0,
            is_planned: false,
            first_load: NO_NUMBER,
            usage: Usage::default(),
        }
    }

    /// Whether pieces can neither be answered from here nor loaded now.
    pub(crate) fn is_barred(&self, pieces: PieceSet) -> bool {
        self.held.with(self.spoiled).meets(pieces) && !mutant("paging.answered-while-written")
    }

    /// The pieces of `wanted` that neither are here nor will be without a new load.
    pub(crate) fn missing(&self, wanted: PieceSet) -> PieceSet {
        wanted.and(self.whole).without(self.valid).without(self.loading).without(self.held)
    }
}
