//! The names by which processes speak of each other and of memory.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::DecodeError;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($int:ty), $shown:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $shown, self.0)
            }
        }
    };
}

number_id!(
    /// A region of far memory, unique on the server that owns it.
    RegionId(u64),
    "region {}"
);
number_id!(
    /// Counts how often a region id has been given out anew, so that a stale holder is recognised.
    Generation(u32),
    "generation {}"
);
number_id!(
    /// A memory server, by the number its configuration or its launcher gave it.
    ServerId(u64),
    "server {:016x}"
);
number_id!(
    /// A random number that a process draws at its start: a restarted process is never taken for the old one.
    Incarnation(u64),
    "{:016x}"
);
number_id!(
    /// The regions that a memory server keeps over its restarts: a server that says the number of a store has every byte of it that
    /// was ever acknowledged. Zero is "none": all that it has ends with its process.
    StoreId(u64),
    "store {:016x}"
);
number_id!(
    /// One parallel job; zero is "no job".
    JobId(u64),
    "job {:016x}"
);
number_id!(
    /// An application process's number in its job.
    Rank(u32),
    "rank {}"
);

impl StoreId {
    /// A server that keeps nothing.
    pub const NONE: Self = Self(0);

    /// Whether a server that says `self` has what one had that said `other`.
    pub fn goes_on_with(self, other: Self) -> bool {
        self != Self::NONE && self == other
    }
}

/// What the holder of a region key may do with the region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rights(u8);

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Read the bytes.
    pub const READ: Self = Self(1);
    /// Write the bytes and use atomics on them.
    pub const WRITE: Self = Self(2);
    /// Let functions that the holder calls use the region.
    pub const CALL: Self = Self(4);
    /// Everything.
    pub const ALL: Self = Self(7);

    /// Reads rights from their byte.
    pub const fn from_bits(bits: u8) -> Result<Self, DecodeError> {
        if bits & !Self::ALL.0 == 0 {
            Ok(Self(bits))
        } else {
            Err(DecodeError::BadValue { what: "rights", value: bits as u64 })
        }
    }

    /// The byte that stands for these rights.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all of `other` is included.
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These, but not `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Both together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.write_str("none");
        }
        let named = [(Self::READ, "read"), (Self::WRITE, "write"), (Self::CALL, "call")];
        let mut separator = "";
        for (_, name) in named.into_iter().filter(|(right, _)| self.includes(*right)) {
            write!(f, "{separator}{name}")?;
            separator = "+";
        }
        Ok(())
    }
}

/// The 128-bit capability that opens a region. A process that knows it has the rights it was made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RegionKey(pub [u8; 16]);

impl RegionKey {
    /// Compares without telling by its duration how much of the key was right.
    pub fn matches(&self, other: &Self) -> bool {
        same_in_constant_time(&self.0, &other.0)
    }
}

/// Whether two secrets are the same; takes as long for any two of one length.
pub(crate) fn same_in_constant_time<const N: usize>(one: &[u8; N], other: &[u8; N]) -> bool {
    let difference = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    core::hint::black_box(difference) == 0
}

impl fmt::Debug for RegionKey {
    /// Never shows the key: logs are read by people without the right to it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RegionKey(…)")
    }
}

/// What kind of process a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// A process that computes.
    Application = 1,
    /// A process that communicates on behalf of applications.
    Agent = 2,
    /// A process that owns regions.
    MemoryServer = 3,
    /// A command-line tool that looks at the others.
    Tool = 4,
}

impl TryFrom<u8> for Role {
    type Error = DecodeError;

    fn try_from(value: u8) -> Result<Self, DecodeError> {
        match value {
            1 => Ok(Self::Application),
            2 => Ok(Self::Agent),
            3 => Ok(Self::MemoryServer),
            4 => Ok(Self::Tool),
            _ => Err(DecodeError::BadValue { what: "role", value: value.into() }),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Application => "application",
            Self::Agent => "agent",
            Self::MemoryServer => "memory server",
            Self::Tool => "tool",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_name_themselves_and_refuse_unknown_bits() {
        assert_eq!(Rights::READ.and(Rights::CALL).to_string(), "read+call");
        assert_eq!(Rights::NONE.to_string(), "none");
        assert!(Rights::from_bits(8).is_err());
        assert!(Rights::ALL.includes(Rights::WRITE) && !Rights::READ.includes(Rights::WRITE));
    }

    #[test]
    fn keys_match_only_themselves_and_stay_out_of_logs() {
        let key = RegionKey([7; 16]);
        let mut other = key;
        other.0[15] ^= 1;
        assert!(key.matches(&RegionKey([7; 16])) && !key.matches(&other));
        assert!(!format!("{key:?}").contains('7'));
    }
}
