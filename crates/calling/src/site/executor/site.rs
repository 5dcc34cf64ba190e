//! What an executor asks of the site it works at.

use outboard_wire::calling::TrapReason;

/// A call that waits for an access to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(crate) place: u32,
    pub(crate) turn: u32,
}

/// What a site says to an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessProgress {
    /// It is done. For atomic operations this is what the word was, otherwise zero.
    Done(u64),
    /// It takes longer: [`SiteHost::begin`] is called with the same access.
    Pending,
    /// It cannot be done.
    Refused(TrapReason),
}

/// How an access ended that took longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered<'a> {
    /// What was read, as long as was asked.
    Read(&'a [u8]),
    /// It is done; what the word was, or zero.
    Done(u64),
    /// It could not be done.
    Refused(TrapReason),
}

/// An access that takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteOperation<'a> {
    /// Bytes to be read.
    Read {
        /// Where.
        offset: u64,
        /// How many.
        length: usize,
    },
    /// Bytes to be written.
    Write {
        /// Where.
        offset: u64,
        /// What.
        bytes: &'a [u8],
    },
    /// A word to be replaced if it is as expected.
    CompareSwap {
        /// Where.
        offset: u64,
        /// What it must be.
        expected: u64,
        /// What it becomes.
        desired: u64,
    },
    /// A word to be added to.
    FetchAdd {
        /// Where.
        offset: u64,
        /// How much.
        addend: u64,
    },
}

/// Reaches regions, the clock and the log for functions. Rights were looked at; bounds and alignment are the site's
/// business, since regions come and go.
pub trait SiteHost {
    /// A region that a function may use.
    type Region;

    /// Copies bytes of a region.
    fn read(&mut self, region: &Self::Region, offset: u64, into: &mut [u8]) -> AccessProgress;

    /// Copies bytes into a region.
    fn write(&mut self, region: &Self::Region, offset: u64, from: &[u8]) -> AccessProgress;

    /// Replaces a word of a region by the second if it is the first.
    fn compare_swap(&mut self, region: &Self::Region, offset: u64, words: (u64, u64)) -> AccessProgress;

    /// Adds to a word of a region.
    fn fetch_add(&mut self, region: &Self::Region, offset: u64, addend: u64) -> AccessProgress;

    /// Begins an access that it said takes longer. [`Executor::complete`](crate::Executor::complete) tells its end.
    fn begin(&mut self, ticket: Ticket, region: &Self::Region, operation: SiteOperation<'_>);

    /// Begins to bring bytes of a region nearer, if that pays where something else can be done meanwhile. Says whether it
    /// does: then they are read a little later.
    fn approach(&mut self, _region: &Self::Region, _offset: u64, _length: usize) -> bool {
        false
    }

    /// Nanoseconds since 1970.
    fn time(&mut self) -> u64;

    /// Any number.
    fn random(&mut self) -> u64;

    /// A function says something.
    fn log(&mut self, message: &[u8]);
}
