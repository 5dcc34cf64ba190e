//! How much of a machine's memory may be used.

use std::fmt;

use outboard_limits::MemoryLimits;

use crate::{ByteSize, Percent};

/// An amount of memory: so many bytes, or a share of what this process can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// So many bytes.
    Bytes(ByteSize),
    /// A share of the machine's memory, or of the lowest limit of its control groups where that is lower.
    Share(Percent),
}

/// A value, or whatever suits the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrAuto<T> {
    /// Whatever suits the machine.
    Auto,
    /// This value.
    Given(T),
}

impl Capacity {
    /// So many bytes.
    pub fn of_bytes(bytes: u64) -> Self {
        Self::Bytes(ByteSize(bytes))
    }

    /// In bytes, for a process with these limits; nothing of a memory of which the system does not say how large it is.
    pub fn bytes(self, limits: &MemoryLimits) -> u64 {
        match self {
            Self::Bytes(ByteSize(bytes)) => bytes,
            Self::Share(share) => limits.lowest().map_or(0, |limit| share.of(limit.bytes)),
        }
    }

    /// For settings: there is no more memory than all of it, and no machine has more than this.
    pub(crate) fn check(self) -> Result<(), &'static str> {
        match self {
            Self::Bytes(ByteSize(bytes)) if bytes > 64 << 40 => Err("it must be at most 64TiB"),
            Self::Share(share) if share > Percent::ALL => {
                Err("it is more than all the memory that there is; write at most 100%, or a size")
            }
            _ => Ok(()),
        }
    }
}

impl<T> OrAuto<T> {
    /// The value, if there is one.
    pub fn given(&self) -> Option<&T> {
        match self {
            Self::Auto => None,
            Self::Given(value) => Some(value),
        }
    }
}

impl<T> From<T> for OrAuto<T> {
    fn from(value: T) -> Self {
        Self::Given(value)
    }
}

impl From<ByteSize> for OrAuto<Capacity> {
    fn from(size: ByteSize) -> Self {
        Self::Given(Capacity::Bytes(size))
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Share(share) => share.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use outboard_limits::{Groups, with_files};

    use super::*;

    #[test]
    fn a_share_is_of_what_this_process_can_have() {
        let half = Capacity::Share(Percent::from_percent(50));
        let files = [("/proc/meminfo", "MemTotal: 1048576 kB\n")];
        let limits = with_files(&files, |files| MemoryLimits::read(files, &Groups::read(files)));
        assert_eq!(half.bytes(&limits), 512 << 20);
        assert_eq!(half.bytes(&MemoryLimits::default()), 0);
        assert_eq!(Capacity::of_bytes(7).bytes(&limits), 7);
    }
}
