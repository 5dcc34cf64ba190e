//! Trees as regions.

use outboard::{AskError, FarRegion, Memory, Rights};

use crate::BTreeError;
use crate::build::build;
use crate::layout::{HEADER, Layout, NODE};

/// What a tree is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// How many keys; default 100,000. Each takes about 37 bytes.
    pub keys: u64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self { keys: 100_000 }
    }
}

/// A tree that is open.
#[derive(Debug)]
pub struct Tree {
    pub(crate) region: FarRegion,
}

impl Tree {
    /// Makes an empty tree that others open by its name. It stays until the region of that name is freed.
    pub fn create(memory: &mut Memory, name: &str, options: &TreeOptions) -> Result<Self, BTreeError> {
        Self::create_with(memory, name, options, [])
    }

    /// Makes a tree of these pairs, in the order of their keys.
    pub fn create_with(
        memory: &mut Memory,
        name: &str,
        options: &TreeOptions,
        pairs: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Self, BTreeError> {
        let layout = Layout::new(options.keys)?;
        let region = memory.reserve_shared(layout.size(), name)?;
        Self::built(memory, region, layout, pairs)
    }

    /// The same without a name, for the callers of this process. It goes when `memory` does, however that ends.
    pub fn create_unnamed_with(
        memory: &mut Memory,
        options: &TreeOptions,
        pairs: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Self, BTreeError> {
        let layout = Layout::new(options.keys)?;
        let region = memory.reserve(layout.size(), None)?;
        Self::built(memory, region, layout, pairs)
    }

    fn built(
        memory: &mut Memory,
        region: FarRegion,
        layout: Layout,
        pairs: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Self, BTreeError> {
        let written = build(layout, pairs, |number, bytes| {
            Ok(memory.write(&region, HEADER + (number - 1) * NODE, bytes)?)
        });
        let header = match written {
            Ok(header) => header.map(u64::to_le_bytes),
            Err(error) => {
                memory.free(region)?;
                return Err(error);
            }
        };
        // The first word makes it a tree.
        memory.write(&region, 8, header[1..].as_flattened())?;
        memory.write(&region, 0, &header[0])?;
        // All of it is used, at random; by others perhaps already.
        match memory.populate(&region) {
            Ok(_) => Ok(Self { region }),
            Err(error) => {
                memory.free(region)?;
                Err(error.into())
            }
        }
    }

    /// Opens a tree.
    pub fn open(memory: &mut Memory, name: &str) -> Result<Self, BTreeError> {
        let region = memory.open_shared(name, Rights::ALL).map_err(|error| match error {
            AskError::Refused { daemon: server, .. } if error.is_not_there() => {
                BTreeError::NoSuchTree { server, name: name.to_owned() }
            }
            error => error.into(),
        })?;
        let mut header = [[0; 8]; 8];
        let read = match region.size() {
            0..HEADER => None,
            size => {
                memory.read(&region, 0, header.as_flattened_mut())?;
                Layout::read(header.map(u64::from_le_bytes), size)
            }
        };
        match read {
            Some(_) => Ok(Self { region }),
            None => {
                memory.release(region)?;
                Err(BTreeError::NoTree { name: name.to_owned() })
            }
        }
    }

    /// Its bytes.
    pub fn size(&self) -> u64 {
        self.region.size()
    }

    /// Gives its memory back. No client can use it any more.
    pub fn free(self, memory: &mut Memory) -> Result<(), BTreeError> {
        Ok(memory.free(self.region)?)
    }
}
