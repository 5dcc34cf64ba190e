//! What the chunks are used for that the allocator has: found by an address, without a lock.

use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

use crate::far::CHUNK;
use crate::pages;

/// The least that a block takes.
pub(crate) const GRAIN: usize = 16;
/// How many words the bits of a slab need at most.
pub(crate) const WORDS: usize = CHUNK / GRAIN / 64;
/// How many entries have pages together.
const LEAF: usize = 256;
/// How many chunks the allocator may have: 1 TiB.
pub(crate) const CHUNKS_MAX: usize = 1 << 24;

/// The use of a chunk.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No block is in it.
    Free,
    /// It is part of a slab: blocks of one size.
    Slab,
    /// It is the first of a block of chunks.
    Long,
}

/// What is known of a chunk. All zero is a chunk that is free.
pub(crate) struct Entry {
    kind: AtomicU8,
    /// Of a slab: which size.
    class: AtomicU8,
    /// Of a slab: how many chunks before this one it begins.
    back: AtomicU32,
    /// Of a long block: how many chunks it has, and how many it may grow to in its place.
    pub(crate) len: AtomicU32,
    pub(crate) room: AtomicU32,
    /// Of the first chunk of a slab.
    slab: UnsafeCell<Slab>,
}

/// What is known of a slab. The lock of its size protects it.
pub(crate) struct Slab {
    /// How many of its blocks are out.
    pub(crate) live: u16,
    /// From this block on none was ever out.
    pub(crate) fresh: u16,
    /// Whether those are zero.
    pub(crate) is_zero: bool,
    /// Whether it is in the list of its size.
    pub(crate) is_listed: bool,
    /// Its neighbours in that list, by their chunks; zero if there is none, else one more.
    pub(crate) next: u32,
    pub(crate) previous: u32,
    /// A bit for each block that came back.
    pub(crate) back: [u64; WORDS],
}

static LEAVES: [AtomicPtr<Entry>; CHUNKS_MAX / LEAF] =
    [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS_MAX / LEAF];

// SAFETY: a slab is used by the thread that has the lock of its size, all else is atomic.
unsafe impl Sync for Entry {}

/// The entry of a chunk of which something is known.
#[inline]
pub(crate) fn entry(chunk: u32) -> Option<&'static Entry> {
    let leaf = LEAVES.get(chunk as usize / LEAF)?.load(Ordering::Acquire);
    // SAFETY: a leaf has as many entries, all of which are zero at first, and is never given back.
    (!leaf.is_null()).then(|| unsafe { &*leaf.add(chunk as usize % LEAF) })
}

/// The entry of a chunk, which is made if there is none yet.
pub(crate) fn make(chunk: u32) -> Option<&'static Entry> {
    let place = LEAVES.get(chunk as usize / LEAF)?;
    if place.load(Ordering::Acquire).is_null() {
        let bytes = LEAF * size_of::<Entry>();
        let leaf = pages::take(bytes)?;
        let made = place.compare_exchange(
            ptr::null_mut(),
            leaf.as_ptr().cast(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if made.is_err() {
            // SAFETY: taken above, and no other thread has seen them.
            unsafe { pages::give(leaf, bytes) };
        }
    }
    entry(chunk)
}

impl Entry {
    pub(crate) fn kind(&self) -> Kind {
        match self.kind.load(Ordering::Acquire) {
            1 => Kind::Slab,
            2 => Kind::Long,
            _ => Kind::Free,
        }
    }

    pub(crate) fn set_kind(&self, kind: Kind) {
        self.kind.store(kind as u8, Ordering::Release);
    }

    /// Makes it part of a slab.
    pub(crate) fn set_slab(&self, class: usize, back: u32) {
        self.class.store(class as u8, Ordering::Relaxed);
        self.back.store(back, Ordering::Relaxed);
        self.set_kind(Kind::Slab);
    }

    /// Of a slab: which size, and how many chunks before this one it begins.
    #[inline]
    pub(crate) fn slab(&self) -> (usize, u32) {
        (self.class.load(Ordering::Relaxed).into(), self.back.load(Ordering::Relaxed))
    }

    /// What is known of the slab that begins here.
    pub(crate) fn record(&self) -> NonNull<Slab> {
        NonNull::new(self.slab.get()).expect("a part of an entry is somewhere")
    }
}
