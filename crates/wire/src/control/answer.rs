//! What a daemon answers.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::member::{Member, MemberBytes};
use super::question::RegionName;
use super::unused;
use crate::error::{exact, split};
use crate::text::Text;
use crate::{DecodeError, FrameKind, Generation, RegionDescriptor, RegionId, Room};

const REGION: FrameKind = FrameKind::new(Room::Control, 32);
const FREED: FrameKind = FrameKind::new(Room::Control, 33);
const REGIONS: FrameKind = FrameKind::new(Room::Control, 34);
const MEMBERS: FrameKind = FrameKind::new(Room::Control, 35);
const FAILED: FrameKind = FrameKind::new(Room::Control, 36);
const RELEASED: FrameKind = FrameKind::new(Room::Control, 37);
const SYNCED: FrameKind = FrameKind::new(Room::Control, 38);
const POPULATED: FrameKind = FrameKind::new(Room::Control, 39);
const WRITTEN_PART: FrameKind = FrameKind::new(Room::Control, 40);

/// A region as a list shows it. No key: to see is not to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedRegion {
    /// Its id.
    pub region: RegionId,
    /// Which life of that id.
    pub generation: Generation,
    /// Its size in bytes.
    pub size: u64,
    /// The process that reserved it; zero once that has gone.
    pub owner_pid: u32,
    /// Its name, if it has one.
    pub name: RegionName,
}

/// Why a question was answered with a no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ControlFailure {
    /// Not that much memory is left.
    NoCapacity = 1,
    /// A region of that name exists.
    NameTaken = 2,
    /// There is no such region, or the key is not one of its keys.
    NoSuchRegion = 3,
    /// The question makes no sense.
    BadRequest = 4,
    /// The secret is another job's.
    WrongSecret = 5,
    /// That rank has joined already.
    RankTaken = 6,
    /// The job was announced with another size.
    SizeDiffers = 7,
    /// Not all ranks came in time.
    RanksMissing = 8,
    /// This daemon does not do that.
    NotServed = 9,
    /// There is no such file below the data directory, or it cannot be read.
    NoSuchFile = 10,
    /// The answer does not fit the link.
    TooLong = 11,
    /// Too many jobs are gathering.
    TooManyJobs = 12,
    /// Other processes have the region, and it cannot be shared with them.
    InUse = 13,
    /// The key does not allow it.
    NoRight = 14,
    /// The region was not loaded from a file.
    NoFile = 15,
    /// The file could not be written: it or the data directory is read-only, or the disk is full.
    NotWritten = 16,
}

/// What a daemon answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlAnswer {
    /// Here it is.
    Region(RegionDescriptor),
    /// It is gone.
    Freed,
    /// Your process has it no longer.
    Released,
    /// It is in its file.
    Synced {
        /// How many bytes the file has.
        bytes: u64,
    },
    /// All of it has memory.
    Populated {
        /// How many of its bytes lie in large pages.
        large: u64,
    },
    /// It is here, or, if nothing more was written, empty and at the end.
    WrittenPart {
        /// Where it begins.
        start: u64,
        /// Where it ends.
        end: u64,
    },
    /// These, and whether more follow.
    Regions {
        /// Some regions, in the order of their ids.
        regions: Vec<ListedRegion>,
        /// Whether there are more with greater ids.
        more: bool,
    },
    /// All ranks, in order.
    Members(Vec<Member>),
    /// No.
    Failed {
        /// Why, for programs.
        failure: ControlFailure,
        /// Why, for people, and what to do about it.
        detail: Text<238>,
    },
}

/// How many regions one answer lists.
pub const LIST_MAX: usize = 256;
/// How many ranks a job can have.
pub const RANKS_MAX: usize = 1 << 16;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ListedBytes {
    region: U64,
    size: U64,
    generation: U32,
    owner_pid: U32,
    name: RegionName,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CountBytes {
    count: U32,
    more: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ByteCount {
    bytes: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PartBytes {
    start: U64,
    end: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FailedBytes {
    failure: U16,
    detail: Text<238>,
}

const _: () = assert!(size_of::<ListedBytes>() == 152);
const _: () = assert!(size_of::<FailedBytes>() == 240);

impl ListedBytes {
    fn read(&self) -> Result<ListedRegion, DecodeError> {
        self.name.check("region name")?;
        Ok(ListedRegion {
            region: RegionId(self.region.get()),
            generation: Generation(self.generation.get()),
            size: self.size.get(),
            owner_pid: self.owner_pid.get(),
            name: self.name,
        })
    }
}

impl From<&ListedRegion> for ListedBytes {
    fn from(region: &ListedRegion) -> Self {
        Self {
            region: region.region.0.into(),
            size: region.size.into(),
            generation: region.generation.0.into(),
            owner_pid: region.owner_pid.into(),
            name: region.name,
        }
    }
}

impl ControlAnswer {
    /// A no, with what to tell people.
    pub fn failed(failure: ControlFailure, detail: &str) -> Self {
        Self::Failed { failure, detail: Text::new(detail) }
    }

    /// What to put into the frame head.
    pub const fn kind(&self) -> FrameKind {
        match self {
            Self::Region(_) => REGION,
            Self::Freed => FREED,
            Self::Released => RELEASED,
            Self::Synced { .. } => SYNCED,
            Self::Populated { .. } => POPULATED,
            Self::WrittenPart { .. } => WRITTEN_PART,
            Self::Regions { .. } => REGIONS,
            Self::Members(_) => MEMBERS,
            Self::Failed { .. } => FAILED,
        }
    }

    /// Whether frames of this kind are answers.
    pub const fn is_answer(kind: FrameKind) -> bool {
        matches!(
            kind,
            REGION | FREED | RELEASED | SYNCED | POPULATED | WRITTEN_PART | REGIONS | MEMBERS | FAILED
        )
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Region(descriptor) => descriptor.encode(out),
            Self::Freed | Self::Released => {}
            Self::Synced { bytes } | Self::Populated { large: bytes } => {
                out.extend_from_slice(ByteCount { bytes: (*bytes).into() }.as_bytes());
            }
            Self::WrittenPart { start, end } => {
                let (start, end) = ((*start).into(), (*end).into());
                out.extend_from_slice(PartBytes { start, end }.as_bytes());
            }
            Self::Regions { regions, more } => {
                let count =
                    CountBytes { count: (regions.len() as u32).into(), more: u32::from(*more).into() };
                out.extend_from_slice(count.as_bytes());
                regions.iter().for_each(|region| out.extend_from_slice(ListedBytes::from(region).as_bytes()));
            }
            Self::Members(members) => {
                let count = CountBytes { count: (members.len() as u32).into(), more: 0.into() };
                out.extend_from_slice(count.as_bytes());
                members
                    .iter()
                    .for_each(|member| out.extend_from_slice(MemberBytes::from(*member).as_bytes()));
            }
            Self::Failed { failure, detail } => out.extend_from_slice(
                FailedBytes { failure: (*failure as u16).into(), detail: *detail }.as_bytes(),
            ),
        }
    }

    /// Reads the payload of a frame of this kind.
    pub fn decode(kind: FrameKind, payload: &[u8]) -> Result<Self, DecodeError> {
        match kind {
            REGION => RegionDescriptor::decode(payload).map(Self::Region),
            FREED if payload.is_empty() => Ok(Self::Freed),
            RELEASED if payload.is_empty() => Ok(Self::Released),
            FREED | RELEASED => {
                Err(DecodeError::TrailingBytes { what: "freed or released", extra: payload.len() })
            }
            SYNCED => {
                let bytes: &ByteCount = exact("synced", payload)?;
                Ok(Self::Synced { bytes: bytes.bytes.get() })
            }
            POPULATED => {
                let bytes: &ByteCount = exact("populated", payload)?;
                Ok(Self::Populated { large: bytes.bytes.get() })
            }
            WRITTEN_PART => {
                let bytes: &PartBytes = exact("written part", payload)?;
                let (start, end) = (bytes.start.get(), bytes.end.get());
                if end < start {
                    return Err(DecodeError::BadValue { what: "end of a written part", value: end });
                }
                Ok(Self::WrittenPart { start, end })
            }
            REGIONS => {
                let (count, more, rest) = decode_count(payload, LIST_MAX)?;
                let regions = decode_all(count, rest, ListedBytes::read)?;
                Ok(Self::Regions { regions, more })
            }
            MEMBERS => {
                let (count, more, rest) = decode_count(payload, RANKS_MAX)?;
                unused("flag of a member list", more.into())?;
                decode_all(count, rest, MemberBytes::read).map(Self::Members)
            }
            FAILED => {
                let bytes: &FailedBytes = exact("failure", payload)?;
                bytes.detail.check("failure detail")?;
                Ok(Self::Failed { failure: bytes.failure.get().try_into()?, detail: bytes.detail })
            }
            _ => Err(DecodeError::BadValue { what: "answer kind", value: kind.0.into() }),
        }
    }
}

fn decode_count(payload: &[u8], most: usize) -> Result<(usize, bool, &[u8]), DecodeError> {
    let (bytes, rest) = split::<CountBytes>("list", payload)?;
    let (count, more) = (bytes.count.get(), bytes.more.get());
    if count as usize > most {
        return Err(DecodeError::BadValue { what: "length of a list", value: count.into() });
    }
    if more > 1 {
        return Err(DecodeError::BadValue { what: "flag of a list", value: more.into() });
    }
    Ok((count as usize, more == 1, rest))
}

fn decode_all<B, T>(
    count: usize,
    bytes: &[u8],
    read: impl Fn(&B) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError>
where
    B: FromBytes + KnownLayout + Immutable + Unaligned,
{
    let needed = count * size_of::<B>();
    if bytes.len() != needed {
        return Err(DecodeError::Truncated { what: "list", needed, got: bytes.len() });
    }
    bytes.chunks_exact(size_of::<B>()).map(|chunk| read(exact("list entry", chunk)?)).collect()
}

impl TryFrom<u16> for ControlFailure {
    type Error = DecodeError;

    fn try_from(value: u16) -> Result<Self, DecodeError> {
        Ok(match value {
            1 => Self::NoCapacity,
            2 => Self::NameTaken,
            3 => Self::NoSuchRegion,
            4 => Self::BadRequest,
            5 => Self::WrongSecret,
            6 => Self::RankTaken,
            7 => Self::SizeDiffers,
            8 => Self::RanksMissing,
            9 => Self::NotServed,
            10 => Self::NoSuchFile,
            11 => Self::TooLong,
            12 => Self::TooManyJobs,
            13 => Self::InUse,
            14 => Self::NoRight,
            15 => Self::NoFile,
            16 => Self::NotWritten,
            _ => return Err(DecodeError::BadValue { what: "failure", value: value.into() }),
        })
    }
}
