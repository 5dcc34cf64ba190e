//! How a site comes to know a function.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::FunctionName;
use crate::error::split;
use crate::{DecodeError, Generation, RegionId, RegionKey, Rights};

/// How many functions one link can have registered at a time.
pub const HANDLES_MAX: u32 = 4096;
/// How many regions one function can have.
pub const REGIONS_MAX: usize = 16;
/// The longest code of a function that any site takes, in bytes.
pub const CODE_LEN_MAX: usize = 1 << 20;
/// The longest explanation of a verdict, in bytes.
pub const DETAIL_LEN_MAX: usize = 512;

/// A region that a function may use, by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The region.
    pub region: RegionId,
    /// Which life of it.
    pub generation: Generation,
    /// A key to it that allows calls and `rights`.
    pub key: RegionKey,
    /// What the function may do there.
    pub rights: Rights,
    /// How large it is, in bytes, for sites that reach it from afar.
    pub size: u64,
}

/// From a caller to a site: this number means that function, on these regions. Answered by [`Registered`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// What calls will say, below [`HANDLES_MAX`]. What it meant before is forgotten.
    pub handle: u32,
    /// The longest reply, in bytes.
    pub reply_max: u32,
    /// How much fuel each call gets.
    pub fuel: u64,
    /// Which function.
    pub name: FunctionName,
    /// What it may use, at most [`REGIONS_MAX`].
    pub regions: Vec<Allowed>,
}

/// From a site to a caller: what became of a [`Register`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The number that was chosen.
    pub handle: u32,
    /// Whether it means something now.
    pub verdict: RegisterVerdict,
    /// More about it, for people; at most [`DETAIL_LEN_MAX`] bytes.
    pub detail: String,
}

/// Whether a function can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterVerdict {
    /// It can.
    Ready,
    /// The site does not have it: send the code, and register again.
    NeedsCode,
    /// The site is looking at the code: register again a little later.
    Preparing,
    /// It cannot.
    Refused(RegisterRefusal),
}

/// Why a function cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RegisterRefusal {
    /// The message cannot be read, or no caller has opened the link.
    Malformed = 3,
    /// The code is no function that this site can run.
    BadCode = 4,
    /// The code has another name.
    WrongName = 5,
    /// The code is longer than the site takes, or there are too many functions.
    TooMuch = 6,
    /// More fuel or a longer reply than the site gives.
    OverQuota = 7,
    /// A region is not there, or the key does not open it.
    NoRegion = 8,
    /// The key to a region does not carry the right to call, or another one that the function is to have there. A key carries the
    /// rights that its region was opened with, so open it with [`Rights::ALL`](crate::Rights::ALL), or with
    /// [`Rights::CALL`](crate::Rights::CALL) and those that the function is registered with.
    NoRight = 9,
}

impl RegisterRefusal {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Malformed,
        Self::BadCode,
        Self::WrongName,
        Self::TooMuch,
        Self::OverQuota,
        Self::NoRegion,
        Self::NoRight,
    ];
}

/// What stands before a part of a function's code. Parts come in order, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePart {
    /// Of which function.
    pub name: FunctionName,
    /// How long the code is, at most [`CODE_LEN_MAX`].
    pub total: u32,
    /// Where this part belongs.
    pub offset: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RegisterBytes {
    handle: U32,
    reply_max: U32,
    fuel: U64,
    name: [u8; 32],
    regions: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AllowedBytes {
    region: U64,
    generation: U32,
    rights: u8,
    reserved: [u8; 3],
    key: [u8; 16],
    size: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RegisteredBytes {
    handle: U32,
    verdict: u8,
    reserved: [u8; 3],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CodePartBytes {
    name: [u8; 32],
    total: U32,
    offset: U32,
}

const _: () = assert!(size_of::<RegisterBytes>() == 56);
const _: () = assert!(size_of::<AllowedBytes>() == 40);
const _: () = assert!(size_of::<CodePartBytes>() == CodePart::LEN);

fn handle_of(value: U32) -> Result<u32, DecodeError> {
    match value.get() {
        handle if handle < HANDLES_MAX => Ok(handle),
        value => Err(DecodeError::BadValue { what: "number of a function", value: value.into() }),
    }
}

fn unused(bytes: &[u8]) -> Result<(), DecodeError> {
    match bytes.iter().find(|byte| **byte != 0) {
        None => Ok(()),
        Some(byte) => {
            Err(DecodeError::BadValue { what: "unused field of a calling message", value: (*byte).into() })
        }
    }
}

impl Register {
    /// Appends it as it travels.
    ///
    /// # Panics
    /// If there are more than [`REGIONS_MAX`] regions.
    pub fn encode(&self, into: &mut Vec<u8>) {
        assert!(self.regions.len() <= REGIONS_MAX, "more regions than a function can have");
        let fixed = RegisterBytes {
            handle: self.handle.into(),
            reply_max: self.reply_max.into(),
            fuel: self.fuel.into(),
            name: self.name.0,
            regions: (self.regions.len() as u64).into(),
        };
        into.extend_from_slice(fixed.as_bytes());
        for Allowed { region, generation, key, rights, size } in &self.regions {
            let bytes = AllowedBytes {
                region: region.0.into(),
                generation: generation.0.into(),
                rights: rights.bits(),
                reserved: [0; 3],
                key: key.0,
                size: (*size).into(),
            };
            into.extend_from_slice(bytes.as_bytes());
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (fixed, mut rest) = split::<RegisterBytes>("registration", bytes)?;
        let handle = handle_of(fixed.handle)?;
        let count = fixed.regions.get();
        if count > REGIONS_MAX as u64 {
            return Err(DecodeError::BadValue { what: "number of a function's regions", value: count });
        }
        let mut regions = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let (allowed, behind) = split::<AllowedBytes>("region of a function", rest)?;
            unused(&allowed.reserved)?;
            regions.push(Allowed {
                region: RegionId(allowed.region.get()),
                generation: Generation(allowed.generation.get()),
                key: RegionKey(allowed.key),
                rights: Rights::from_bits(allowed.rights)?,
                size: allowed.size.get(),
            });
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(DecodeError::TrailingBytes { what: "registration", extra: rest.len() });
        }
        let (reply_max, fuel) = (fixed.reply_max.get(), fixed.fuel.get());
        Ok(Self { handle, reply_max, fuel, name: FunctionName(fixed.name), regions })
    }
}

impl Registered {
    /// Appends it as it travels; a detail that is too long is cut.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let verdict = match self.verdict {
            RegisterVerdict::Ready => 0,
            RegisterVerdict::NeedsCode => 1,
            RegisterVerdict::Preparing => 2,
            RegisterVerdict::Refused(why) => why as u8,
        };
        let fixed = RegisteredBytes { handle: self.handle.into(), verdict, reserved: [0; 3] };
        into.extend_from_slice(fixed.as_bytes());
        let mut end = self.detail.len().min(DETAIL_LEN_MAX);
        while !self.detail.is_char_boundary(end) {
            end -= 1;
        }
        into.extend_from_slice(&self.detail.as_bytes()[..end]);
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (fixed, rest) = split::<RegisteredBytes>("answer to a registration", bytes)?;
        unused(&fixed.reserved)?;
        let verdict = match fixed.verdict {
            0 => RegisterVerdict::Ready,
            1 => RegisterVerdict::NeedsCode,
            2 => RegisterVerdict::Preparing,
            other => {
                let found = RegisterRefusal::ALL.into_iter().find(|why| *why as u8 == other);
                let bad = DecodeError::BadValue { what: "verdict on a function", value: other.into() };
                RegisterVerdict::Refused(found.ok_or(bad)?)
            }
        };
        if rest.len() > DETAIL_LEN_MAX {
            let extra = rest.len() - DETAIL_LEN_MAX;
            return Err(DecodeError::TrailingBytes { what: "answer to a registration", extra });
        }
        let detail = match str::from_utf8(rest) {
            Ok(detail) => detail.to_owned(),
            Err(error) => {
                let value = error.valid_up_to() as u64;
                return Err(DecodeError::BadValue { what: "text of a verdict", value });
            }
        };
        Ok(Self { handle: handle_of(fixed.handle)?, verdict, detail })
    }
}

impl CodePart {
    /// Its size in bytes, without the code.
    pub const LEN: usize = 40;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let (total, offset) = (self.total.into(), self.offset.into());
        zerocopy::transmute!(CodePartBytes { name: self.name.0, total, offset })
    }

    /// Reads the start of a part, and returns the code in it.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (fixed, code) = split::<CodePartBytes>("part of a function's code", bytes)?;
        let (total, offset) = (fixed.total.get(), fixed.offset.get());
        if total as usize > CODE_LEN_MAX {
            return Err(DecodeError::BadValue { what: "length of a function's code", value: total.into() });
        }
        let end = u64::from(offset) + code.len() as u64;
        if code.is_empty() || end > u64::from(total) {
            return Err(DecodeError::BadValue { what: "end of a part of code", value: end });
        }
        Ok((Self { name: FunctionName(fixed.name), total, offset }, code))
    }
}
