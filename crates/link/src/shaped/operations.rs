//! One-sided operations on their way out and back.

use std::collections::VecDeque;
use std::time::Duration;

use outboard_wire::access::{AccessReply, FIXED_LEN_MAX};
use outboard_wire::{FrameHeader, Grant, Rights, Time};
use rustix::io::Errno;

use super::Wire;
use super::pace::Pace;
use super::queue::ByteQueue;
use crate::memory::{Buffer, Window};
use crate::{AccessError, AccessOutcome, Completion, LinkError, OpenRegion, RemoteMemory, Token};

/// The request for the link beneath, to be made once the request has crossed the wire.
pub(super) enum Request {
    Open { grant: Grant, rights: Rights },
    Read { region: OpenRegion, offset: u64, into: Buffer, into_offset: usize, len: usize },
    Write { region: OpenRegion, offset: u64, at: u64, len: usize },
    CompareSwap { region: OpenRegion, offset: u64, expected: u64, desired: u64 },
    FetchAdd { region: OpenRegion, offset: u64, addend: u64 },
}

impl Request {
    fn data_len(&self) -> usize {
        if let Self::Write { len, .. } = self { *len } else { 0 }
    }

    /// The bytes that the answer brings besides its fixed part.
    fn returns(&self) -> u64 {
        if let Self::Read { len, .. } = self { *len as u64 } else { 0 }
    }
}

/// The answer of the link beneath to a request.
pub(super) enum Issued {
    Begun,
    NoRoom,
    Lost(LinkError),
}

/// How operations reach a link that has one-sided access. Kept as functions, so that a link without it can be
/// shaped too.
struct Hooks<L> {
    issue: fn(&mut L, &Request, Window<'_>, Token) -> Result<(), AccessError>,
    close_region: fn(&mut L, OpenRegion),
    collect: fn(&mut L, &mut dyn FnMut(Completion)),
}

struct Waiting {
    slot: u32,
    request: Request,
    release: Time,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    token: Token,
    returns: u64,
}

/// All operations between their call and their completion.
pub(super) struct Operations<L> {
    hooks: Option<Hooks<L>>,
    latency: Duration,
    back: Pace,
    /// On their way out, in order. The first `stamped` are on the wire.
    waiting: VecDeque<Waiting>,
    stamped: usize,
    /// The bytes that the writes among them carry.
    data: ByteQueue,
    /// Operations begun, and passed to the link beneath.
    begun: u64,
    issued: u64,
    /// Regions to close once that many operations have been passed on.
    closing: VecDeque<(u64, OpenRegion)>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// On their way back, in order.
    returning: VecDeque<(Time, u32, Result<AccessOutcome, AccessError>)>,
}

impl<L> Operations<L> {
    pub(super) fn new(wire: &Wire, max_operations: usize, data_bytes: usize) -> Result<Self, Errno> {
        Ok(Self {
            hooks: None,
            latency: wire.latency,
            back: Pace::new(wire.bandwidth),
            waiting: VecDeque::with_capacity(max_operations),
            stamped: 0,
            data: ByteQueue::new(data_bytes)?,
            begun: 0,
            issued: 0,
            closing: VecDeque::new(),
            slots: vec![Slot::default(); max_operations],
            free: (0..max_operations as u32).rev().collect(),
            returning: VecDeque::with_capacity(max_operations),
        })
    }

    pub(super) fn data_capacity(&self) -> usize {
        self.data.capacity()
    }

    /// Keeps a copy of what a write carries.
    pub(super) fn keep(&mut self, data: Window<'_>) -> Option<u64> {
        if self.free.is_empty() { None } else { self.data.push(data) }
    }

    pub(super) fn begin(&mut self, request: Request, token: Token) -> Result<(), AccessError>
    where
        L: RemoteMemory,
    {
        let slot = self.free.pop().ok_or(AccessError::Full)?;
        self.hooks.get_or_insert(Hooks {
            issue: issue::<L>,
            close_region: L::close_region,
            collect: |link, sink| {
                link.completions(sink);
            },
        });
        self.slots[slot as usize] = Slot { token, returns: request.returns() };
        self.waiting.push_back(Waiting { slot, request, release: Time::MAX });
        self.begun += 1;
        Ok(())
    }

    /// Closes a region behind the operations that were begun before.
    pub(super) fn close_region(&mut self, region: OpenRegion) {
        if self.closing.iter().all(|(_, other)| *other != region) {
            self.closing.push_back((self.begun, region));
        }
    }

    pub(super) fn has_unstamped(&self) -> bool {
        self.stamped != self.waiting.len()
    }

    /// Puts what was begun on the wire; `leaves_at` says when a request of so many bytes comes out.
    pub(super) fn stamp(&mut self, mut leaves_at: impl FnMut(u64) -> Time) {
        for waiting in self.waiting.iter_mut().skip(self.stamped) {
            let bytes = FrameHeader::LEN + FIXED_LEN_MAX + waiting.request.data_len();
            waiting.release = leaves_at(bytes as u64);
        }
        self.stamped = self.waiting.len();
    }

    /// When the first request on the wire comes out.
    pub(super) fn first_release(&self) -> Option<Time> {
        if self.stamped == 0 { None } else { self.waiting.front().map(|waiting| waiting.release) }
    }

    /// Passes the first request on.
    pub(super) fn issue_first(&mut self, link: &mut L, now: Time) -> Issued {
        self.close_regions(link);
        let (Some(waiting), Some(hooks)) = (self.waiting.front(), &self.hooks) else {
            return Issued::NoRoom;
        };
        let (slot, data_len) = (waiting.slot, waiting.request.data_len());
        let data = match waiting.request {
            Request::Write { at, len, .. } => self.data.window(at, len),
            _ => Window::from(&[][..]),
        };
        let result = (hooks.issue)(link, &waiting.request, data, Token(slot.into()));
        if let Err(AccessError::Full) = result {
            return Issued::NoRoom;
        }
        self.waiting.pop_front();
        self.data.pop(data_len);
        self.stamped -= 1;
        self.issued += 1;
        match result {
            Ok(()) => Issued::Begun,
            Err(error) => {
                let lost = if let AccessError::Lost(lost) = &error { Some(lost.clone()) } else { None };
                self.send_back(slot, Err(error), now);
                lost.map_or(Issued::Begun, Issued::Lost)
            }
        }
    }

    /// Closes the regions whose turn it is.
    pub(super) fn close_regions(&mut self, link: &mut L) {
        let Some(hooks) = &self.hooks else { return };
        while let Some((after, region)) = self.closing.front().copied()
            && after <= self.issued
        {
            (hooks.close_region)(link, region);
            self.closing.pop_front();
        }
    }

    /// Takes what the link beneath has completed and sends it on the way back.
    pub(super) fn collect(&mut self, link: &mut L, now: Time) -> bool {
        let Some(collect) = self.hooks.as_ref().map(|hooks| hooks.collect) else { return false };
        let before = self.returning.len();
        collect(link, &mut |completion| self.send_back(completion.token.0 as u32, completion.result, now));
        self.returning.len() != before
    }

    fn send_back(&mut self, slot: u32, result: Result<AccessOutcome, AccessError>, now: Time) {
        let brought = if result.is_ok() { self.slots[slot as usize].returns } else { 0 };
        let bytes = (FrameHeader::LEN + AccessReply::FIXED_LEN) as u64 + brought;
        let due = self.back.occupy(now, bytes) + self.latency;
        self.returning.push_back((due, slot, result));
    }

    /// When the next completion can be handed out.
    pub(super) fn first_return(&self) -> Option<Time> {
        self.returning.front().map(|(due, ..)| *due)
    }

    /// Ends everything that is still on its way out.
    pub(super) fn abandon(&mut self, lost: &LinkError) {
        self.stamped = 0;
        while let Some(waiting) = self.waiting.pop_front() {
            self.data.pop(waiting.request.data_len());
            self.issued += 1;
            self.returning.push_back((Time::ZERO, waiting.slot, Err(lost.clone().into())));
        }
    }

    /// Hands out what is back by `now`.
    pub(super) fn hand_out(&mut self, now: Time, mut sink: impl FnMut(Completion)) -> usize {
        let mut count = 0;
        while self.first_return().is_some_and(|due| due <= now)
            && let Some((_, slot, result)) = self.returning.pop_front()
        {
            self.free.push(slot);
            count += 1;
            sink(Completion { token: self.slots[slot as usize].token, result });
        }
        count
    }

    /// How many operations have not been passed on yet.
    pub(super) fn queued(&self) -> usize {
        self.waiting.len()
    }
}

fn issue<L: RemoteMemory>(
    link: &mut L,
    request: &Request,
    data: Window<'_>,
    token: Token,
) -> Result<(), AccessError> {
    match request {
        Request::Open { grant, rights } => link.open(grant, *rights, token),
        Request::Read { region, offset, into, into_offset, len } => {
            link.read(*region, *offset, into, *into_offset, *len, token)
        }
        Request::Write { region, offset, .. } => link.write(*region, *offset, data, token),
        Request::CompareSwap { region, offset, expected, desired } => {
            link.compare_swap(*region, *offset, *expected, *desired, token)
        }
        Request::FetchAdd { region, offset, addend } => link.fetch_add(*region, *offset, *addend, token),
    }
}
