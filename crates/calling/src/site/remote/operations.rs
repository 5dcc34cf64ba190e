//! Accesses of suspended functions.

use std::collections::VecDeque;

use outboard_contract::{AccessError, AccessOutcome, RemoteMemory, Token};
use outboard_wire::calling::TrapReason;

use super::opening::RemoteRegion;
use super::pool::{Piece, Pool};
use super::{CALLING, reason};
use crate::{Answered, SiteOperation, Ticket};

/// An access that a function waits for.
struct UnderWay {
    ticket: Ticket,
    region: RemoteRegion,
    offset: u64,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Read(Piece, usize),
    Write(Piece, usize),
    CompareSwap(u64, u64),
    FetchAdd(u64),
}

/// The accesses that are under way on one link, and those that wait for room there.
#[derive(Default)]
pub(super) struct Operations {
    /// By the number in their token.
    places: Vec<Option<UnderWay>>,
    vacant: Vec<u32>,
    waiting: VecDeque<u32>,
    refused: Vec<(Ticket, TrapReason)>,
    pool: Pool,
    /// What was read last.
    bytes: Vec<u8>,
}

impl Operations {
    pub(super) fn begin<L: RemoteMemory>(
        &mut self,
        link: &mut L,
        ticket: Ticket,
        region: &RemoteRegion,
        operation: SiteOperation<'_>,
    ) {
        let Some((offset, what)) = self.prepare(operation) else {
            self.refused.push((ticket, TrapReason::NotReached));
            return;
        };
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[index as usize] = Some(UnderWay { ticket, region: region.clone(), offset, what });
        // Those that wait already go first.
        if !self.waiting.is_empty() || !self.issue(link, index) {
            self.waiting.push_back(index);
        }
    }

    /// Finds memory for an access, and puts there what is to be written.
    fn prepare(&mut self, operation: SiteOperation<'_>) -> Option<(u64, What)> {
        Some(match operation {
            SiteOperation::Read { offset, length } => (offset, What::Read(self.pool.take(length)?, length)),
            SiteOperation::Write { offset, bytes } => {
                let piece = self.pool.take(bytes.len())?;
                self.pool.window_mut(piece, bytes.len()).write(0, bytes);
                (offset, What::Write(piece, bytes.len()))
            }
            SiteOperation::CompareSwap { offset, expected, desired } => {
                (offset, What::CompareSwap(expected, desired))
            }
            SiteOperation::FetchAdd { offset, addend } => (offset, What::FetchAdd(addend)),
        })
    }

    /// Gives an access to the link. Returns false if there is no room for it now.
    fn issue<L: RemoteMemory>(&mut self, link: &mut L, index: u32) -> bool {
        let Some(Some(access)) = self.places.get(index as usize) else { return true };
        let (region, offset, token) =
            (access.region.open(), access.offset, Token(CALLING | u64::from(index)));
        let begun = match access.what {
            What::Read(piece, length) => {
                let (buffer, at) = self.pool.place(piece);
                link.read(region, offset, buffer, at, length, token)
            }
            What::Write(piece, length) => link.write(region, offset, self.pool.window(piece, length), token),
            What::CompareSwap(expected, desired) => {
                link.compare_swap(region, offset, expected.to_le(), desired.to_le(), token)
            }
            What::FetchAdd(addend) => link.fetch_add(region, offset, addend, token),
        };
        match begun {
            Ok(()) => true,
            Err(AccessError::Full | AccessError::Busy) => false,
            Err(error) => {
                if let Some(access) = self.take(index) {
                    self.refused.push((access.ticket, reason(&error)));
                }
                true
            }
        }
    }

    /// Gives to the link what waits. Returns whether anything moved.
    pub(super) fn work<L: RemoteMemory>(&mut self, link: &mut L) -> bool {
        let before = self.waiting.len();
        while let Some(index) = self.waiting.front().copied() {
            if !self.issue(link, index) {
                break;
            }
            self.waiting.pop_front();
        }
        self.waiting.len() < before
    }

    fn take(&mut self, index: u32) -> Option<UnderWay> {
        let access = self.places.get_mut(index as usize)?.take()?;
        if let What::Read(piece, _) | What::Write(piece, _) = access.what {
            self.pool.give_back(piece);
        }
        self.vacant.push(index);
        Some(access)
    }

    /// The access of this number has ended.
    pub(super) fn ended(
        &mut self,
        index: u32,
        result: &Result<AccessOutcome, AccessError>,
        mut tell: impl FnMut(Ticket, Answered<'_>),
    ) {
        // Its memory is free again, and no other operation uses it before this is over.
        let Some(access) = self.take(index) else { return };
        let answered = match (result, access.what) {
            (Err(error), _) => Answered::Refused(reason(error)),
            (Ok(AccessOutcome::Read), What::Read(piece, length)) => {
                self.bytes.resize(length, 0);
                self.pool.window(piece, length).read(0, &mut self.bytes);
                Answered::Read(&self.bytes)
            }
            (Ok(AccessOutcome::Written), What::Write(..)) => Answered::Done(0),
            (Ok(AccessOutcome::Old(old)), What::CompareSwap(..) | What::FetchAdd(_)) => {
                Answered::Done(u64::from_le(*old))
            }
            _ => Answered::Refused(TrapReason::NotReached),
        };
        tell(access.ticket, answered);
    }

    /// Tells the ends of accesses that the link did not take.
    pub(super) fn refused(&mut self, mut tell: impl FnMut(Ticket, Answered<'_>)) {
        for (ticket, reason) in self.refused.drain(..) {
            tell(ticket, Answered::Refused(reason));
        }
    }
}
