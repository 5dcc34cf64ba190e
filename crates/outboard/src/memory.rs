//! Regions on a memory server, for programs that reserve, open and free them.

mod again;

use std::ops::Range;
use std::time::Duration;

use outboard_link::{AccessError, OpenRegion, Peer};
use outboard_wire::control::{ControlAnswer, ListedRegion, Question, RegionSharing};
use outboard_wire::paging::{FIXED_LEN_MAX, Fence, PagingReply, PagingRequest, PagingStatus, WriteBack};
use outboard_wire::{
    CHUNK_LOG2_MAX, CHUNK_LOG2_MIN, FrameHead, Grant, Incarnation, RegionDescriptor, RegionId, Rights,
    StoreId, Text,
};

use crate::client::{AskError, Client};
use again::OpenAgain;

/// The usual unit of movement, as a power of two: 64 KiB.
const CHUNK_LOG2: u8 = 16;
/// How many zeros are written back at a time, with the request, at most.
const ZEROS_MAX: usize = 128 << 10;
/// How long a server may take to find memory for a region, at least and for each GiB.
const POPULATE_PATIENCE: Duration = Duration::from_secs(60);
const POPULATE_PATIENCE_PER_GIB: Duration = Duration::from_secs(20);

/// A memory server, as a client sees it.
///
/// A region belongs to one process that writes it or to many that read it, until they release it or end; the server
/// refuses others, and says who is in the way. Those who ask for it by [`reserve_shared`](Self::reserve_shared) and
/// [`open_shared`](Self::open_shared) have it together and may all write: every access goes to the server, so they see
/// what the others do, and atomics keep them apart.
///
/// ```
/// # let _server = outboard_nearby::start();
/// let mut memory = outboard::Outboard::find()?.memory()?;
/// let table = memory.reserve(1 << 20, None)?; // ends with this process; give it a name to keep it
/// memory.write(&table, 8, b"far away")?; // visible there when the call returns
/// let mut bytes = [0; 8];
/// memory.read(&table, 8, &mut bytes)?;
/// assert_eq!(&bytes, b"far away");
/// assert_eq!(memory.fetch_add(&table, 0, 5)?, 0);
/// assert_eq!(memory.compare_swap(&table, 0, 5, 7)?, 5); // it was 5, so it is 7 now
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **A server that is lost**: the call that finds it lost says so with [`AskError::Lost`]; what it asked may have happened or not,
/// an atomic too, and is not asked again. The next call connects again. If the server is there, and is the one that it was or
/// has kept its regions (`outboard memory --keep`), the regions that are open here go on; else what is done with them ends with
/// [`AskError::StartedAnew`] or [`AccessError::NotOpen`](crate::AccessError::NotOpen).
pub struct Memory {
    client: Client,
    /// Regions that were opened by links before this one and are open again.
    again: Vec<OpenAgain>,
}

/// A region that this process has opened.
#[derive(Clone, Debug)]
pub struct FarRegion {
    descriptor: RegionDescriptor,
    open: OpenRegion,
    rights: Rights,
    /// The store that its server keeps it in, if it does.
    store: StoreId,
    /// How many links there were before the one by which it was opened.
    former_links: u32,
}

/// A region as [`Memory::list`] tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionEntry {
    /// Its number at this memory server.
    pub id: u64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its size in bytes.
    pub size: u64,
    /// The process that reserved it, unless that has gone.
    pub owner: Option<u32>,
}

impl RegionEntry {
    fn new(region: ListedRegion) -> Self {
        let ListedRegion { region: RegionId(id), size, owner_pid, name, .. } = region;
        let name = Some(name.to_string()).filter(|name| !name.is_empty());
        Self { id, name, size, owner: Some(owner_pid).filter(|pid| *pid > 0) }
    }
}

impl FarRegion {
    /// Its number at its memory server, by which `outboard memory list` shows it.
    pub fn id(&self) -> u64 {
        self.descriptor.grant.region.0
    }

    /// What opens it, and where its bytes lie.
    #[doc(hidden)]
    pub fn descriptor(&self) -> &RegionDescriptor {
        &self.descriptor
    }

    /// This region as if it had that descriptor.
    #[doc(hidden)]
    pub fn with_descriptor(self, descriptor: RegionDescriptor) -> Self {
        Self { descriptor, ..self }
    }

    /// The size of its chunks in bytes, the unit in which [`FarMemory`](crate::FarMemory) would move it.
    pub fn chunk(&self) -> usize {
        1 << self.descriptor.chunk_log2
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.descriptor.grant.size
    }

    /// Which life of the server owns it.
    #[doc(hidden)]
    pub fn server(&self) -> Incarnation {
        self.descriptor.extents.first().map_or(Incarnation(0), |extent| extent.incarnation)
    }

    /// The store that its server keeps it in over restarts, if it does.
    pub(crate) fn store(&self) -> StoreId {
        self.store
    }

    /// The write epoch in which it was opened, or which a [fence](Memory::fence) has begun since.
    pub fn epoch(&self) -> u64 {
        self.descriptor.epoch
    }
}

impl Memory {
    /// Speaks to the memory server at the other end of `client`.
    #[doc(hidden)]
    pub fn new(client: Client) -> Self {
        Self { client: client.connects_again(), again: Vec::new() }
    }

    /// The connection itself.
    #[doc(hidden)]
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Lets every call that has no deadline of its own wait for `deadline` at most.
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { client: self.client.with_deadline(deadline), again: self.again }
    }

    /// The memory server at the other end.
    pub fn peer(&self) -> &Peer {
        self.client.peer()
    }

    /// Reserves `size` bytes, to read and write them. With a name, the region outlives this process and others can
    /// open it.
    pub fn reserve(&mut self, size: u64, name: Option<&str>) -> Result<FarRegion, AskError> {
        self.reserve_chunks(size, CHUNK_LOG2, name, RegionSharing::Leased)
    }

    /// Reserves `size` bytes together with all processes that open them by [`open_shared`](Self::open_shared).
    pub fn reserve_shared(&mut self, size: u64, name: &str) -> Result<FarRegion, AskError> {
        self.reserve_chunks(size, CHUNK_LOG2, Some(name), RegionSharing::Together)
    }

    /// Reserves `size` bytes that will move in units of a power of two.
    pub fn reserve_chunks(
        &mut self,
        size: u64,
        chunk_log2: u8,
        name: Option<&str>,
        sharing: RegionSharing,
    ) -> Result<FarRegion, AskError> {
        if !(CHUNK_LOG2_MIN..=CHUNK_LOG2_MAX).contains(&chunk_log2) {
            return Err(AskError::BadChunk { chunk_log2 });
        }
        let name = fit(name.unwrap_or_default(), "region name")?;
        let answer = self.client.ask(&Question::Reserve { size, chunk_log2, name, sharing })?;
        self.opened(answer, Rights::READ.and(Rights::WRITE))
    }

    /// Reserves `size` bytes of which the server counts and keeps only what is [written back](Self::write_back), in units of a
    /// power of two and at least 64 KiB. There may be more of them than the server has: then a write-back is refused
    /// with [`AskError::NoRoom`] when nothing is left. A server of an older release counts all from the start.
    pub fn reserve_sparse(
        &mut self,
        size: u64,
        chunk_log2: u8,
        name: Option<&str>,
    ) -> Result<FarRegion, AskError> {
        let sharing = RegionSharing::Leased;
        if !self.client.peer().knows(Question::RESERVE_SPARSE) {
            return self.reserve_chunks(size, chunk_log2, name, sharing);
        }
        if !(CHUNK_LOG2_MIN..=CHUNK_LOG2_MAX).contains(&chunk_log2) {
            return Err(AskError::BadChunk { chunk_log2 });
        }
        let name = fit(name.unwrap_or_default(), "region name")?;
        let answer = self.client.ask(&Question::ReserveSparse { size, chunk_log2, name, sharing })?;
        self.opened(answer, Rights::READ.and(Rights::WRITE))
    }

    /// Opens a named region: as its only writer if `rights` include writing, else as one of its readers.
    pub fn open(&mut self, name: &str, rights: Rights) -> Result<FarRegion, AskError> {
        self.open_as(name, rights, RegionSharing::Leased)
    }

    /// Opens a named region together with all others who do so.
    pub fn open_shared(&mut self, name: &str, rights: Rights) -> Result<FarRegion, AskError> {
        self.open_as(name, rights, RegionSharing::Together)
    }

    fn open_as(&mut self, name: &str, rights: Rights, sharing: RegionSharing) -> Result<FarRegion, AskError> {
        let name = fit(name, "region name")?;
        let answer = self.client.ask(&Question::OpenNamed { name, rights, sharing })?;
        self.opened(answer, rights)
    }

    /// Opens a file below the server's data directory, which loads it unless it has already; all who open it
    /// share it, as one writer or many readers. `deadline` is how long loading may take.
    pub fn load(&mut self, path: &str, rights: Rights, deadline: Duration) -> Result<FarRegion, AskError> {
        let question =
            Question::Load { path: fit(path, "file path")?, rights, sharing: RegionSharing::Leased };
        let answer = self.client.ask_within(&question, deadline)?;
        self.opened(answer, rights)
    }

    fn opened(&mut self, answer: ControlAnswer, rights: Rights) -> Result<FarRegion, AskError> {
        let ControlAnswer::Region(descriptor) = answer else {
            return Err(self.unexpected());
        };
        match self.client.open(&descriptor.grant, rights) {
            Ok(open) => {
                let (store, former_links) = (self.client.peer().store(), self.client.former_links());
                Ok(FarRegion { descriptor, open, rights, store, former_links })
            }
            Err(error) => {
                // One that cannot be reached is of no use here, and others may want it. The first error is the one to tell.
                let Grant { region, generation, .. } = descriptor.grant;
                let _ = self.client.ask(&Question::Release { region, generation });
                Err(error)
            }
        }
    }

    /// Gives a region back to the server, with all that is in it.
    pub fn free(&mut self, region: FarRegion) -> Result<(), AskError> {
        self.close_region(&region);
        let Grant { region, generation, key, .. } = region.descriptor.grant;
        match self.client.ask(&Question::Free { region, generation, key })? {
            ControlAnswer::Freed => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Gives back a region that was reserved by a connection that may be lost since.
    pub(crate) fn free_reserved(&mut self, region: &FarRegion) -> Result<(), AskError> {
        let Grant { region, generation, key, .. } = region.descriptor.grant;
        self.client.ask(&Question::Free { region, generation, key }).map(|_| ())
    }

    /// Gives up a region that others may want. It stays at the server if it has a name or a file; if not, it is freed.
    /// Write-backs through an agent must have been acknowledged before: those that arrive later are refused.
    pub fn release(&mut self, region: FarRegion) -> Result<(), AskError> {
        self.close_region(&region);
        let Grant { region, generation, .. } = region.descriptor.grant;
        match self.client.ask(&Question::Release { region, generation })? {
            ControlAnswer::Released => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Has the server write a loaded region to its file, and returns how many bytes that has. What was written to the
    /// region before is on the disk then; `deadline` is how long it may take.
    pub fn sync(&mut self, region: &FarRegion, deadline: Duration) -> Result<u64, AskError> {
        let Grant { region, generation, key, .. } = region.descriptor.grant;
        match self.client.ask_within(&Question::Sync { region, generation, key }, deadline)? {
            ControlAnswer::Synced { bytes } => Ok(bytes),
            _ => Err(self.unexpected()),
        }
    }

    /// Has the server take memory for all of a region now, in large pages where its machine has them, and returns how many
    /// bytes lie in those. For regions that will be used as a whole and at random, which is faster then; any other takes
    /// memory when it is first written. What is in it stays. Takes about a second for each GiB.
    pub fn populate(&mut self, region: &FarRegion) -> Result<u64, AskError> {
        let patience = POPULATE_PATIENCE
            + POPULATE_PATIENCE_PER_GIB * u32::try_from(region.size() >> 30).unwrap_or(u32::MAX / 64);
        let Grant { region, generation, key, .. } = region.descriptor.grant;
        match self.client.ask_within(&Question::Populate { region, generation, key }, patience)? {
            ControlAnswer::Populated { large } => Ok(large),
            _ => Err(self.unexpected()),
        }
    }

    /// The next part of a region that was ever written, from `offset` on; none if there is no more. What lies between such parts is
    /// zero. A server of an older release says that all of it was written.
    pub fn next_written(&mut self, region: &FarRegion, offset: u64) -> Result<Option<Range<u64>>, AskError> {
        let Grant { region: id, generation, key, size, .. } = region.descriptor.grant;
        if offset >= size {
            return Ok(None);
        }
        if !self.client.peer().knows(Question::NEXT_WRITTEN) {
            return Ok(Some(offset..size));
        }
        match self.client.ask(&Question::NextWritten { region: id, generation, key, offset })? {
            ControlAnswer::WrittenPart { start, end } if start >= offset && end <= size => {
                Ok(Some(start..end).filter(|part| !part.is_empty()))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Begins the next write epoch of a region and returns it: whatever was written back before, by any process, is
    /// refused when it arrives from now on.
    pub fn fence(&mut self, region: &mut FarRegion) -> Result<u64, AskError> {
        let Grant { region: id, generation, key, .. } = region.descriptor.grant;
        match self.page(&PagingRequest::Fence(Fence { region: id, generation, key }), &[])? {
            PagingReply::Fenced { status: PagingStatus::Done, epoch } => {
                region.descriptor.epoch = epoch;
                Ok(epoch)
            }
            PagingReply::Fenced { status, epoch } => {
                Err(self.refusal((status, epoch), region, region.epoch(), (0, 0)))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Writes bytes of a region, unless its write epoch has passed since it was opened or fenced. One frame has to
    /// hold them.
    pub fn write_back(&mut self, region: &FarRegion, offset: u64, from: &[u8]) -> Result<(), AskError> {
        let Grant { region: id, generation, key, .. } = region.descriptor.grant;
        let length = u32::try_from(from.len()).unwrap_or(u32::MAX);
        let back = WriteBack { region: id, generation, key, epoch: region.epoch(), offset, length };
        match self.page(&PagingRequest::WriteBack(back), from)? {
            PagingReply::Written { status: PagingStatus::Done, .. } => Ok(()),
            PagingReply::Written { status, epoch } => {
                Err(self.refusal((status, epoch), region, region.epoch(), (offset, from.len() as u64)))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Makes whole pages of a region zero and has the server give their memory back, unless this is not the write epoch. The last
    /// page may be cut short by the end of the region. A server of a version without discarding gets zeros written back, and
    /// keeps the memory.
    pub fn discard(&mut self, region: &FarRegion, epoch: u64, bytes: Range<u64>) -> Result<(), AskError> {
        let Grant { region: id, generation, key, .. } = region.descriptor.grant;
        let can_discard = self.client.peer().knows(PagingRequest::DISCARD);
        let zeros = vec![0; if can_discard { 0 } else { self.zeros_max() }];
        let most = if can_discard { WriteBack::DISCARD_MAX.into() } else { zeros.len() as u64 };
        let mut offset = bytes.start;
        while offset < bytes.end {
            let length = (bytes.end - offset).min(most) as u32;
            let back = WriteBack { region: id, generation, key, epoch, offset, length };
            let answer = match can_discard {
                true => self.page(&PagingRequest::Discard(back), &[]),
                false => self.page(&PagingRequest::WriteBack(back), &zeros[..length as usize]),
            };
            match answer? {
                PagingReply::Written { status: PagingStatus::Done, .. } => offset += u64::from(length),
                PagingReply::Written { status, epoch: now } => {
                    return Err(self.refusal((status, now), region, epoch, (offset, length.into())));
                }
                _ => return Err(self.unexpected()),
            }
        }
        Ok(())
    }

    /// How many zeros are written back at a time: as many as a frame holds behind the request, and few enough to be answered soon.
    fn zeros_max(&self) -> usize {
        self.client.payload_max().min(ZEROS_MAX) - FIXED_LEN_MAX
    }

    fn page(&mut self, request: &PagingRequest, data: &[u8]) -> Result<PagingReply, AskError> {
        let payload = [request.encode().as_bytes(), data].concat();
        let (kind, bytes) = self.client.exchange_frame(FrameHead::new(request.kind()), &payload)?;
        let unreadable = |source| AskError::Unreadable { daemon: self.client.peer().clone(), source };
        PagingReply::decode(kind, &bytes, 0).map_err(unreadable)
    }

    /// The error that a server's answer means: its status and the present epoch, to a request in `epoch` about a span of the region.
    fn refusal(
        &self,
        (status, now): (PagingStatus, u64),
        region: &FarRegion,
        epoch: u64,
        (offset, len): (u64, u64),
    ) -> AskError {
        match status {
            PagingStatus::StaleEpoch => AskError::StaleEpoch { epoch, now },
            PagingStatus::NoRight => AccessError::NoRight { needed: Rights::WRITE }.into(),
            PagingStatus::OutOfBounds => AccessError::OutOfBounds { offset, len, size: region.size() }.into(),
            PagingStatus::NotOpen => AccessError::NotOpen.into(),
            PagingStatus::Busy => AccessError::Busy.into(),
            PagingStatus::NoRoom => AskError::NoRoom { daemon: self.client.peer().clone() },
            PagingStatus::Done | PagingStatus::Unavailable | PagingStatus::Malformed => self.unexpected(),
        }
    }

    fn unexpected(&self) -> AskError {
        AskError::Unexpected { daemon: self.client.peer().clone() }
    }

    /// All regions of the server.
    pub fn list(&mut self) -> Result<Vec<RegionEntry>, AskError> {
        let mut all = Vec::new();
        loop {
            let after = RegionId(all.last().map_or(0, |last: &RegionEntry| last.id));
            match self.client.ask(&Question::List { after })? {
                ControlAnswer::Regions { regions, more } => {
                    let is_empty = regions.is_empty();
                    all.extend(regions.into_iter().map(RegionEntry::new));
                    if !more || is_empty {
                        return Ok(all);
                    }
                }
                _ => return Err(self.unexpected()),
            }
        }
    }

    /// Reads bytes of a region.
    pub fn read(&mut self, region: &FarRegion, offset: u64, into: &mut [u8]) -> Result<(), AskError> {
        let open = self.open_now(region)?;
        self.client.read(open, offset, into)
    }

    /// Writes bytes of a region; they are visible there when the call returns.
    pub fn write(&mut self, region: &FarRegion, offset: u64, from: &[u8]) -> Result<(), AskError> {
        let open = self.open_now(region)?;
        self.client.write(open, offset, from)
    }

    /// Adds to a word of a region and returns what it held before.
    pub fn fetch_add(&mut self, region: &FarRegion, offset: u64, addend: u64) -> Result<u64, AskError> {
        let open = self.open_now(region)?;
        self.client.fetch_add(open, offset, addend)
    }

    /// Replaces a word of a region by `new` if it holds `expected`, and returns what it held before: the replacement has
    /// happened if that is `expected`.
    pub fn compare_swap(
        &mut self,
        region: &FarRegion,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> Result<u64, AskError> {
        let open = self.open_now(region)?;
        self.client.compare_swap(open, offset, (expected, new))
    }

    /// Says goodbye.
    pub fn close(self, reason: &str) {
        self.client.close(reason);
    }
}

/// A name as it travels. Cut to fit, it would be another one.
fn fit<const N: usize>(name: &str, what: &'static str) -> Result<Text<N>, AskError> {
    Text::exact(name).ok_or_else(|| AskError::BadName { name: name.to_owned(), what, max: N })
}
