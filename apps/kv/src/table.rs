//! Tables as regions.

use outboard::{AskError, FarRegion, Memory, Rights};

use crate::{KvError, Layout};

/// What a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// How many keys; default 100,000. Each takes 64 to 128 bytes of the index, and a slot.
    pub keys: u64,
    /// The longest key, in bytes; default 32.
    pub key_max: u64,
    /// The longest value, in bytes; default 200. A slot has 24 bytes more than key and value, rounded up to 64.
    pub value_max: u64,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self { keys: 100_000, key_max: 32, value_max: 200 }
    }
}

/// A table that is open.
#[derive(Debug)]
pub struct KvTable {
    pub(crate) region: FarRegion,
    pub(crate) layout: Layout,
}

/// Makes a table of a new region.
fn begin(memory: &mut Memory, region: &FarRegion, layout: &Layout) -> Result<(), AskError> {
    let header = layout.header().map(u64::to_le_bytes);
    memory.write(region, 8, header[1..].as_flattened())?;
    memory.write(region, 0, &header[0])?;
    // Keys lie anywhere in it, so all of it will be used, at random. Others may use it already.
    memory.populate(region).map(|_| ())
}

impl KvTable {
    /// Makes an empty table that others open by its name. It stays until the region of that name is freed.
    pub fn create(memory: &mut Memory, name: &str, options: &TableOptions) -> Result<Self, KvError> {
        let layout = Layout::new(options)?;
        let region = memory.reserve_shared(layout.size(), name)?;
        Self::begun(memory, region, layout)
    }

    /// Makes an empty table without a name, for the callers of this process. It goes when `memory` does, however that ends.
    pub fn create_unnamed(memory: &mut Memory, options: &TableOptions) -> Result<Self, KvError> {
        let layout = Layout::new(options)?;
        let region = memory.reserve(layout.size(), None)?;
        Self::begun(memory, region, layout)
    }

    fn begun(memory: &mut Memory, region: FarRegion, layout: Layout) -> Result<Self, KvError> {
        match begin(memory, &region, &layout) {
            Ok(()) => Ok(Self { region, layout }),
            Err(error) => {
                memory.free(region)?;
                Err(error.into())
            }
        }
    }

    /// Opens a table.
    pub fn open(memory: &mut Memory, name: &str) -> Result<Self, KvError> {
        let region = memory.open_shared(name, Rights::ALL).map_err(|error| match error {
            AskError::Refused { daemon: server, .. } if error.is_not_there() => {
                KvError::NoSuchTable { server, name: name.to_owned() }
            }
            error => error.into(),
        })?;
        let mut header = [[0; 8]; 8];
        let read = match region.size() {
            0..64 => None,
            size => {
                memory.read(&region, 0, header.as_flattened_mut())?;
                Layout::read(header.map(u64::from_le_bytes), size)
            }
        };
        match read {
            Some(layout) => Ok(Self { region, layout }),
            None => {
                memory.release(region)?;
                Err(KvError::NoTable { name: name.to_owned() })
            }
        }
    }

    /// Gives its memory back. No client can use it any more.
    pub fn free(self, memory: &mut Memory) -> Result<(), KvError> {
        Ok(memory.free(self.region)?)
    }

    /// Its shape.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}
