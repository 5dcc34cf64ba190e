//! Regions on a memory server, for programs that reserve, open and free them.

use std::time::Duration;

use outboard_link::OpenRegion;
use outboard_wire::control::{ControlAnswer, ListedRegion, Question};
use outboard_wire::{Grant, RegionDescriptor, RegionId, Rights, Text};

use crate::client::{AskError, Client};

/// The usual unit of movement, as a power of two: 64 KiB.
const CHUNK_LOG2: u8 = 16;

/// A memory server, as a client sees it.
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
}

impl Memory {
    /// Speaks to the memory server at the other end of `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The connection itself.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Reserves `size` bytes. With a name, the region outlives this process and others can open it.
    pub fn reserve(&mut self, size: u64, name: Option<&str>) -> Result<FarRegion, AskError> {
        let name = fit(name.unwrap_or_default(), "region name")?;
        let answer = self.client.ask(&Question::Reserve { size, chunk_log2: CHUNK_LOG2, name })?;
        self.opened(answer, Rights::READ.and(Rights::WRITE))
    }

    /// Opens a named region.
    pub fn open(&mut self, name: &str, rights: Rights) -> Result<FarRegion, AskError> {
        let name = fit(name, "region name")?;
        let answer = self.client.ask(&Question::OpenNamed { name, rights })?;
        self.opened(answer, rights)
    }

    /// Opens a file below the server's data directory, which loads it unless it has already; all who open it
    /// share it. `patience` is how long loading may take.
    pub fn load(&mut self, path: &str, rights: Rights, patience: Duration) -> Result<FarRegion, AskError> {
        let question = Question::Load { path: fit(path, "file path")?, rights };
        let answer = self.client.ask_within(&question, patience)?;
        self.opened(answer, rights)
    }

    fn opened(&mut self, answer: ControlAnswer, rights: Rights) -> Result<FarRegion, AskError> {
        let ControlAnswer::Region(descriptor) = answer else {
            return Err(AskError::Unexpected { daemon: self.client.peer().clone() });
        };
        let open = self.client.open(&descriptor.grant, rights)?;
        Ok(FarRegion { descriptor, open })
    }

    /// Gives a region back to the server, with all that is in it.
    pub fn free(&mut self, region: FarRegion) -> Result<(), AskError> {
        self.client.close_region(region.open);
        let Grant { region, generation, key, .. } = region.descriptor.grant;
        match self.client.ask(&Question::Free { region, generation, key })? {
            ControlAnswer::Freed => Ok(()),
            _ => Err(AskError::Unexpected { daemon: self.client.peer().clone() }),
        }
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
                _ => return Err(AskError::Unexpected { daemon: self.client.peer().clone() }),
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
