//! What a journal tells: a server began or ended, a region was reserved, changed hands, or was freed.

use outboard_wire::control::{RegionName, RegionSharing};
use outboard_wire::{CHUNK_LOG2_MAX, CHUNK_LOG2_MIN, Generation, Incarnation, RegionId, RegionKey, StoreId};

use crate::cursor::{Cursor, Unreadable};

/// Where a folder lies: a copy of it lies elsewhere, and may be older than what was acknowledged since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorePlace {
    /// The device of its file system.
    pub device: u64,
    /// The number of its journal's file there.
    pub inode: u64,
    /// When that file was made, in nanoseconds since 1970, for numbers of files come again; zero if the file system does not say.
    pub born: u64,
}

/// One start of a memory server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerLife {
    /// Which start.
    pub incarnation: Incarnation,
    /// Which start of its machine.
    pub boot: [u8; 16],
    /// The store that it goes on with.
    pub store: StoreId,
    /// Where that lies.
    pub place: StorePlace,
    /// No region has had a higher number than this one, of the regions that are kept.
    pub last_region: RegionId,
}

/// A process that has a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptHolder {
    /// Which one.
    pub process: Incarnation,
    /// Its number on its machine.
    pub pid: u32,
    /// If it may have mapped the region, when the kernel says that it was started, in ticks since the machine was; else zero.
    pub mapped_since: u64,
    /// Whether it writes.
    pub writes: bool,
    /// With whom it shares.
    pub sharing: RegionSharing,
    /// How often it has to release it.
    pub times: u32,
}

/// A region with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRegion {
    /// Its number, which its file is named for.
    pub region: RegionId,
    /// Which life of that number.
    pub generation: Generation,
    /// How many bytes its users have.
    pub size: u64,
    /// How many bytes its file has.
    pub memory: u64,
    /// The unit in which it moves, as a power of two.
    pub chunk_log2: u8,
    /// Whether it takes of the capacity only what is written.
    pub is_sparse: bool,
    /// Its name.
    pub name: String,
    /// The process that reserved it.
    pub owner: Option<Incarnation>,
    /// For those who write; for those who lease it to read, and to read and call; for those who share it, likewise.
    pub keys: [RegionKey; 5],
    /// The write epoch.
    pub epoch: u64,
    /// The processes that have it.
    pub holders: Vec<KeptHolder>,
}

/// One record of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRecord {
    /// A server was started. It is the first record of every journal.
    Began(ServerLife),
    /// A region was reserved, or given other keys.
    Region(Box<KeptRegion>),
    /// A write epoch has begun.
    Epoch {
        /// Of which region.
        region: RegionId,
        /// Which one.
        epoch: u64,
    },
    /// Other processes have a region.
    Held {
        /// Which region.
        region: RegionId,
        /// The write epoch that has begun with that.
        epoch: u64,
        /// All that have it now.
        holders: Vec<KeptHolder>,
    },
    /// A region was freed.
    Freed {
        /// Which one.
        region: RegionId,
    },
    /// The server has ended as it was asked to, and everything is on the disk.
    Ended,
}

const BEGAN: u8 = 1;
const REGION: u8 = 2;
const EPOCH: u8 = 3;
const HELD: u8 = 4;
const FREED: u8 = 5;
const ENDED: u8 = 6;

impl JournalRecord {
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        let mut put = |bytes: &[u8]| into.extend_from_slice(bytes);
        match self {
            Self::Began(life) => {
                put(&[BEGAN]);
                put(&life.incarnation.0.to_le_bytes());
                put(&life.boot);
                let StorePlace { device, inode, born } = life.place;
                let numbers = [life.store.0, device, inode, born, life.last_region.0];
                numbers.iter().for_each(|number| put(&number.to_le_bytes()));
            }
            Self::Region(region) => encode_region(region, into),
            Self::Epoch { region, epoch } => {
                put(&[EPOCH]);
                [region.0, *epoch].iter().for_each(|number| put(&number.to_le_bytes()));
            }
            Self::Held { region, epoch, holders } => {
                put(&[HELD]);
                [region.0, *epoch].iter().for_each(|number| put(&number.to_le_bytes()));
                encode_holders(holders, into);
            }
            Self::Freed { region } => {
                put(&[FREED]);
                put(&region.0.to_le_bytes());
            }
            Self::Ended => put(&[ENDED]),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut from = Cursor(bytes);
        let record = match from.u8()? {
            BEGAN => Self::Began(ServerLife {
                incarnation: Incarnation(from.u64()?),
                boot: from.array()?,
                store: StoreId(from.u64()?),
                place: StorePlace { device: from.u64()?, inode: from.u64()?, born: from.u64()? },
                last_region: RegionId(from.u64()?),
            }),
            REGION => Self::Region(Box::new(decode_region(&mut from)?)),
            EPOCH => Self::Epoch { region: RegionId(from.u64()?), epoch: from.u64()? },
            HELD => Self::Held {
                region: RegionId(from.u64()?),
                epoch: from.u64()?,
                holders: decode_holders(&mut from)?,
            },
            FREED => Self::Freed { region: RegionId(from.u64()?) },
            ENDED => Self::Ended,
            _ => return Err(Unreadable),
        };
        if from.0.is_empty() { Ok(record) } else { Err(Unreadable) }
    }
}

fn encode_region(region: &KeptRegion, into: &mut Vec<u8>) {
    into.push(REGION);
    into.extend_from_slice(&region.region.0.to_le_bytes());
    into.extend_from_slice(&region.generation.0.to_le_bytes());
    let owner = region.owner.map_or(0, |owner| owner.0);
    for number in [region.size, region.memory, owner, region.epoch] {
        into.extend_from_slice(&number.to_le_bytes());
    }
    into.extend_from_slice(&[region.chunk_log2, region.is_sparse.into(), region.owner.is_some().into()]);
    region.keys.iter().for_each(|key| into.extend_from_slice(&key.0));
    into.push(region.name.len() as u8);
    into.extend_from_slice(region.name.as_bytes());
    encode_holders(&region.holders, into);
}

fn decode_region(from: &mut Cursor<'_>) -> Result<KeptRegion, Unreadable> {
    let (region, generation) = (RegionId(from.u64()?), Generation(from.u32()?));
    let [size, memory, owner, epoch] = [from.u64()?, from.u64()?, from.u64()?, from.u64()?];
    let chunk_log2 = from.u8()?;
    let is_sparse = from.flag()?;
    let owner = match from.flag()? {
        true => Some(Incarnation(owner)),
        false if owner == 0 => None,
        false => return Err(Unreadable),
    };
    let mut keys = [RegionKey([0; 16]); 5];
    for key in &mut keys {
        *key = RegionKey(from.array()?);
    }
    let len = from.u8()?;
    let name = String::from_utf8(from.bytes(len.into())?.to_vec()).map_err(|_| Unreadable)?;
    let holders = decode_holders(from)?;
    let fits = size > 0 && size <= memory && memory <= i64::MAX as u64;
    let is_named = !name.is_empty() && name.len() <= size_of::<RegionName>();
    let has_unit = (CHUNK_LOG2_MIN..=CHUNK_LOG2_MAX).contains(&chunk_log2);
    if !fits || !is_named || !has_unit {
        return Err(Unreadable);
    }
    Ok(KeptRegion {
        region,
        generation,
        size,
        memory,
        chunk_log2,
        is_sparse,
        name,
        owner,
        keys,
        epoch,
        holders,
    })
}

fn encode_holders(holders: &[KeptHolder], into: &mut Vec<u8>) {
    into.extend_from_slice(&(holders.len() as u32).to_le_bytes());
    for holder in holders {
        into.extend_from_slice(&holder.process.0.to_le_bytes());
        into.extend_from_slice(&holder.pid.to_le_bytes());
        into.extend_from_slice(&holder.mapped_since.to_le_bytes());
        into.extend_from_slice(&[holder.writes.into(), u8::from(holder.sharing == RegionSharing::Together)]);
        into.extend_from_slice(&holder.times.to_le_bytes());
    }
}

fn decode_holders(from: &mut Cursor<'_>) -> Result<Vec<KeptHolder>, Unreadable> {
    let count = from.u32()?;
    let holder = |_| {
        let holder = KeptHolder {
            process: Incarnation(from.u64()?),
            pid: from.u32()?,
            mapped_since: from.u64()?,
            writes: from.flag()?,
            sharing: if from.flag()? { RegionSharing::Together } else { RegionSharing::Leased },
            times: from.u32()?,
        };
        if holder.times == 0 { Err(Unreadable) } else { Ok(holder) }
    };
    (0..count).map(holder).collect()
}
