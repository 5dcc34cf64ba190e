//! The ranks of a job, as they introduce themselves.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::id::same_in_constant_time;
use crate::text::Text;
use crate::{DecodeError, Incarnation, Rank};

/// Where a rank can be reached, as text.
pub type MemberAddress = Text<112>;

/// The secret that the ranks of one job share: up to 64 bytes, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct JobSecret(pub [u8; JobSecret::LEN_MAX]);

impl JobSecret {
    /// The longest secret in bytes.
    pub const LEN_MAX: usize = 64;

    /// The secret that is this text; `None` if it is too long.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::LEN_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self(bytes))
    }

    /// Compares without telling by its duration how much of the secret was right.
    pub fn matches(&self, other: &Self) -> bool {
        same_in_constant_time(&self.0, &other.0)
    }
}

impl core::fmt::Debug for JobSecret {
    /// Never shows the secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("JobSecret(…)")
    }
}

/// One rank as the others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub rank: Rank,
    /// Its process id on its node.
    pub pid: u32,
    /// Which life of that process.
    pub incarnation: Incarnation,
    /// Where it can be reached; empty if it does not listen.
    pub address: MemberAddress,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct MemberBytes {
    incarnation: U64,
    rank: U32,
    pid: U32,
    address: MemberAddress,
}

const _: () = assert!(size_of::<MemberBytes>() == 128);

impl From<Member> for MemberBytes {
    fn from(member: Member) -> Self {
        Self {
            incarnation: member.incarnation.0.into(),
            rank: member.rank.0.into(),
            pid: member.pid.into(),
            address: member.address,
        }
    }
}

impl MemberBytes {
    pub(super) fn read(&self) -> Result<Member, DecodeError> {
        self.address.check("member address")?;
        Ok(Member {
            rank: Rank(self.rank.get()),
            pid: self.pid.get(),
            incarnation: Incarnation(self.incarnation.get()),
            address: self.address,
        })
    }
}
