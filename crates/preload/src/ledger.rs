//! Counts of this process, where `outboard far` reads them: also when the process was killed.
//!
//! The file is `outboard far`'s. It has a number of slots of equal size; each process takes one, and fills it with the numbers of
//! [`Count`] in their order. The first word of the file is how many slots were taken.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// How many words a slot has, and how many slots there are behind the first.
const WORDS: usize = 32;
const SLOTS: usize = 1023;
/// How many words of a slot are the name of the program.
const NAME: usize = 4;

/// What is counted, by its place in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Count {
    /// Its number.
    Process,
    /// 1 while it uses far memory, 2 when it has ended in an orderly way.
    State,
    /// 1 for mappings, 2 for blocks too.
    Level,
    /// How many bytes are in chunks that are used, and were at most.
    Used,
    UsedMost,
    /// How many bytes of them may be here, and may have been at most.
    Buffer,
    BufferMost,
    /// How many bytes of them were here at most.
    HereMost,
    /// How many faults brought bytes from the memory server, zeros, and what had just left.
    Fetched,
    Blank,
    Rescued,
    /// How many faults waited for bytes that were on their way, and for a place in the buffer.
    Joined,
    Parked,
    /// How many chunks were fetched before they were needed, left, and were written back.
    Ahead,
    Evicted,
    Saved,
    /// How many bytes were fetched and written back.
    BytesFetched,
    BytesSaved,
    /// How many mappings that were long enough stayed in ordinary memory, and how many bytes of them.
    Plain,
    PlainBytes,
    /// How many calls were refused that far memory does not serve.
    Refused,
    /// How many files were copied into far memory in place of being mapped.
    Copied,
    /// How many children were forked.
    Forks,
}

const _: () = assert!(Count::Forks as usize + NAME < WORDS);

static SLOT: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// Takes a slot in the file at a path. Without one nothing is counted.
pub(crate) fn open(path: &str, name: &str) {
    let Ok(file) = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) else { return };
    let bytes = (SLOTS + 1) * WORDS * size_of::<u64>();
    // A file of another length is not one of these, and touching what is behind its end would end the process.
    if !rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_size == bytes as i64) {
        return;
    }
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let start = unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, rights, MapFlags::SHARED, &file, 0) };
    let Ok(start) = start.map(|start| start.cast::<AtomicU64>()) else { return };
    // SAFETY: the mapping begins with a word, which other processes change by atomic operations alone.
    let number = unsafe { &*start }.fetch_add(1, Ordering::Relaxed) as usize;
    if number >= SLOTS {
        return;
    }
    // SAFETY: the mapping has as many slots, and stays.
    let slot = unsafe { start.add((number + 1) * WORDS) };
    SLOT.store(slot, Ordering::Release);
    set(Count::Process, std::process::id().into());
    let mut bytes = [0_u8; NAME * 8];
    let len = name.len().min(bytes.len());
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    for (at, word) in bytes.chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes(word.try_into().expect("a word has eight bytes"));
        // SAFETY: the slot has as many words.
        unsafe { &*slot.add(WORDS - NAME + at) }.store(word, Ordering::Relaxed);
    }
}

fn word(count: Count) -> Option<&'static AtomicU64> {
    let slot = SLOT.load(Ordering::Acquire);
    // SAFETY: the slot has as many words, and stays; no other process writes it.
    (!slot.is_null()).then(|| unsafe { &*slot.add(count as usize) })
}

/// Sets a number.
pub(crate) fn set(count: Count, value: u64) {
    if let Some(word) = word(count) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Sets a number if it is larger than before.
pub(crate) fn raise(count: Count, value: u64) {
    if let Some(word) = word(count) {
        word.fetch_max(value, Ordering::Relaxed);
    }
}

/// Adds to a number.
pub(crate) fn count(count: Count, more: u64) {
    if let Some(word) = word(count) {
        word.fetch_add(more, Ordering::Relaxed);
    }
}

/// Counts a mapping that stayed in ordinary memory though it was long enough.
pub(crate) fn plain(bytes: usize) {
    count(Count::Plain, 1);
    count(Count::PlainBytes, bytes as u64);
}

/// Leaves the slot to the process that this one was forked by.
pub(crate) fn leave() {
    SLOT.store(ptr::null_mut(), Ordering::Release);
}
