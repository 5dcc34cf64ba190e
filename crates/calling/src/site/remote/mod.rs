//! What functions reach from afar: regions of a memory server, by a link to it. Where the link maps regions, accesses end
//! at once; where it does not, the function is suspended until the link tells the end.

mod opening;
mod operations;
mod pool;

use std::sync::atomic::{Ordering, fence};

use outboard_contract::memory::Mapping;
use outboard_contract::{
    AccessError, AccessOutcome, Completion, ImmediateAccess, LinkError, OpenRegion, RemoteMemory, Token,
};
use outboard_wire::calling::{Allowed, CallerId, TrapReason};
use outboard_wire::mutant;

use crate::{AccessProgress, Ambient, Answered, FindRegion, Refused, SiteHost, SiteOperation, Ticket};
use opening::Openings;
use operations::Operations;

pub use opening::RemoteRegion;

/// Tokens of calls have these bits, so that they can be told from others' on the same link.
const CALLING: u64 = 3 << 62;
/// The token of an opening, not of an access.
const OPENING: u64 = 1 << 61;

/// Whether an operation with this token was begun for a call.
#[inline]
pub fn is_of_call(token: Token) -> bool {
    token.0 & CALLING == CALLING
}

/// The regions of functions at the other end of one link, and the accesses to them that are under way.
pub struct RemoteAccess {
    openings: Openings,
    operations: Operations,
    ambient: Ambient,
}

impl RemoteAccess {
    /// Nothing is open. A site that opens regions on behalf of others sets `trusts_no_client`: it opens no region before it has
    /// [asked](Self::next_unproven) the server.
    pub fn new(ambient: Ambient, trusts_no_client: bool) -> Self {
        let (openings, operations) = (Openings::new(trusts_no_client), Operations::default());
        Self { openings, operations, ambient }
    }

    /// A region that the server is to be asked about before it is opened, with a number below 512. A grant that promises
    /// more than there is would end the link.
    pub fn next_unproven(&mut self) -> Option<(u32, Allowed)> {
        self.openings.next_unproven()
    }

    /// What the server says of the region of that number.
    pub fn judged(&mut self, number: u32, verdict: Result<(), Refused>) {
        self.openings.judged(number, verdict);
    }

    /// A caller has gone: regions that no function uses any more are given back, and those that only it has asked for.
    pub fn caller_gone(&mut self, caller: CallerId) {
        self.openings.caller_gone(caller);
    }

    /// Gives to the link what it had no room for. Returns whether anything moved.
    pub fn work<L: RemoteMemory>(&mut self, link: &mut L) -> Result<bool, LinkError> {
        Ok(self.openings.work(link)? | self.operations.work(link))
    }

    /// An operation of a call has ended: tells the call that waits for it.
    pub fn on_completion(&mut self, completion: &Completion, tell: impl FnMut(Ticket, Answered<'_>)) {
        let index = completion.token.0 as u32;
        if completion.token.0 & OPENING == 0 {
            if !mutant("calling.completion-lost") {
                self.operations.ended(index, &completion.result, tell);
            }
            return;
        }
        let result = match &completion.result {
            Ok(AccessOutcome::Opened(region)) => Ok(*region),
            Ok(_) => Err(AccessError::NotOpen),
            Err(error) => Err(error.clone()),
        };
        self.openings.opened(index, result);
    }

    /// Tells the ends of accesses that did not even begin.
    pub fn refused(&mut self, tell: impl FnMut(Ticket, Answered<'_>)) {
        self.operations.refused(tell);
    }

    /// The site, while the link is at hand.
    pub fn site<'a, L>(&'a mut self, link: &'a mut L) -> RemoteSite<'a, L> {
        RemoteSite { access: self, link }
    }
}

impl FindRegion for RemoteAccess {
    type Region = RemoteRegion;

    fn find(&mut self, by: CallerId, allowed: &Allowed) -> Result<Option<RemoteRegion>, Refused> {
        self.openings.find(by, allowed)
    }
}

/// What was wrong with an access, for the function that asked for it.
fn reason(error: &AccessError) -> TrapReason {
    match error {
        AccessError::OutOfBounds { .. } => TrapReason::OutOfBounds,
        AccessError::NoRight { .. } => TrapReason::NoRight,
        AccessError::NotOpen => TrapReason::RegionGone,
        AccessError::Misaligned { .. } => TrapReason::Misaligned,
        _ => TrapReason::NotReached,
    }
}

/// Regions at the other end of a link, for functions.
pub struct RemoteSite<'a, L> {
    access: &'a mut RemoteAccess,
    link: &'a mut L,
}

impl<L: RemoteMemory> RemoteSite<'_, L> {
    #[inline]
    fn at_once(
        &mut self,
        region: OpenRegion,
        span: (u64, usize),
        what: ImmediateAccess,
        use_it: impl FnOnce(&Mapping) -> u64,
    ) -> AccessProgress {
        match self.link.at_once(region, span, what, use_it) {
            Some(Ok(value)) => AccessProgress::Done(value),
            Some(Err(error)) => AccessProgress::Refused(reason(&error)),
            None => AccessProgress::Pending,
        }
    }
}

impl<L: RemoteMemory> SiteHost for RemoteSite<'_, L> {
    type Region = RemoteRegion;

    #[inline]
    fn read(&mut self, region: &RemoteRegion, offset: u64, into: &mut [u8]) -> AccessProgress {
        self.at_once(region.open(), (offset, into.len()), ImmediateAccess::Read, |memory| {
            memory.window(offset as usize, into.len()).read(0, into);
            // What the function reads next is no older than this.
            fence(Ordering::Acquire);
            0
        })
    }

    #[inline]
    fn write(&mut self, region: &RemoteRegion, offset: u64, from: &[u8]) -> AccessProgress {
        self.at_once(region.open(), (offset, from.len()), ImmediateAccess::Write, |memory| {
            // A thread that sees this sees what was written before.
            fence(Ordering::Release);
            memory.window_mut(offset as usize, from.len()).write(0, from);
            0
        })
    }

    #[inline]
    fn compare_swap(
        &mut self,
        region: &RemoteRegion,
        offset: u64,
        (expected, desired): (u64, u64),
    ) -> AccessProgress {
        self.at_once(region.open(), (offset, 8), ImmediateAccess::Atomic, |memory| {
            let word = memory.word(offset as usize);
            let (expected, desired) = (expected.to_le(), desired.to_le());
            let swapped = word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst);
            u64::from_le(swapped.unwrap_or_else(|found| found))
        })
    }

    #[inline]
    fn fetch_add(&mut self, region: &RemoteRegion, offset: u64, addend: u64) -> AccessProgress {
        self.at_once(region.open(), (offset, 8), ImmediateAccess::Atomic, |memory| {
            memory.word(offset as usize).fetch_add(addend, Ordering::SeqCst)
        })
    }

    fn begin(&mut self, ticket: Ticket, region: &RemoteRegion, operation: SiteOperation<'_>) {
        self.access.operations.begin(self.link, ticket, region, operation);
    }

    fn time(&mut self) -> u64 {
        self.access.ambient.time()
    }

    fn random(&mut self) -> u64 {
        self.access.ambient.random()
    }

    fn log(&mut self, message: &[u8]) {
        self.access.ambient.log(message);
    }
}
