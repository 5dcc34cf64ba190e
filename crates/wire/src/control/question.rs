//! What a client asks.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::member::{JobSecret, Member, MemberBytes};
use super::unused;
use crate::error::exact;
use crate::text::Text;
use crate::{
    CHUNK_LOG2_MAX, CHUNK_LOG2_MIN, DecodeError, FrameKind, Generation, JobId, RegionId, RegionKey, Rights,
    Room,
};

const RESERVE: FrameKind = FrameKind::new(Room::Control, 1);
const OPEN_NAMED: FrameKind = FrameKind::new(Room::Control, 2);
const FREE: FrameKind = FrameKind::new(Room::Control, 3);
const LIST: FrameKind = FrameKind::new(Room::Control, 4);
const JOIN: FrameKind = FrameKind::new(Room::Control, 5);
const LOAD: FrameKind = FrameKind::new(Room::Control, 6);
const RELEASE: FrameKind = FrameKind::new(Room::Control, 7);
const SYNC: FrameKind = FrameKind::new(Room::Control, 8);
const POPULATE: FrameKind = FrameKind::new(Room::Control, 9);
const RESERVE_SPARSE: FrameKind = FrameKind::new(Room::Control, 10);
const NEXT_WRITTEN: FrameKind = FrameKind::new(Room::Control, 11);

/// The name of a region; empty means that it has none and ends with its client.
pub type RegionName = Text<128>;
/// The path of a file below a server's data directory. With [`FILE_PREFIX`] before it, it names its region.
pub type FilePath = Text<120>;

/// What the names of regions begin with that were loaded from files; no other name may.
pub const FILE_PREFIX: &str = "file:";

/// Whom a client shares a region with. Who has a region, and as what, is a matter of processes: the links of one
/// process count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RegionSharing {
    /// With no process while it writes, and with other readers while it reads: for a process that keeps copies of the bytes.
    Leased = 0,
    /// With all processes that ask for this too: for those that go to the server with every access, where all see what
    /// the others write.
    Together = 1,
}

/// What a client asks.
///
/// A client that is given a region has it until it [releases](Self::Release) or [frees](Self::Free) it, or until the last
/// link of its process is gone. A client whose [`RegionSharing`] does not agree with those who have the region is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Make a region, to read and write it. Answered by [`Region`](super::ControlAnswer::Region).
    Reserve {
        /// How many bytes.
        size: u64,
        /// The unit of movement, as a power of two.
        chunk_log2: u8,
        /// A name under which others find it and under which it outlives this client.
        name: RegionName,
        /// With whom.
        sharing: RegionSharing,
    },
    /// Make a region as by [`Reserve`](Self::Reserve), but one that takes of the server's capacity only what is written by write-backs, which are refused when there is none left:
    /// for regions that may be larger than all there is. Since version 2.
    ReserveSparse {
        /// How many bytes.
        size: u64,
        /// The unit of movement, as a power of two.
        chunk_log2: u8,
        /// As of [`Reserve`](Self::Reserve).
        name: RegionName,
        /// With whom.
        sharing: RegionSharing,
    },
    /// Give me the region of this name. Answered by [`Region`](super::ControlAnswer::Region).
    OpenNamed {
        /// Its name.
        name: RegionName,
        /// What it will be used for.
        rights: Rights,
        /// With whom.
        sharing: RegionSharing,
    },
    /// Load this file into a region that all who ask share. Answered by [`Region`](super::ControlAnswer::Region) when it is there.
    Load {
        /// Where it lies below the server's data directory.
        path: FilePath,
        /// What it will be used for.
        rights: Rights,
        /// With whom.
        sharing: RegionSharing,
    },
    /// This region is no longer needed, by anyone. Answered by [`Freed`](super::ControlAnswer::Freed).
    Free {
        /// Which region.
        region: RegionId,
        /// Which life of it.
        generation: Generation,
        /// A key to it that allows writing.
        key: RegionKey,
    },
    /// My process no longer needs this region; asked as often as it was given it. A region without a name is freed.
    /// Answered by [`Released`](super::ControlAnswer::Released).
    Release {
        /// Which region.
        region: RegionId,
        /// Which life of it.
        generation: Generation,
    },
    /// Write this region to the file that it was loaded from. What was written to the region before this was asked is
    /// in the file when it is answered; what is written meanwhile may be or not. Answered by
    /// [`Synced`](super::ControlAnswer::Synced) when it is on the disk.
    Sync {
        /// Which region.
        region: RegionId,
        /// Which life of it.
        generation: Generation,
        /// A key to it that allows writing.
        key: RegionKey,
    },
    /// Take memory for all of this region now, in large pages where the machine has them, instead of when it is first
    /// written. What is in it stays. Answered by [`Populated`](super::ControlAnswer::Populated) when it is there.
    Populate {
        /// Which region.
        region: RegionId,
        /// Which life of it.
        generation: Generation,
        /// A key to it that allows writing.
        key: RegionKey,
    },
    /// Which is the next part of this region that was ever written? What lies before and between such parts is zero. Answered by
    /// [`WrittenPart`](super::ControlAnswer::WrittenPart). Since version 2.
    NextWritten {
        /// Which region.
        region: RegionId,
        /// Which life of it.
        generation: Generation,
        /// A key to it.
        key: RegionKey,
        /// From where on.
        offset: u64,
    },
    /// Which regions are there, in the order of their ids? Answered by [`Regions`](super::ControlAnswer::Regions).
    List {
        /// Only those with greater ids.
        after: RegionId,
    },
    /// Here is a rank of a job; who are the others? Answered by [`Members`](super::ControlAnswer::Members) when all are there.
    Join {
        /// Which job.
        job: JobId,
        /// The proof that it belongs there.
        secret: JobSecret,
        /// How many ranks the job has.
        size: u32,
        /// Who asks.
        member: Member,
    },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReserveBytes {
    size: U64,
    chunk_log2: u8,
    sharing: u8,
    reserved: [u8; 6],
    name: RegionName,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OpenNamedBytes {
    name: RegionName,
    rights: u8,
    sharing: u8,
    reserved: [u8; 6],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct KeyedBytes {
    region: U64,
    generation: U32,
    reserved: U32,
    key: RegionKey,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NextWrittenBytes {
    keyed: KeyedBytes,
    offset: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReleaseBytes {
    region: U64,
    generation: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ListBytes {
    after: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct JoinBytes {
    job: U64,
    secret: JobSecret,
    size: U32,
    reserved: U32,
    member: MemberBytes,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LoadBytes {
    path: FilePath,
    rights: u8,
    sharing: u8,
    reserved: [u8; 6],
}

const _: () = assert!(size_of::<LoadBytes>() == 128);
const _: () = assert!(size_of::<ReserveBytes>() == 144);
const _: () = assert!(size_of::<OpenNamedBytes>() == 136);
const _: () = assert!(size_of::<KeyedBytes>() == 32);
const _: () = assert!(size_of::<ReleaseBytes>() == 16);
const _: () = assert!(size_of::<JoinBytes>() == 208);

fn all_zero(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum | u64::from(*byte))
}

impl Question {
    /// The kind of [`ReserveSparse`](Self::ReserveSparse), which only peers know that know sparse regions.
    pub const RESERVE_SPARSE: FrameKind = RESERVE_SPARSE;

    /// The kind of [`NextWritten`](Self::NextWritten), which not every peer knows.
    pub const NEXT_WRITTEN: FrameKind = NEXT_WRITTEN;

    /// What to put into the frame head.
    pub const fn kind(&self) -> FrameKind {
        match self {
            Self::Reserve { .. } => RESERVE,
            Self::ReserveSparse { .. } => RESERVE_SPARSE,
            Self::OpenNamed { .. } => OPEN_NAMED,
            Self::Load { .. } => LOAD,
            Self::Free { .. } => FREE,
            Self::Release { .. } => RELEASE,
            Self::Sync { .. } => SYNC,
            Self::Populate { .. } => POPULATE,
            Self::NextWritten { .. } => NEXT_WRITTEN,
            Self::List { .. } => LIST,
            Self::Join { .. } => JOIN,
        }
    }

    /// Whether frames of this kind are questions.
    pub const fn is_question(kind: FrameKind) -> bool {
        matches!(
            kind,
            RESERVE
                | RESERVE_SPARSE
                | OPEN_NAMED
                | LOAD
                | FREE
                | RELEASE
                | SYNC
                | POPULATE
                | NEXT_WRITTEN
                | LIST
                | JOIN
        )
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Reserve { size, chunk_log2, name, sharing }
            | Self::ReserveSparse { size, chunk_log2, name, sharing } => {
                let (size, sharing) = (size.into(), sharing as u8);
                let bytes = ReserveBytes { size, chunk_log2, sharing, reserved: [0; 6], name };
                out.extend_from_slice(bytes.as_bytes());
            }
            Self::OpenNamed { name, rights, sharing } => {
                let (rights, sharing) = (rights.bits(), sharing as u8);
                out.extend_from_slice(OpenNamedBytes { name, rights, sharing, reserved: [0; 6] }.as_bytes());
            }
            Self::Load { path, rights, sharing } => {
                let (rights, sharing) = (rights.bits(), sharing as u8);
                out.extend_from_slice(LoadBytes { path, rights, sharing, reserved: [0; 6] }.as_bytes());
            }
            Self::Free { region, generation, key }
            | Self::Sync { region, generation, key }
            | Self::Populate { region, generation, key } => {
                let (region, generation, reserved) = (region.0.into(), generation.0.into(), 0.into());
                out.extend_from_slice(KeyedBytes { region, generation, reserved, key }.as_bytes());
            }
            Self::NextWritten { region, generation, key, offset } => {
                let (region, generation, reserved) = (region.0.into(), generation.0.into(), 0.into());
                let keyed = KeyedBytes { region, generation, reserved, key };
                out.extend_from_slice(NextWrittenBytes { keyed, offset: offset.into() }.as_bytes());
            }
            Self::Release { region, generation } => {
                let (region, generation, reserved) = (region.0.into(), generation.0.into(), 0.into());
                out.extend_from_slice(ReleaseBytes { region, generation, reserved }.as_bytes());
            }
            Self::List { after } => out.extend_from_slice(ListBytes { after: after.0.into() }.as_bytes()),
            Self::Join { job, secret, size, member } => out.extend_from_slice(
                JoinBytes {
                    job: job.0.into(),
                    secret,
                    size: size.into(),
                    reserved: 0.into(),
                    member: member.into(),
                }
                .as_bytes(),
            ),
        }
    }

    /// Reads the payload of a frame of this kind.
    pub fn decode(kind: FrameKind, payload: &[u8]) -> Result<Self, DecodeError> {
        match kind {
            RESERVE | RESERVE_SPARSE => decode_reserve(kind, exact("reserve request", payload)?),
            OPEN_NAMED => {
                let bytes: &OpenNamedBytes = exact("open request", payload)?;
                unused("reserved bytes of an open", all_zero(&bytes.reserved))?;
                bytes.name.check("region name")?;
                let (rights, sharing) = (Rights::from_bits(bytes.rights)?, bytes.sharing.try_into()?);
                Ok(Self::OpenNamed { name: bytes.name, rights, sharing })
            }
            LOAD => {
                let bytes: &LoadBytes = exact("load request", payload)?;
                unused("reserved bytes of a load", all_zero(&bytes.reserved))?;
                bytes.path.check("file path")?;
                let (rights, sharing) = (Rights::from_bits(bytes.rights)?, bytes.sharing.try_into()?);
                Ok(Self::Load { path: bytes.path, rights, sharing })
            }
            FREE | SYNC | POPULATE => {
                let bytes: &KeyedBytes = exact("request with a key", payload)?;
                unused("reserved bytes of a request with a key", bytes.reserved.get().into())?;
                let (region, generation) = (RegionId(bytes.region.get()), Generation(bytes.generation.get()));
                let key = bytes.key;
                Ok(match kind {
                    FREE => Self::Free { region, generation, key },
                    POPULATE => Self::Populate { region, generation, key },
                    _ => Self::Sync { region, generation, key },
                })
            }
            NEXT_WRITTEN => {
                let NextWrittenBytes { keyed, offset } = exact("request for a written part", payload)?;
                unused("reserved bytes of a request for a written part", keyed.reserved.get().into())?;
                let (region, generation) = (RegionId(keyed.region.get()), Generation(keyed.generation.get()));
                Ok(Self::NextWritten { region, generation, key: keyed.key, offset: offset.get() })
            }
            RELEASE => {
                let bytes: &ReleaseBytes = exact("release request", payload)?;
                unused("reserved bytes of a release", bytes.reserved.get().into())?;
                let (region, generation) = (RegionId(bytes.region.get()), Generation(bytes.generation.get()));
                Ok(Self::Release { region, generation })
            }
            LIST => {
                let bytes: &ListBytes = exact("list request", payload)?;
                Ok(Self::List { after: RegionId(bytes.after.get()) })
            }
            JOIN => {
                let bytes: &JoinBytes = exact("join request", payload)?;
                unused("reserved bytes of a join", bytes.reserved.get().into())?;
                let (job, size) = (JobId(bytes.job.get()), bytes.size.get());
                Ok(Self::Join { job, secret: bytes.secret, size, member: bytes.member.read()? })
            }
            _ => Err(DecodeError::BadValue { what: "question kind", value: kind.0.into() }),
        }
    }
}

fn decode_reserve(kind: FrameKind, bytes: &ReserveBytes) -> Result<Question, DecodeError> {
    unused("reserved bytes of a reserve", all_zero(&bytes.reserved))?;
    bytes.name.check("region name")?;
    if !(CHUNK_LOG2_MIN..=CHUNK_LOG2_MAX).contains(&bytes.chunk_log2) {
        return Err(DecodeError::BadValue { what: "chunk size", value: bytes.chunk_log2.into() });
    }
    let (size, sharing) = (bytes.size.get(), bytes.sharing.try_into()?);
    let (chunk_log2, name) = (bytes.chunk_log2, bytes.name);
    Ok(match kind {
        RESERVE_SPARSE => Question::ReserveSparse { size, chunk_log2, name, sharing },
        _ => Question::Reserve { size, chunk_log2, name, sharing },
    })
}

impl TryFrom<u8> for RegionSharing {
    type Error = DecodeError;

    fn try_from(value: u8) -> Result<Self, DecodeError> {
        match value {
            0 => Ok(Self::Leased),
            1 => Ok(Self::Together),
            _ => Err(DecodeError::BadValue { what: "sharing", value: value.into() }),
        }
    }
}
