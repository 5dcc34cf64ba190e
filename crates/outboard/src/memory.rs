//! Regions on a memory server, for programs that reserve, open and free them.

use std::time::Duration;

use outboard_link::{AccessError, OpenRegion};
use outboard_wire::control::{ControlAnswer, ListedRegion, Question, Sharing};
use outboard_wire::paging::{Fence, Reply, Request, Status, WriteBack};
use outboard_wire::{
    CHUNK_LOG2_MAX, CHUNK_LOG2_MIN, FrameHead, Grant, Incarnation, RegionDescriptor, RegionId, Rights, Text,
};

use crate::client::{AskError, Client};
use crate::find::{FindError, Found};

/// The usual unit of movement, as a power of two: 64 KiB.
const CHUNK_LOG2: u8 = 16;
/// How long a server may take to find memory for a region, at least and for each GiB.
const POPULATE_PATIENCE: Duration = Duration::from_secs(60);
const POPULATE_PATIENCE_PER_GIB: Duration = Duration::from_secs(20);

/// A memory server, as a client sees it.
///
/// A region belongs to one process that writes it or to many that read it, until they release it or end; the server
/// refuses others, and says who is in the way. Those who ask for it by [`reserve_shared`](Self::reserve_shared) and
/// [`open_shared`](Self::open_shared) have it together and may all write: every access goes to the server, so they see
/// what the others do, and atomics keep them apart.
pub struct Memory {
    client: Client,
}

/// A region that this process has opened.
#[derive(Clone, Debug)]
pub struct FarRegion {
    /// What everyone may know of it.
    pub descriptor: RegionDescriptor,
    open: OpenRegion,
}

impl FarRegion {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.descriptor.grant.size
    }

    /// Which life of the server owns it.
    pub fn server(&self) -> Incarnation {
        self.descriptor.extents.first().map_or(Incarnation(0), |extent| extent.incarnation)
    }

    /// The write epoch in which it was opened, or which a [fence](Memory::fence) has begun since.
    pub fn epoch(&self) -> u64 {
        self.descriptor.epoch
    }
}

impl Memory {
    /// Speaks to the memory server at the other end of `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Connects to the memory server of this process: the one that the configuration file or the environment names
    /// (`job.memory`), or else the one that this user has started by `outboard up` or `outboard memory`.
    ///
    /// ```no_run
    /// let mut memory = outboard::Memory::find()?;
    /// let table = memory.reserve(1 << 20, None)?;
    /// memory.write(&table, 0, b"far away")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find() -> Result<Self, FindError> {
        Ok(Self::new(Found::look()?.connect()?))
    }

    /// The connection itself.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Reserves `size` bytes, to read and write them. With a name, the region outlives this process and others can
    /// open it.
    pub fn reserve(&mut self, size: u64, name: Option<&str>) -> Result<FarRegion, AskError> {
        self.reserve_chunks(size, CHUNK_LOG2, name, Sharing::Leased)
    }

    /// The same, together with all who open it by [`open_shared`](Self::open_shared).
    pub fn reserve_shared(&mut self, size: u64, name: &str) -> Result<FarRegion, AskError> {
        self.reserve_chunks(size, CHUNK_LOG2, Some(name), Sharing::Together)
    }

    /// Reserves `size` bytes that will move in units of a power of two.
    pub fn reserve_chunks(
        &mut self,
        size: u64,
        chunk_log2: u8,
        name: Option<&str>,
        sharing: Sharing,
    ) -> Result<FarRegion, AskError> {
        if !(CHUNK_LOG2_MIN..=CHUNK_LOG2_MAX).contains(&chunk_log2) {
            return Err(AskError::BadChunk { chunk_log2 });
        }
        let name = fit(name.unwrap_or_default(), "region name")?;
        let answer = self.client.ask(&Question::Reserve { size, chunk_log2, name, sharing })?;
        self.opened(answer, Rights::READ.and(Rights::WRITE))
    }

    /// Opens a named region: as its only writer if `rights` include writing, else as one of its readers.
    pub fn open(&mut self, name: &str, rights: Rights) -> Result<FarRegion, AskError> {
        self.open_as(name, rights, Sharing::Leased)
    }

    /// Opens a named region together with all others who do so.
    pub fn open_shared(&mut self, name: &str, rights: Rights) -> Result<FarRegion, AskError> {
        self.open_as(name, rights, Sharing::Together)
    }

    fn open_as(&mut self, name: &str, rights: Rights, sharing: Sharing) -> Result<FarRegion, AskError> {
        let name = fit(name, "region name")?;
        let answer = self.client.ask(&Question::OpenNamed { name, rights, sharing })?;
        self.opened(answer, rights)
    }

    /// Opens a file below the server's data directory, which loads it unless it has already; all who open it
    /// share it, as one writer or many readers. `patience` is how long loading may take.
    pub fn load(&mut self, path: &str, rights: Rights, patience: Duration) -> Result<FarRegion, AskError> {
        let question = Question::Load { path: fit(path, "file path")?, rights, sharing: Sharing::Leased };
        let answer = self.client.ask_within(&question, patience)?;
        self.opened(answer, rights)
    }

    fn opened(&mut self, answer: ControlAnswer, rights: Rights) -> Result<FarRegion, AskError> {
        let ControlAnswer::Region(descriptor) = answer else {
            return Err(self.unexpected());
        };
        match self.client.open(&descriptor.grant, rights) {
            Ok(open) => Ok(FarRegion { descriptor, open }),
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
        self.client.close_region(region.open);
        let Grant { region, generation, key, .. } = region.descriptor.grant;
        match self.client.ask(&Question::Free { region, generation, key })? {
            ControlAnswer::Freed => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Gives up a region that others may want. It stays at the server if it has a name or a file; if not, it is freed.
    /// What was written back through an agent must have been acknowledged before: what arrives later is refused.
    pub fn release(&mut self, region: FarRegion) -> Result<(), AskError> {
        self.client.close_region(region.open);
        let Grant { region, generation, .. } = region.descriptor.grant;
        match self.client.ask(&Question::Release { region, generation })? {
            ControlAnswer::Released => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Has the server write a loaded region to its file, and returns how many bytes that has. What was written to the
    /// region before is on the disk then; `patience` is how long it may take.
    pub fn sync(&mut self, region: &FarRegion, patience: Duration) -> Result<u64, AskError> {
        let Grant { region, generation, key, .. } = region.descriptor.grant;
        match self.client.ask_within(&Question::Sync { region, generation, key }, patience)? {
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

    /// Begins the next write epoch of a region and returns it: whatever was written back before, by whomever, is
    /// refused when it arrives from now on.
    pub fn fence(&mut self, region: &mut FarRegion) -> Result<u64, AskError> {
        let Grant { region: id, generation, key, .. } = region.descriptor.grant;
        match self.page(&Request::Fence(Fence { region: id, generation, key }), &[])? {
            Reply::Fenced { status: Status::Done, epoch } => {
                region.descriptor.epoch = epoch;
                Ok(epoch)
            }
            Reply::Fenced { status, .. } => Err(self.refusal(status, region, (0, 0))),
            _ => Err(self.unexpected()),
        }
    }

    /// Writes bytes of a region, unless its write epoch has passed since it was opened or fenced. One frame has to
    /// hold them.
    pub fn write_back(&mut self, region: &FarRegion, offset: u64, from: &[u8]) -> Result<(), AskError> {
        let Grant { region: id, generation, key, .. } = region.descriptor.grant;
        let length = u32::try_from(from.len()).unwrap_or(u32::MAX);
        let back = WriteBack { region: id, generation, key, epoch: region.epoch(), offset, length };
        match self.page(&Request::WriteBack(back), from)? {
            Reply::Written { status: Status::Done, .. } => Ok(()),
            Reply::Written { status, .. } => Err(self.refusal(status, region, (offset, from.len() as u64))),
            _ => Err(self.unexpected()),
        }
    }

    fn page(&mut self, request: &Request, data: &[u8]) -> Result<Reply, AskError> {
        let payload = [request.encode().as_bytes(), data].concat();
        let (kind, bytes) = self.client.exchange_frame(FrameHead::new(request.kind()), &payload)?;
        let unreadable = |source| AskError::Unreadable { daemon: self.client.peer().clone(), source };
        Reply::decode(kind, &bytes, 0).map_err(unreadable)
    }

    fn refusal(&self, status: Status, region: &FarRegion, (offset, len): (u64, u64)) -> AskError {
        match status {
            Status::StaleEpoch => AskError::StaleEpoch { epoch: region.epoch() },
            Status::NoRight => AccessError::NoRight { needed: Rights::WRITE }.into(),
            Status::OutOfBounds => AccessError::OutOfBounds { offset, len, size: region.size() }.into(),
            Status::NotOpen => AccessError::NotOpen.into(),
            Status::Busy => AccessError::Busy.into(),
            Status::Done | Status::Unavailable | Status::Malformed => self.unexpected(),
        }
    }

    fn unexpected(&self) -> AskError {
        AskError::Unexpected { daemon: self.client.peer().clone() }
    }

    /// All regions of the server.
    pub fn list(&mut self) -> Result<Vec<ListedRegion>, AskError> {
        let mut all = Vec::new();
        loop {
            let after = all.last().map_or(RegionId(0), |last: &ListedRegion| last.region);
            match self.client.ask(&Question::List { after })? {
                ControlAnswer::Regions { regions, more } => {
                    let is_empty = regions.is_empty();
                    all.extend(regions);
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
        self.client.read(region.open, offset, into)
    }

    /// Writes bytes of a region; they are visible there when the call returns.
    pub fn write(&mut self, region: &FarRegion, offset: u64, from: &[u8]) -> Result<(), AskError> {
        self.client.write(region.open, offset, from)
    }

    /// Adds to a word of a region and returns what it held before.
    pub fn fetch_add(&mut self, region: &FarRegion, offset: u64, addend: u64) -> Result<u64, AskError> {
        self.client.fetch_add(region.open, offset, addend)
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
