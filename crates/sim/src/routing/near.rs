//! Processes of one node: memory that they map from each other, and links between them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use fastrand::Rng;
use outboard_link::memory::{Buffer, Window, WindowMut};
use outboard_link::{
    AccessError, AccessOutcome, Capabilities, Completion, Counters, Disposition, Frame, FrameSendError, Link,
    LinkError, OneSided, OpenRegion, Peer, RemoteMemory, Token, WaitOn,
};
use outboard_routing::{Buffers, BundleMemory};
use outboard_wire::{FrameHead, Generation, Grant, RegionId, RegionKey, Rights, Time};

/// Memory that processes let others of their node map, as long as any of them does: also when its owner has crashed. Clones are
/// the same.
#[derive(Clone, Default)]
pub(super) struct Exported(Rc<RefCell<Vec<(Grant, Buffer)>>>);

impl Exported {
    /// Takes memory that others can map, and what they present for it.
    pub(super) fn allocate(&self, bytes: usize, random: &mut Rng) -> (Buffer, Grant) {
        // Without some pages of memory there is nothing to simulate.
        let memory = Buffer::allocate(bytes).expect("some pages of memory");
        let grant = Grant {
            region: RegionId(random.u64(..)),
            generation: Generation(1),
            key: RegionKey([random.u8(..); 16]),
            rights: Rights::READ,
            size: memory.len() as u64,
        };
        self.0.borrow_mut().push((grant, memory.clone()));
        (memory, grant)
    }

    /// Takes the memory of a rank's bundles.
    pub(super) fn take_buffers(
        &self,
        bundle_bytes: usize,
        counts: (u32, u32),
        parties: (usize, u32),
        random: &mut Rng,
    ) -> Buffers {
        let (outgoing, grant) = self.allocate(counts.0 as usize * bundle_bytes, random);
        let incoming = Buffer::allocate(Buffers::incoming_bytes(bundle_bytes, counts.1));
        // As above.
        let incoming = incoming.expect("some pages of memory");
        Buffers::new(BundleMemory { outgoing, grant, incoming }, bundle_bytes, counts, parties)
    }

    fn find(&self, grant: &Grant) -> Option<usize> {
        self.0.borrow().iter().position(|(own, _)| own == grant)
    }
}

/// A link whose peer is a process of the same node: what that lets others read is mapped.
pub(super) struct NearLink<'a, L> {
    link: &'a mut L,
    exported: &'a Exported,
    capabilities: Capabilities,
    ended: VecDeque<Completion>,
}

impl<'a, L: Link> NearLink<'a, L> {
    pub(super) fn new(link: &'a mut L, exported: &'a Exported) -> Self {
        let capabilities = Capabilities { one_sided: OneSided::Mapped, ..*link.capabilities() };
        Self { link, exported, capabilities, ended: VecDeque::new() }
    }

    fn end(&mut self, token: Token, outcome: AccessOutcome) -> Result<(), AccessError> {
        self.ended.push_back(Completion { token, result: Ok(outcome) });
        Ok(())
    }
}

impl<L: Link> Link for NearLink<'_, L> {
    fn peer(&self) -> &Peer {
        self.link.peer()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn counters(&self) -> Counters {
        self.link.counters()
    }

    fn reserve(&mut self, head: FrameHead, len: usize) -> Result<WindowMut<'_>, FrameSendError> {
        self.link.reserve(head, len)
    }

    fn commit(&mut self, len: usize) {
        self.link.commit(len);
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        self.link.flush()
    }

    fn receive<F>(&mut self, max_frames: usize, sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(Frame<'_>) -> Disposition,
    {
        self.link.receive(max_frames, sink)
    }

    fn progress(&mut self, now: Time) -> Result<bool, LinkError> {
        self.link.progress(now)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.link.next_deadline()
    }

    fn prepare_to_wait(&mut self) -> bool {
        self.link.prepare_to_wait()
    }

    fn wait_on(&self) -> Option<WaitOn<'_>> {
        self.link.wait_on()
    }

    fn close(&mut self, reason: &str) {
        self.link.close(reason);
    }
}

impl<L: Link> RemoteMemory for NearLink<'_, L> {
    fn open(&mut self, grant: &Grant, _: Rights, token: Token) -> Result<(), AccessError> {
        let index = self.exported.find(grant).ok_or(AccessError::NotOpen)? as u32;
        self.end(token, AccessOutcome::Opened(OpenRegion { index, serial: OpenRegion::next_serial() }))
    }

    fn close_region(&mut self, _: OpenRegion) {}

    fn read(
        &mut self,
        region: OpenRegion,
        offset: u64,
        into: &Buffer,
        into_offset: usize,
        len: usize,
        token: Token,
    ) -> Result<(), AccessError> {
        let regions = self.exported.0.borrow();
        let (grant, memory) = regions.get(region.index as usize).ok_or(AccessError::NotOpen)?;
        if offset.checked_add(len as u64).is_none_or(|end| end > grant.size) {
            return Err(AccessError::OutOfBounds { offset, len: len as u64, size: grant.size });
        }
        let source = memory.window().part(offset as usize, len);
        source.read_into(&mut into.window_mut().part(into_offset, len));
        drop(regions);
        self.end(token, AccessOutcome::Read)
    }

    fn write(&mut self, _: OpenRegion, _: u64, _: Window<'_>, _: Token) -> Result<(), AccessError> {
        Err(AccessError::NoRight { needed: Rights::WRITE })
    }

    fn compare_swap(&mut self, _: OpenRegion, _: u64, _: u64, _: u64, _: Token) -> Result<(), AccessError> {
        Err(AccessError::NoRight { needed: Rights::WRITE })
    }

    fn fetch_add(&mut self, _: OpenRegion, _: u64, _: u64, _: Token) -> Result<(), AccessError> {
        Err(AccessError::NoRight { needed: Rights::WRITE })
    }

    fn completions<F: FnMut(Completion)>(&mut self, sink: F) -> usize {
        let ended = std::mem::take(&mut self.ended);
        let count = ended.len();
        ended.into_iter().for_each(sink);
        count
    }
}
