//! The link that a simulated caller lends to its dispatcher: the world hands a node one link at a time, and a dispatcher sends by
//! several in one turn. What is sent waits here until the world gives the node that link, and what arrived, until the
//! dispatcher asks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use fastrand::Rng;
use outboard_link::memory::{Buffer, Window, WindowMut};
use outboard_link::{
    AccessError, Capabilities, Completion, Counters, Disposition, Frame, FrameSendError, Link, LinkError,
    OpenRegion, Peer, RemoteMemory, Token, WaitOn,
};
use outboard_wire::calling::{CALL, CONTINUE, FAILED, FORWARDED, RECALL, REPLY, RESUME, RETURNED, TABLE};
use outboard_wire::{FrameHead, Grant, Rights, Time};

/// How many one-sided operations wait at most.
const OPERATIONS_MAX: usize = 16;
/// One of so many frames comes twice, where frames are repeated.
const REPEATED_ONE_OF: u32 = 20;

/// A one-sided operation that was not begun yet.
enum Operation {
    Open(Grant, Rights),
    Read { region: OpenRegion, offset: u64, into: Buffer, into_offset: usize, len: usize },
    Write { region: OpenRegion, offset: u64, data: Vec<u8> },
    CompareSwap { region: OpenRegion, offset: u64, expected: u64, desired: u64 },
    FetchAdd { region: OpenRegion, offset: u64, addend: u64 },
}

/// The state that both ends of a port see.
struct Shared {
    outgoing: VecDeque<(FrameHead, Vec<u8>)>,
    incoming: VecDeque<(FrameHead, Vec<u8>)>,
    operations: VecDeque<(Token, Operation)>,
    closing: Vec<OpenRegion>,
    completions: VecDeque<Completion>,
    lost: Option<LinkError>,
    /// How many frames have room.
    room: usize,
    /// Repeats frames, where any are.
    repeats: Option<Repeater>,
}

/// Has frames come again behind later ones, as no link does: a sender that cannot know what has arrived sends again, and slowly.
struct Repeater {
    random: Rng,
    /// A frame that went out and one that came in, which may again.
    kept: [Option<(FrameHead, Vec<u8>)>; 2],
}

impl Repeater {
    /// A frame that comes once more behind this one, if any does. Openings and registrations come once.
    fn again(&mut self, direction: usize, head: FrameHead, payload: &[u8]) -> Option<(FrameHead, Vec<u8>)> {
        let kinds = [CALL, CONTINUE, RESUME, RECALL, REPLY, FAILED, RETURNED, FORWARDED, TABLE];
        if kinds.contains(&head.kind) && self.random.u8(..4) == 0 {
            self.kept[direction] = Some((head, payload.to_vec()));
        }
        if self.random.u32(..REPEATED_ONE_OF) == 0 { self.kept[direction].clone() } else { None }
    }
}

/// A port. Clones are ends of the same one: the dispatcher's, and that of the node which the world gives its links.
#[derive(Clone)]
pub(super) struct Port {
    peer: Peer,
    capabilities: Capabilities,
    reserved: Option<FrameHead>,
    space: Buffer,
    shared: Rc<RefCell<Shared>>,
}

impl Port {
    /// A port to the node at the other end of `link`, with room for so many frames.
    pub(super) fn new<L: Link>(link: &L, room: usize, repeats: Option<Rng>) -> Self {
        let capabilities = *link.capabilities();
        // Without some pages of memory there is nothing to simulate.
        let space = Buffer::allocate(capabilities.max_payload).expect("some pages of memory");
        let shared = Shared {
            outgoing: VecDeque::new(),
            incoming: VecDeque::new(),
            operations: VecDeque::new(),
            closing: Vec::new(),
            completions: VecDeque::new(),
            lost: None,
            room,
            repeats: repeats.map(|random| Repeater { random, kept: [None, None] }),
        };
        let shared = Rc::new(RefCell::new(shared));
        Self { peer: link.peer().clone(), capabilities, reserved: None, space, shared }
    }

    /// A frame has arrived.
    pub(super) fn arrive(&self, frame: Frame<'_>) -> Disposition {
        let mut shared = self.shared.borrow_mut();
        if shared.incoming.len() >= shared.room {
            return Disposition::Deferred;
        }
        let payload = frame.payload.to_vec();
        let again = shared.repeats.as_mut().and_then(|repeats| repeats.again(0, frame.head, &payload));
        shared.incoming.push_back((frame.head, payload));
        shared.incoming.extend(again);
        Disposition::Taken
    }

    /// An operation has ended.
    pub(super) fn complete(&self, completion: Completion) {
        self.shared.borrow_mut().completions.push_back(completion);
    }

    /// Whether the link is there, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        self.shared.borrow().lost.is_none()
    }

    /// Whether something waits for the dispatcher.
    pub(super) fn has_news(&self) -> bool {
        let shared = self.shared.borrow();
        !shared.incoming.is_empty() || !shared.completions.is_empty()
    }

    /// Gives to the link what waits for it, as far as there is room. Returns whether anything was sent.
    pub(super) fn pump<L: Link + RemoteMemory>(&self, link: &mut L) -> Result<bool, LinkError> {
        let mut shared = self.shared.borrow_mut();
        let shared = &mut *shared;
        let mut moved = false;
        shared.closing.drain(..).for_each(|region| link.close_region(region));
        while let Some((token, operation)) = shared.operations.pop_front() {
            let begun = match &operation {
                Operation::Open(grant, rights) => link.open(grant, *rights, token),
                Operation::Read { region, offset, into, into_offset, len } => {
                    link.read(*region, *offset, into, *into_offset, *len, token)
                }
                Operation::Write { region, offset, data } => {
                    link.write(*region, *offset, Window::from(&data[..]), token)
                }
                Operation::CompareSwap { region, offset, expected, desired } => {
                    link.compare_swap(*region, *offset, *expected, *desired, token)
                }
                Operation::FetchAdd { region, offset, addend } => {
                    link.fetch_add(*region, *offset, *addend, token)
                }
            };
            match begun {
                Ok(()) => moved = true,
                Err(AccessError::Full) => {
                    shared.operations.push_front((token, operation));
                    break;
                }
                Err(AccessError::Lost(error)) => {
                    shared.operations.push_front((token, operation));
                    return Err(error);
                }
                Err(error) => shared.completions.push_back(Completion { token, result: Err(error) }),
            }
        }
        while let Some((head, payload)) = shared.outgoing.front() {
            match link.send(*head, payload) {
                Ok(()) => moved |= shared.outgoing.pop_front().is_some(),
                Err(FrameSendError::Lost(error)) => return Err(error),
                Err(_) => break,
            }
        }
        Ok(moved)
    }

    /// The link is gone. What has arrived is handed out before that is told.
    pub(super) fn lose(&self, error: &LinkError) {
        let mut shared = self.shared.borrow_mut();
        let shared = &mut *shared;
        shared.outgoing.clear();
        let never_begun = shared.operations.drain(..);
        let ends =
            never_begun.map(|(token, _)| Completion { token, result: Err(AccessError::Lost(error.clone())) });
        shared.completions.extend(ends);
        shared.lost = Some(error.clone());
    }

    fn push(&mut self, token: Token, operation: Operation) -> Result<(), AccessError> {
        let mut shared = self.shared.borrow_mut();
        if let Some(lost) = &shared.lost {
            return Err(AccessError::Lost(lost.clone()));
        }
        if shared.operations.len() >= OPERATIONS_MAX {
            return Err(AccessError::Full);
        }
        shared.operations.push_back((token, operation));
        Ok(())
    }
}

impl Link for Port {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn reserve(&mut self, head: FrameHead, len: usize) -> Result<WindowMut<'_>, FrameSendError> {
        let (shared, max) = (self.shared.borrow(), self.capabilities.max_payload);
        match &shared.lost {
            Some(lost) => return Err(FrameSendError::Lost(lost.clone())),
            None if len > max => return Err(FrameSendError::TooLong { len, max }),
            None if shared.outgoing.len() >= shared.room => return Err(FrameSendError::Full),
            None => {}
        }
        drop(shared);
        self.reserved = Some(head);
        Ok(self.space.window_mut().part(0, len))
    }

    fn commit(&mut self, len: usize) {
        let head = self.reserved.take().expect("a frame was reserved");
        let payload = self.space.window().part(0, len).to_vec();
        let mut shared = self.shared.borrow_mut();
        let again = shared.repeats.as_mut().and_then(|repeats| repeats.again(1, head, &payload));
        shared.outgoing.push_back((head, payload));
        shared.outgoing.extend(again);
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        Ok(())
    }

    fn receive<F>(&mut self, max_frames: usize, mut sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(Frame<'_>) -> Disposition,
    {
        let mut shared = self.shared.borrow_mut();
        for taken in 0..max_frames {
            let Some((head, payload)) = shared.incoming.pop_front() else { return Ok(taken) };
            let frame = Frame { head, payload: payload[..].into() };
            if sink(frame) == Disposition::Deferred {
                shared.incoming.push_front((head, payload));
                return Ok(taken);
            }
        }
        Ok(max_frames)
    }

    fn progress(&mut self, _: Time) -> Result<bool, LinkError> {
        let shared = self.shared.borrow();
        match &shared.lost {
            Some(lost) if shared.incoming.is_empty() => Err(lost.clone()),
            _ => Ok(false),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }

    fn prepare_to_wait(&mut self) -> bool {
        !self.has_news()
    }

    fn wait_on(&self) -> Option<WaitOn<'_>> {
        None
    }

    fn close(&mut self, _: &str) {}
}

impl RemoteMemory for Port {
    fn open(&mut self, grant: &Grant, rights: Rights, token: Token) -> Result<(), AccessError> {
        self.push(token, Operation::Open(*grant, rights))
    }

    fn close_region(&mut self, region: OpenRegion) {
        self.shared.borrow_mut().closing.push(region);
    }

    fn read(
        &mut self,
        region: OpenRegion,
        offset: u64,
        into: &Buffer,
        into_offset: usize,
        len: usize,
        token: Token,
    ) -> Result<(), AccessError> {
        self.push(token, Operation::Read { region, offset, into: into.clone(), into_offset, len })
    }

    fn write(
        &mut self,
        region: OpenRegion,
        offset: u64,
        data: Window<'_>,
        token: Token,
    ) -> Result<(), AccessError> {
        self.push(token, Operation::Write { region, offset, data: data.to_vec() })
    }

    fn compare_swap(
        &mut self,
        region: OpenRegion,
        offset: u64,
        expected: u64,
        desired: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        self.push(token, Operation::CompareSwap { region, offset, expected, desired })
    }

    fn fetch_add(
        &mut self,
        region: OpenRegion,
        offset: u64,
        addend: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        self.push(token, Operation::FetchAdd { region, offset, addend })
    }

    fn completions<F: FnMut(Completion)>(&mut self, mut sink: F) -> usize {
        let ended = std::mem::take(&mut self.shared.borrow_mut().completions);
        let count = ended.len();
        ended.into_iter().for_each(&mut sink);
        count
    }
}
