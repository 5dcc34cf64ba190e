//! Blocks of more than 256 KiB: chunks of their own.

use super::{ROOM, give, take};
use crate::directory::{self, Entry, Kind};
use crate::far::{CHUNK, Far};
use crate::room::Content;
use core::sync::atomic::Ordering;

/// From how many chunks on a block that has grown out of its place gets addresses for twice its length, so that it need not move
/// again soon. They cost nothing.
const GROWS: u32 = 8;

/// Takes a block, and says whether it is zero. It may grow to so many chunks in its place.
pub(super) fn take_long(
    far: &Far,
    bytes: usize,
    align: usize,
    must_be_zero: bool,
    room: u32,
) -> Option<(usize, bool)> {
    let count = u32::try_from(bytes.div_ceil(CHUNK)).ok()?;
    let (chunk, is_zero) = take_aligned(far, count, align, must_be_zero)?;
    let Some(entry) = directory::make(chunk) else {
        ROOM.lock().give(chunk..chunk + count, if is_zero { Content::Zero } else { Content::Stale });
        return None;
    };
    let more = chunk + count..chunk.saturating_add(room.max(count));
    let has_room = !more.is_empty() && ROOM.lock().take_at(more, true);
    entry.len.store(count, Ordering::Relaxed);
    entry.room.store(if has_room { room } else { count }, Ordering::Relaxed);
    entry.set_kind(Kind::Long);
    Some((far.addresses(&(chunk..chunk + count)).start, is_zero))
}

/// Takes chunks that begin at a multiple of `align`, and says whether they are zero.
fn take_aligned(far: &Far, count: u32, align: usize, must_be_zero: bool) -> Option<(u32, bool)> {
    // Far memory begins where a chunk may.
    if align <= CHUNK {
        return take(count, must_be_zero);
    }
    let more = count.checked_add(u32::try_from(align / CHUNK).ok()?)?;
    let (first, is_zero) = take(more, must_be_zero)?;
    let start = far.addresses(&(first..first + 1)).start;
    let chunk = far.chunk(start.next_multiple_of(align));
    let content = if is_zero { Content::Zero } else { Content::Stale };
    let mut room = ROOM.lock();
    for rest in [first..chunk, chunk + count..first + more] {
        if !rest.is_empty() {
            room.give(rest, content);
        }
    }
    Some((chunk, is_zero))
}

/// How many bytes a block has.
pub(super) fn bytes_of(entry: &Entry) -> usize {
    entry.len.load(Ordering::Relaxed) as usize * CHUNK
}

/// The addresses that a block that grows should get.
pub(super) fn room_for(bytes: usize) -> u32 {
    let count = u32::try_from(bytes.div_ceil(CHUNK)).unwrap_or(u32::MAX);
    if count < GROWS { count } else { count.saturating_mul(2) }
}

/// Gives a block back.
pub(super) fn give_long(far: &Far, entry: &Entry, address: usize) {
    let chunk = far.chunk(address);
    entry.set_kind(Kind::Free);
    let (len, room) = (entry.len.load(Ordering::Relaxed), entry.room.load(Ordering::Relaxed));
    if room > len {
        ROOM.lock().give(chunk + len..chunk + room, Content::Zero);
    }
    give(far, chunk..chunk + len);
}

/// Makes a block longer or shorter where it is. Returns whether it could.
pub(super) fn resize(far: &Far, entry: &Entry, address: usize, bytes: usize) -> bool {
    let chunk = far.chunk(address);
    let Ok(count) = u32::try_from(bytes.div_ceil(CHUNK)) else { return false };
    let (len, room) = (entry.len.load(Ordering::Relaxed), entry.room.load(Ordering::Relaxed));
    if count < len {
        entry.len.store(count, Ordering::Relaxed);
        entry.room.store(count, Ordering::Relaxed);
        if room > len {
            ROOM.lock().give(chunk + len..chunk + room, Content::Zero);
        }
        give(far, chunk + count..chunk + len);
        return true;
    }
    if count > room {
        let more = chunk + room..chunk.saturating_add(count);
        if !ROOM.lock().take_at(more, true) {
            return false;
        }
        entry.room.store(count, Ordering::Relaxed);
    }
    entry.len.store(count, Ordering::Relaxed);
    true
}
