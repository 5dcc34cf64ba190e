//! The one mapping of far memory that this process has, and what is done to parts of it.

use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use outboard::{Advice, FarError, FarMapping, FarMemory, PageProtection};

use crate::heap::Calm;

/// How many bytes a chunk has.
pub(crate) const CHUNK: usize = 64 << 10;
/// How many bytes a page has to this library. Systems with larger ones are refused at the start.
pub(crate) const PAGE: usize = 4096;

/// The far memory of this process. It is never dropped: at the end of the process the memory server sees that it is gone.
pub(crate) struct Far {
    pub(crate) memory: FarMemory,
    mapping: FarMapping,
    start: usize,
}

/// Where it is, once it can be used.
static FAR: AtomicPtr<Far> = AtomicPtr::new(ptr::null_mut());
/// Its addresses, also in children that were forked.
static START: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);
static STATE: AtomicU8 = AtomicU8::new(PLAIN);

/// Nothing is far, or not yet.
const PLAIN: u8 = 0;
const READY: u8 = 1;
/// This is a child that was forked: it has its parent's far memory as it was at the fork, and gets no more.
const FORKED: u8 = 2;

/// Whether an address is in far memory.
#[inline]
pub(crate) fn contains(address: usize) -> bool {
    address.wrapping_sub(START.load(Ordering::Relaxed)) < LEN.load(Ordering::Relaxed)
}

/// The part of a range that is in far memory.
pub(crate) fn part_of(range: &Range<usize>) -> Range<usize> {
    let (start, len) = (START.load(Ordering::Relaxed), LEN.load(Ordering::Relaxed));
    let part = range.start.max(start)..range.end.min(start + len);
    if part.is_empty() { range.start..range.start } else { part }
}

/// Whether more far memory can be taken.
#[inline]
pub(crate) fn is_ready() -> bool {
    STATE.load(Ordering::Acquire) == READY
}

/// Notes that this process is a child of the one that has far memory. Returns false if that is a child itself, whose far memory
/// this one has not.
pub(crate) fn fork() -> bool {
    match STATE.load(Ordering::Acquire) {
        READY => STATE.store(FORKED, Ordering::Release),
        FORKED => return false,
        _ => {}
    }
    true
}

/// The far memory of this process, if it has any.
pub(crate) fn get() -> Option<&'static Far> {
    // SAFETY: it was leaked by `set`, or is null.
    if is_ready() { unsafe { FAR.load(Ordering::Acquire).as_ref() } } else { None }
}

/// The far memory of this process or of the one that has forked it, to ask what is known of it.
pub(crate) fn any() -> Option<&'static Far> {
    // SAFETY: it was leaked by `set`, or is null; a child has a copy.
    unsafe { FAR.load(Ordering::Acquire).as_ref() }
}

/// Makes a mapping the far memory of this process, and all of it available.
pub(crate) fn set(memory: FarMemory, mapping: FarMapping) -> &'static Far {
    let start = mapping.as_ptr().as_ptr() as usize;
    let far: &'static Far = Box::leak(Box::new(Far { memory, mapping, start }));
    START.store(start, Ordering::Relaxed);
    LEN.store(far.mapping.len(), Ordering::Relaxed);
    FAR.store(ptr::from_ref(far).cast_mut(), Ordering::Release);
    far
}

/// From now on it is used.
pub(crate) fn begin() {
    STATE.store(READY, Ordering::Release);
}

impl Far {
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.mapping.len()
    }

    /// The addresses of chunks.
    pub(crate) fn addresses(&self, chunks: &Range<u32>) -> Range<usize> {
        self.start + chunks.start as usize * CHUNK..self.start + chunks.end as usize * CHUNK
    }

    /// The number of the chunk that has an address.
    pub(crate) fn chunk(&self, address: usize) -> u32 {
        ((address - self.start) / CHUNK) as u32
    }

    fn span(&self, range: &Range<usize>) -> Range<usize> {
        range.start - self.start..range.end - self.start
    }

    /// Makes bytes zero. What of them are whole chunks takes no memory afterwards.
    ///
    /// # Safety
    ///
    /// Nothing uses them meanwhile.
    pub(crate) unsafe fn discard(&self, range: &Range<usize>) -> Result<(), FarError> {
        // A handler of a signal that touches far memory may need places of chunks that are being discarded.
        let _calm = Calm::new();
        // SAFETY: by the contract of this function.
        unsafe { self.mapping.discard_unused(self.span(range)) }
    }

    /// Sets what may be done to pages.
    pub(crate) fn protect(&self, range: &Range<usize>, protection: PageProtection) -> Result<(), FarError> {
        self.mapping.protect(self.span(range), protection)
    }

    /// What may be done to the page at an address.
    pub(crate) fn protection_at(&self, address: usize) -> PageProtection {
        let at = address - self.start;
        let parts = self.mapping.protections_of(at..at + 1).unwrap_or_default();
        parts.first().map_or(PageProtection::None, |(_, protection)| *protection)
    }

    pub(crate) fn advise(&self, range: &Range<usize>, advice: Advice) {
        // It is advice: where it cannot be followed, all is as without.
        let _ = self.mapping.advise(self.span(range), advice);
    }

    /// Waits until bytes are here, as far as the buffer has room.
    pub(crate) fn prefault(&self, range: &Range<usize>) {
        let _ = self.mapping.prefault(self.span(range));
    }

    /// Whether the chunk that has an address may hold anything but zeros.
    pub(crate) fn is_touched(&self, address: usize) -> bool {
        self.mapping.is_touched(address - self.start)
    }

    /// How many bytes are in chunks that were touched.
    pub(crate) fn touched(&self) -> u64 {
        self.mapping.touched()
    }
}
