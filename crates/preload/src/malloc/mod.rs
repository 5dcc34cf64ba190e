//! The C library's allocator, over far memory.
//!
//! Blocks of up to 256 KiB lie in *slabs*, which have blocks of one size; longer ones have chunks of their own. Each thread keeps
//! some free blocks of every size for itself, so that most calls take no lock. What is known of blocks lies in ordinary memory: to
//! take and to free one touches no far memory.

mod blocks;
mod cache;
mod calls;
mod long;
mod sizes;
mod slabs;

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::far::{self, Far};
use crate::lock::Lock;
use crate::room::{Content, Room};

pub(crate) use cache::prepare_threads;

/// The chunks of the allocator that have no blocks.
static ROOM: Lock<Room> = Lock::new(Room::empty());
/// How many stale chunks are too many.
static STALE_MAX: AtomicU32 = AtomicU32::new(u32::MAX);
/// One thread discards at a time.
static IS_TRIMMING: AtomicBool = AtomicBool::new(false);
/// Whether blocks are far. Before, and in programs with an allocator of their own, they are left to the one behind this library.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// The addresses of blocks. Mappings, which lie behind them, may hold the blocks of an allocator that the program brings.
static START: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);

/// Where the function `malloc` of this library is.
pub(crate) fn address() -> usize {
    calls::malloc as *const () as usize
}

/// Whether a block at this address is one of this allocator's.
#[inline]
fn has(address: usize) -> bool {
    address.wrapping_sub(START.load(Ordering::Relaxed)) < LEN.load(Ordering::Relaxed)
}

/// Begins to take blocks from these chunks.
pub(crate) fn begin(far: &Far, chunks: Range<u32>) {
    let addresses = far.addresses(&chunks);
    START.store(addresses.start, Ordering::Relaxed);
    LEN.store(addresses.len(), Ordering::Relaxed);
    ROOM.lock().give(chunks, Content::Zero);
    IS_ON.store(true, Ordering::Release);
}

/// Holds all locks of the allocator.
pub(crate) fn hold() {
    slabs::hold();
    ROOM.hold();
}

/// Lets them go.
pub(crate) fn release() {
    ROOM.release();
    slabs::release();
}

/// Lets an eighth of the buffer be full of what is not needed: it may be taken again before it has to be discarded.
pub(crate) fn follow_buffer(bytes: usize) {
    STALE_MAX.store((bytes / 8 / far::CHUNK).max(8) as u32, Ordering::Relaxed);
}

/// Takes chunks. What is stale is here yet, mostly, and costs no fault; zeros are taken where they are asked for.
fn take(count: u32, must_be_zero: bool) -> Option<(u32, bool)> {
    let mut room = ROOM.lock();
    let stale = if must_be_zero { None } else { room.take(count, Content::Stale) };
    let taken = stale.or_else(|| room.take(count, Content::Zero))?;
    Some((taken.start, taken.content == Content::Zero))
}

/// Gives chunks back, which hold what is not needed.
fn give(far: &Far, chunks: Range<u32>) {
    let stale = {
        let mut room = ROOM.lock();
        room.give(chunks, Content::Stale);
        room.stale()
    };
    if stale > STALE_MAX.load(Ordering::Relaxed) {
        trim(far);
    }
}

/// Discards what is stale, so that it takes memory nowhere.
pub(crate) fn trim(far: &Far) {
    // Another thread that does so does not take long, and what is stale can wait for the next.
    if IS_TRIMMING.swap(true, Ordering::Acquire) {
        return;
    }
    loop {
        let stale = ROOM.lock().take_stale();
        let Some(chunks) = stale else { break };
        // SAFETY: they have no blocks, and none gets them before they are given back.
        let discarded = unsafe { far.discard(&far.addresses(&chunks)) };
        let content = if discarded.is_ok() { Content::Zero } else { Content::Stale };
        ROOM.lock().give(chunks, content);
        if discarded.is_err() {
            // The memory server is away. What is stale can be taken all the same.
            STALE_MAX.store(u32::MAX, Ordering::Relaxed);
            break;
        }
    }
    IS_TRIMMING.store(false, Ordering::Release);
}
