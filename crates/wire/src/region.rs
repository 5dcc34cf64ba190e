//! What a region of far memory looks like to everyone but its owner.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::split;
use crate::{DecodeError, Generation, Incarnation, RegionId, RegionKey, Rights, ServerId};

/// The right to use one region on one link's peer: what a holder presents to open it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Which region.
    pub region: RegionId,
    /// Which life of that region id.
    pub generation: Generation,
    /// The capability.
    pub key: RegionKey,
    /// What the key allows.
    pub rights: Rights,
    /// The region's size in bytes.
    pub size: u64,
}

/// What an extent is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExtentRole {
    /// Holds the next bytes of the region.
    Primary = 0,
    /// Holds the same bytes as the primary extent before it.
    Replica = 1,
}

/// A range of a region on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Who holds it.
    pub server: ServerId,
    /// Which life of that server; bytes from another life are not these.
    pub incarnation: Incarnation,
    /// Where it begins in the server's region of that id.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// What it is for.
    pub role: ExtentRole,
}

/// A region as its users know it: the grant and where the bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionDescriptor {
    /// What opens it.
    pub grant: Grant,
    /// The unit of movement, as a power of two: 12 is 4 KiB, 16 is 64 KiB.
    pub chunk_log2: u8,
    /// The write epoch: bytes that were written back in an earlier one are refused. See [`paging`](crate::paging).
    pub epoch: u64,
    /// Primary extents in the order of their bytes, each followed by its replicas.
    pub extents: Vec<Extent>,
}

/// The smallest chunk a region can have, as a power of two.
pub const CHUNK_LOG2_MIN: u8 = 12;
/// The largest chunk a region can have, as a power of two.
pub const CHUNK_LOG2_MAX: u8 = 30;
/// How many extents a region can have.
pub const EXTENTS_MAX: usize = 4096;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    region: U64,
    size: U64,
    key: RegionKey,
    epoch: U64,
    generation: U32,
    extents: U32,
    rights: u8,
    chunk_log2: u8,
    reserved: [u8; 6],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ExtentBytes {
    server: U64,
    incarnation: U64,
    offset: U64,
    length: U64,
    role: u8,
    reserved: [u8; 7],
}

const _: () = assert!(size_of::<Head>() == 56);
const _: () = assert!(size_of::<ExtentBytes>() == 40);
const _: () = assert!(core::mem::offset_of!(Head, key) == 16);

fn no_reserved(what: &'static str, bytes: &[u8]) -> Result<(), DecodeError> {
    match bytes.iter().find(|byte| **byte != 0) {
        Some(byte) => Err(DecodeError::BadValue { what, value: (*byte).into() }),
        None => Ok(()),
    }
}

impl RegionDescriptor {
    /// Appends the descriptor as it travels.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let head = Head {
            region: self.grant.region.0.into(),
            size: self.grant.size.into(),
            key: self.grant.key,
            epoch: self.epoch.into(),
            generation: self.grant.generation.0.into(),
            extents: u32::try_from(self.extents.len()).unwrap_or(u32::MAX).into(),
            rights: self.grant.rights.bits(),
            chunk_log2: self.chunk_log2,
            reserved: [0; 6],
        };
        out.extend_from_slice(head.as_bytes());
        for extent in &self.extents {
            let bytes = ExtentBytes {
                server: extent.server.0.into(),
                incarnation: extent.incarnation.0.into(),
                offset: extent.offset.into(),
                length: extent.length.into(),
                role: extent.role as u8,
                reserved: [0; 7],
            };
            out.extend_from_slice(bytes.as_bytes());
        }
    }

    /// Reads a descriptor from the start of `bytes` and returns what follows it.
    pub fn decode_prefix(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (head, mut rest) = split::<Head>("region descriptor", bytes)?;
        no_reserved("reserved descriptor bytes", &head.reserved)?;
        let count = head.extents.get() as usize;
        if count == 0 || count > EXTENTS_MAX {
            return Err(DecodeError::BadValue { what: "number of extents", value: count as u64 });
        }
        if !(CHUNK_LOG2_MIN..=CHUNK_LOG2_MAX).contains(&head.chunk_log2) {
            return Err(DecodeError::BadValue { what: "chunk size", value: head.chunk_log2.into() });
        }
        let needed = count * size_of::<ExtentBytes>();
        if rest.len() < needed {
            return Err(DecodeError::Truncated { what: "extents", needed, got: rest.len() });
        }
        let mut extents = Vec::with_capacity(count);
        for _ in 0..count {
            let (extent, after) = split::<ExtentBytes>("extent", rest)?;
            extents.push(extent.read()?);
            rest = after;
        }
        let descriptor = Self {
            grant: Grant {
                region: RegionId(head.region.get()),
                generation: Generation(head.generation.get()),
                key: head.key,
                rights: Rights::from_bits(head.rights)?,
                size: head.size.get(),
            },
            chunk_log2: head.chunk_log2,
            epoch: head.epoch.get(),
            extents,
        };
        descriptor.check()?;
        Ok((descriptor, rest))
    }

    /// Reads a descriptor that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        match Self::decode_prefix(bytes)? {
            (descriptor, []) => Ok(descriptor),
            (_, rest) => Err(DecodeError::TrailingBytes { what: "region descriptor", extra: rest.len() }),
        }
    }

    /// Whether the primaries add up to the region and every replica matches its primary.
    pub fn check(&self) -> Result<(), DecodeError> {
        let mut covered = 0u64;
        let mut primary_length = None;
        for extent in &self.extents {
            match extent.role {
                ExtentRole::Primary => {
                    covered = covered
                        .checked_add(extent.length)
                        .ok_or(DecodeError::BadValue { what: "sum of the extents", value: extent.length })?;
                    primary_length = Some(extent.length);
                }
                ExtentRole::Replica if primary_length == Some(extent.length) => {}
                ExtentRole::Replica => {
                    return Err(DecodeError::BadValue { what: "length of a replica", value: extent.length });
                }
            }
        }
        if covered == self.grant.size {
            Ok(())
        } else {
            Err(DecodeError::ExtentsDisagree { covered, size: self.grant.size })
        }
    }
}

impl ExtentBytes {
    fn read(&self) -> Result<Extent, DecodeError> {
        no_reserved("reserved extent bytes", &self.reserved)?;
        let role = match self.role {
            0 => ExtentRole::Primary,
            1 => ExtentRole::Replica,
            role => return Err(DecodeError::BadValue { what: "extent role", value: role.into() }),
        };
        let (offset, length) = (self.offset.get(), self.length.get());
        if length == 0 || offset.checked_add(length).is_none() {
            return Err(DecodeError::BadValue { what: "extent length", value: length });
        }
        Ok(Extent {
            server: ServerId(self.server.get()),
            incarnation: Incarnation(self.incarnation.get()),
            offset,
            length,
            role,
        })
    }
}
