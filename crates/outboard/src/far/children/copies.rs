//! The memory servers, as forked children need them: what they have of regions, and the copies of what they had.

use std::collections::HashMap;

use outboard_driver::paging::{PagedRegion, SnapshotId};
use outboard_link::{AccessError, Address, OpenRegion};
use outboard_wire::paging::FIXED_LEN_MAX;
use outboard_wire::{Grant, RegionId, Rights};

use super::super::FarError;
use crate::client::AskError;
use crate::memory::{FarRegion, Memory};
use crate::outboard::Outboard;

/// A connection to a memory server, of this thread alone.
#[derive(Default)]
struct Server {
    memory: Option<Memory>,
    open: HashMap<RegionId, OpenRegion>,
}

/// The copies that snapshots need: sparse regions at the servers of the chunks that they are copies of, which take memory for what was
/// copied alone.
pub(super) struct Copies {
    outboard: Outboard,
    addresses: Vec<Address>,
    servers: Vec<Server>,
    /// By snapshot and region.
    regions: HashMap<(SnapshotId, u32), (usize, FarRegion)>,
    bytes: Vec<u8>,
}

impl Copies {
    /// No copies yet, and no connections.
    pub(super) fn new(outboard: &Outboard, addresses: &[Address]) -> Self {
        let servers = addresses.iter().map(|_| Server::default()).collect();
        let (outboard, addresses) = (outboard.clone(), addresses.to_vec());
        Self { outboard, addresses, servers, regions: HashMap::new(), bytes: Vec::new() }
    }

    /// Copies what the server has of a chunk.
    pub(super) fn make(&mut self, id: SnapshotId, region: &PagedRegion, index: u32) -> Result<(), FarError> {
        let span = region.bytes_of(&(index..index + 1));
        let (at, mut bytes) = (region.spec().at, std::mem::take(&mut self.bytes));
        bytes.resize((span.end - span.start) as usize, 0);
        let made = self
            .read(at, &region.spec().grant, span.start, &mut bytes)
            .and_then(|()| self.write(id, region, span.start, &bytes));
        self.bytes = bytes;
        made
    }

    fn write(
        &mut self,
        id: SnapshotId,
        region: &PagedRegion,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), FarError> {
        let (at, name) = (region.spec().at, (id, region.number()));
        if !self.regions.contains_key(&name) {
            let (size, class) = (region.size(), region.spec().class.0);
            let reserved = self.with(at, |memory, _| memory.reserve_sparse(size, class, None))?;
            self.regions.insert(name, (at, reserved));
        }
        let Some((_, to)) = self.regions.get(&name).map(|(at, to)| (*at, to.clone())) else { return Ok(()) };
        self.with(at, |memory, _| {
            // One frame holds a piece with its request. What takes memory there is counted in whole units.
            let most = (memory.client().payload_max() - FIXED_LEN_MAX).next_power_of_two() / 2;
            let pieces = bytes.chunks(most).zip((offset..).step_by(most));
            pieces.into_iter().try_for_each(|(piece, at)| memory.write_back(&to, at, piece))
        })
    }

    /// Reads what a region has now.
    pub(super) fn read(
        &mut self,
        at: usize,
        grant: &Grant,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), FarError> {
        self.with(at, |memory, open| {
            let region = match open.get(&grant.region) {
                Some(region) => *region,
                None => {
                    let region = memory.client().open(grant, Rights::READ)?;
                    open.insert(grant.region, region);
                    region
                }
            };
            memory.client().read(region, offset, into)
        })
    }

    /// Reads what was copied for a snapshot.
    pub(super) fn read_copy(
        &mut self,
        id: SnapshotId,
        region: &PagedRegion,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), FarError> {
        let copy = self.regions.get(&(id, region.number())).map(|(at, copy)| (*at, copy.descriptor().grant));
        let (at, grant) = copy.expect("what was copied lies in a region until no child needs it");
        self.read(at, &grant, offset, into)
    }

    /// Gives copies back that no child needs any more.
    pub(super) fn free(&mut self, ended: &[SnapshotId]) {
        let over: Vec<_> = self.regions.extract_if(|(id, _), _| ended.contains(id)).collect();
        for (_, (at, region)) in over {
            // A server that is gone has nothing to give back.
            let _ = self.with(at, |memory, open| {
                if let Some(region) = open.remove(&region.descriptor().grant.region) {
                    memory.client().close_region(region);
                }
                memory.free_reserved(&region)
            });
        }
    }

    /// Does something at a server, to which a connection is made if there is none.
    fn with<R>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Memory, &mut HashMap<RegionId, OpenRegion>) -> Result<R, AskError>,
    ) -> Result<R, FarError> {
        let server = &mut self.servers[at];
        let memory = match &mut server.memory {
            Some(memory) => memory,
            none => {
                server.open.clear();
                none.insert(self.outboard.clone().with_address(self.addresses[at].clone()).memory()?)
            }
        };
        let done = act(memory, &mut server.open);
        let is_over = matches!(
            &done,
            Err(AskError::Lost(_)
                | AskError::Deadline { .. }
                | AskError::StartedAnew { .. }
                | AskError::Access(AccessError::NotOpen))
        );
        if is_over {
            server.memory = None;
        }
        Ok(done?)
    }
}
