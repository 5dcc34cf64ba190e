//! A region far away whose accesses take long, overtake each other and are torn into words.

use outboard_calling::{AccessProgress, Answered, Executor, SiteHost, SiteOperation, Ticket};
use outboard_wire::calling::TrapReason;

/// An access under way: words that are still to be moved, in any order.
struct Moving {
    ticket: Ticket,
    offset: usize,
    /// What was read so far, or is to be written.
    bytes: Vec<u8>,
    /// Words that are not moved yet, by their beginnings.
    left: Vec<usize>,
    what: What,
    /// Others are moved many times before this.
    is_slow: bool,
}

enum What {
    Read,
    Write,
    CompareSwap(u64, u64),
    FetchAdd(u64),
}

/// The region.
pub(crate) struct TornSite {
    region: Vec<u8>,
    moving: Vec<Moving>,
    begun: usize,
}

/// One access in so many is slow: long enough for others to come and go meanwhile.
const SLOW: usize = 7;

impl TornSite {
    pub(crate) fn new(region: Vec<u8>) -> Self {
        Self { region, moving: Vec::new(), begun: 0 }
    }

    /// Moves one word of any access, and tells if that was its last. Returns whether there was any.
    pub(crate) fn step(&mut self, random: &mut fastrand::Rng, executor: &mut Executor<()>) -> bool {
        if self.moving.is_empty() {
            return false;
        }
        let at = random.usize(..self.moving.len());
        let Self { region, moving, .. } = self;
        let access = &mut moving[at];
        if access.is_slow && random.u8(..) > 1 {
            return true;
        }
        let mut was = 0;
        match access.what {
            What::Read | What::Write => {
                if !access.left.is_empty() {
                    let start = access.left.swap_remove(random.usize(..access.left.len()));
                    let end = (start + 8).min(access.bytes.len());
                    let there = &mut region[access.offset + start..access.offset + end];
                    match access.what {
                        What::Read => access.bytes[start..end].copy_from_slice(there),
                        _ => there.copy_from_slice(&access.bytes[start..end]),
                    }
                }
            }
            What::CompareSwap(expected, desired) => {
                was = change(region, access.offset, |was| if was == expected { desired } else { was });
            }
            What::FetchAdd(addend) => was = change(region, access.offset, |was| was.wrapping_add(addend)),
        }
        if access.left.is_empty() {
            let access = moving.swap_remove(at);
            let answered = match access.what {
                What::Read => Answered::Read(&access.bytes),
                _ => Answered::Done(was),
            };
            executor.complete(access.ticket, answered);
        }
        true
    }

    fn begin_moving(&mut self, ticket: Ticket, offset: u64, bytes: Vec<u8>, what: What) {
        let left = match what {
            What::Read | What::Write => (0..bytes.len()).step_by(8).collect(),
            _ => Vec::new(),
        };
        self.begun += 1;
        let (offset, is_slow) = (offset as usize, self.begun.is_multiple_of(SLOW));
        self.moving.push(Moving { ticket, offset, bytes, left, what, is_slow });
    }

    fn judge(&self, offset: u64, length: usize) -> AccessProgress {
        match offset.checked_add(length as u64) {
            Some(end) if end <= self.region.len() as u64 => AccessProgress::Pending,
            _ => AccessProgress::Refused(TrapReason::OutOfBounds),
        }
    }
}

fn change(region: &mut [u8], offset: usize, new: impl FnOnce(u64) -> u64) -> u64 {
    let word = &mut region[offset..offset + 8];
    let was = u64::from_le_bytes(word.try_into().unwrap());
    word.copy_from_slice(&new(was).to_le_bytes());
    was
}

impl SiteHost for TornSite {
    type Region = ();

    fn read(&mut self, (): &(), offset: u64, into: &mut [u8]) -> AccessProgress {
        self.judge(offset, into.len())
    }

    fn write(&mut self, (): &(), offset: u64, from: &[u8]) -> AccessProgress {
        self.judge(offset, from.len())
    }

    fn compare_swap(&mut self, (): &(), offset: u64, _words: (u64, u64)) -> AccessProgress {
        self.judge(offset, 8)
    }

    fn fetch_add(&mut self, (): &(), offset: u64, _addend: u64) -> AccessProgress {
        self.judge(offset, 8)
    }

    fn begin(&mut self, ticket: Ticket, (): &(), operation: SiteOperation<'_>) {
        match operation {
            SiteOperation::Read { offset, length } => {
                self.begin_moving(ticket, offset, vec![0; length], What::Read);
            }
            SiteOperation::Write { offset, bytes } => {
                self.begin_moving(ticket, offset, bytes.to_vec(), What::Write);
            }
            SiteOperation::CompareSwap { offset, expected, desired } => {
                self.begin_moving(ticket, offset, Vec::new(), What::CompareSwap(expected, desired));
            }
            SiteOperation::FetchAdd { offset, addend } => {
                self.begin_moving(ticket, offset, Vec::new(), What::FetchAdd(addend));
            }
        }
    }

    fn time(&mut self) -> u64 {
        0
    }

    fn random(&mut self) -> u64 {
        // Few enough for callers to get in each other's way.
        (self.begun as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62
    }

    fn log(&mut self, _message: &[u8]) {}
}
