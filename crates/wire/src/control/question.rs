//! What a client asks.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::member::{JobSecret, Member, MemberBytes};
use super::unused;
use crate::error::exact;
use crate::text::Text;
use crate::{
    CHUNK_LOG2_MAX, CHUNK_LOG2_MIN, DecodeError, Generation, JobId, Kind, RegionId, RegionKey, Rights, Room,
};

const RESERVE: Kind = Kind::new(Room::Control, 1);
const OPEN_NAMED: Kind = Kind::new(Room::Control, 2);
const FREE: Kind = Kind::new(Room::Control, 3);
const LIST: Kind = Kind::new(Room::Control, 4);
const JOIN: Kind = Kind::new(Room::Control, 5);
const LOAD: Kind = Kind::new(Room::Control, 6);

/// The name of a region; empty means that it has none and ends with its client.
pub type RegionName = Text<128>;
/// The path of a file below a server's data directory. With [`FILE_PREFIX`] before it, it names its region.
pub type FilePath = Text<120>;

/// What the names of regions begin with that were loaded from files; no other name may.
pub const FILE_PREFIX: &str = "file:";

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Make a region. Answered by [`Region`](super::ControlAnswer::Region).
    Reserve {
        /// How many bytes.
        size: u64,
        /// The unit of movement, as a power of two.
        chunk_log2: u8,
        /// A name under which others find it and under which it outlives this client.
        name: RegionName,
    },
    /// Give me the region of this name. Answered by [`Region`](super::ControlAnswer::Region).
    OpenNamed {
        /// Its name.
        name: RegionName,
        /// What it will be used for.
        rights: Rights,
    },
    /// Load this file into a region that all who ask share. Answered by [`Region`](super::ControlAnswer::Region) when it is there.
    Load {
        /// Where it lies below the server's data directory.
        path: FilePath,
        /// What it will be used for.
        rights: Rights,
    },
    /// I no longer need this region. Answered by [`Freed`](super::ControlAnswer::Freed).
    Free {
        /// Which region.
        region: RegionId,
        /// Which life of it.
        generation: Generation,
        /// A key to it that allows writing.
        key: RegionKey,
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
    reserved: [u8; 7],
    name: RegionName,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OpenNamedBytes {
    name: RegionName,
    rights: u8,
    reserved: [u8; 7],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FreeBytes {
    region: U64,
    generation: U32,
    reserved: U32,
    key: RegionKey,
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
    reserved: [u8; 7],
}

const _: () = assert!(size_of::<LoadBytes>() == 128);
const _: () = assert!(size_of::<ReserveBytes>() == 144);
const _: () = assert!(size_of::<OpenNamedBytes>() == 136);
const _: () = assert!(size_of::<FreeBytes>() == 32);
const _: () = assert!(size_of::<JoinBytes>() == 208);

fn all_zero(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum | u64::from(*byte))
}

impl Question {
    /// What to put into the frame head.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Reserve { .. } => RESERVE,
            Self::OpenNamed { .. } => OPEN_NAMED,
            Self::Load { .. } => LOAD,
            Self::Free { .. } => FREE,
            Self::List { .. } => LIST,
            Self::Join { .. } => JOIN,
        }
    }

    /// Whether frames of this kind are questions.
    pub const fn is_question(kind: Kind) -> bool {
        matches!(kind, RESERVE | OPEN_NAMED | LOAD | FREE | LIST | JOIN)
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Reserve { size, chunk_log2, name } => out.extend_from_slice(
                ReserveBytes { size: size.into(), chunk_log2, reserved: [0; 7], name }.as_bytes(),
            ),
            Self::OpenNamed { name, rights } => out.extend_from_slice(
                OpenNamedBytes { name, rights: rights.bits(), reserved: [0; 7] }.as_bytes(),
            ),
            Self::Load { path, rights } => {
                let bytes = LoadBytes { path, rights: rights.bits(), reserved: [0; 7] };
                out.extend_from_slice(bytes.as_bytes());
            }
            Self::Free { region, generation, key } => out.extend_from_slice(
                FreeBytes {
                    region: region.0.into(),
                    generation: generation.0.into(),
                    reserved: 0.into(),
                    key,
                }
                .as_bytes(),
            ),
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
    pub fn decode(kind: Kind, payload: &[u8]) -> Result<Self, DecodeError> {
        match kind {
            RESERVE => decode_reserve(exact("reserve request", payload)?),
            OPEN_NAMED => {
                let bytes: &OpenNamedBytes = exact("open request", payload)?;
                unused("reserved bytes of an open", all_zero(&bytes.reserved))?;
                bytes.name.check("region name")?;
                Ok(Self::OpenNamed { name: bytes.name, rights: Rights::from_bits(bytes.rights)? })
            }
            LOAD => {
                let bytes: &LoadBytes = exact("load request", payload)?;
                unused("reserved bytes of a load", all_zero(&bytes.reserved))?;
                bytes.path.check("file path")?;
                Ok(Self::Load { path: bytes.path, rights: Rights::from_bits(bytes.rights)? })
            }
            FREE => {
                let bytes: &FreeBytes = exact("free request", payload)?;
                unused("reserved bytes of a free", bytes.reserved.get().into())?;
                let (region, generation) = (RegionId(bytes.region.get()), Generation(bytes.generation.get()));
                Ok(Self::Free { region, generation, key: bytes.key })
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

fn decode_reserve(bytes: &ReserveBytes) -> Result<Question, DecodeError> {
    unused("reserved bytes of a reserve", all_zero(&bytes.reserved))?;
    bytes.name.check("region name")?;
    if !(CHUNK_LOG2_MIN..=CHUNK_LOG2_MAX).contains(&bytes.chunk_log2) {
        return Err(DecodeError::BadValue { what: "chunk size", value: bytes.chunk_log2.into() });
    }
    Ok(Question::Reserve { size: bytes.size.get(), chunk_log2: bytes.chunk_log2, name: bytes.name })
}
