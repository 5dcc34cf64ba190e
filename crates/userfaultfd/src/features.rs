//! What a kernel's userfaultfd says it can do.

use std::fmt;

use linux_raw_sys::general as raw;
use serde::{Serialize, Serializer};

/// A set of userfaultfd features, as the kernel counts them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// Nothing that needs to be named.
    pub const NONE: Self = Self(0);
    /// A fault message says whether the page was protected or absent.
    pub const PAGEFAULT_FLAG_WP: Self = Self(raw::UFFD_FEATURE_PAGEFAULT_FLAG_WP as u64);
    /// A thread that moves a range with `mremap` waits until the handler has read of it.
    pub const EVENT_REMAP: Self = Self(raw::UFFD_FEATURE_EVENT_REMAP as u64);
    /// A thread that unmaps a range, or maps something in its place, waits until the handler has read of it.
    pub const EVENT_UNMAP: Self = Self(raw::UFFD_FEATURE_EVENT_UNMAP as u64);
    /// A touch of an absent page raises SIGBUS in the thread that touches it, and waits for no handler.
    pub const SIGBUS: Self = Self(raw::UFFD_FEATURE_SIGBUS as u64);
    /// A fault message names the thread.
    pub const THREAD_ID: Self = Self(raw::UFFD_FEATURE_THREAD_ID as u64);
    /// Faults on pages that a memory file already has.
    pub const MINOR_SHMEM: Self = Self(raw::UFFD_FEATURE_MINOR_SHMEM as u64);
    /// A fault message holds the address itself, not only its page.
    pub const EXACT_ADDRESS: Self = Self(raw::UFFD_FEATURE_EXACT_ADDRESS as u64);
    /// Pages that were never touched can be write-protected.
    pub const WP_UNPOPULATED: Self = Self(raw::UFFD_FEATURE_WP_UNPOPULATED as u64);
    /// A page can be made to raise SIGBUS where it is accessed.
    pub const POISON: Self = Self(raw::UFFD_FEATURE_POISON as u64);
    /// Protection that ends by itself at the first store.
    pub const WP_ASYNC: Self = Self(raw::UFFD_FEATURE_WP_ASYNC as u64);
    /// Pages can be moved instead of copied.
    pub const MOVE: Self = Self(raw::UFFD_FEATURE_MOVE as u64);

    /// From the kernel's bit mask.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The kernel's bit mask.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Their names, without `UFFD_FEATURE_`; a bit without one is called by its number.
    pub fn names(self) -> impl Iterator<Item = String> {
        (0..u64::BITS).filter(move |bit| self.0 >> bit & 1 == 1).map(|bit| {
            let name = NAMES.get(bit as usize);
            name.map_or_else(|| format!("bit {bit}"), |name| (*name).to_owned())
        })
    }
}

/// In the order of their bits.
const NAMES: [&str; 17] = [
    "PAGEFAULT_FLAG_WP",
    "EVENT_FORK",
    "EVENT_REMAP",
    "EVENT_REMOVE",
    "MISSING_HUGETLBFS",
    "MISSING_SHMEM",
    "EVENT_UNMAP",
    "SIGBUS",
    "THREAD_ID",
    "MINOR_HUGETLBFS",
    "MINOR_SHMEM",
    "EXACT_ADDRESS",
    "WP_HUGETLBFS_SHMEM",
    "WP_UNPOPULATED",
    "POISON",
    "WP_ASYNC",
    "MOVE",
];

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl Serialize for Features {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_belong_to_the_kernels_bits() {
        let named = [
            (Features::PAGEFAULT_FLAG_WP, "PAGEFAULT_FLAG_WP"),
            (Features::EVENT_REMAP, "EVENT_REMAP"),
            (Features::EVENT_UNMAP, "EVENT_UNMAP"),
            (Features::SIGBUS, "SIGBUS"),
            (Features::THREAD_ID, "THREAD_ID"),
            (Features::MINOR_SHMEM, "MINOR_SHMEM"),
            (Features::EXACT_ADDRESS, "EXACT_ADDRESS"),
            (Features::WP_UNPOPULATED, "WP_UNPOPULATED"),
            (Features::POISON, "POISON"),
            (Features::WP_ASYNC, "WP_ASYNC"),
            (Features::MOVE, "MOVE"),
            (Features::from_bits(1 << 17), "bit 17"),
        ];
        for (feature, name) in named {
            assert_eq!(feature.names().collect::<Vec<_>>(), [name]);
        }
        assert_eq!(Features::NONE.names().count(), 0);
        let both = Features::from_bits(Features::MOVE.bits() | Features::POISON.bits());
        assert!(both.contains(Features::MOVE) && !Features::MOVE.contains(both));
        assert_eq!(serde_json::to_string(&both).unwrap(), r#"["POISON","MOVE"]"#);
    }
}
