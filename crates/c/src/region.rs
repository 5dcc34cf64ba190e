//! Bytes and words of a region, by calls.

use std::ffi::c_void;

use outboard::{FarRegion, Memory};

use crate::arguments::duration;
use crate::handles;
use crate::memory::{outboard_memory, outboard_region};
use crate::status::{Failure, OUTBOARD_BUSY, OUTBOARD_CLOSED, outboard_status};

/// Uses a region and the connection that it is open by.
fn with<R>(
    region: *mut outboard_region,
    work: impl FnOnce(&mut Memory, &FarRegion) -> Result<R, Failure>,
) -> Result<R, Failure> {
    handles::shared(region, |opened| {
        handles::alone(opened.memory as *mut outboard_memory, |memory| work(memory, &opened.region))
    })
}

/// A region's number at its memory server, and its size.
///
/// id, bytes: are given the two; either may be NULL.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_region_size(
    region: *mut outboard_region,
    id: *mut u64,
    bytes: *mut u64,
) -> outboard_status {
    body!(|promise| {
        let (number, size) =
            handles::shared(region, |opened| Ok((opened.region.id(), opened.region.size())))?;
        promise.maybe(id, number);
        promise.maybe(bytes, size);
        Ok(())
    })
}

/// Reads bytes of a region.
///
/// offset: where they begin in it.
/// into, length: where they go, and how many there are.
///
/// Threads: any, one at a time with its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_region_read(
    region: *mut outboard_region,
    offset: u64,
    into: *mut c_void,
    length: usize,
) -> outboard_status {
    body!(|promise| {
        let into = promise.room("into", into, length)?;
        with(region, |memory, region| Ok(memory.read(region, offset, into)?))
    })
}

/// Writes bytes of a region; they are visible there when the call returns.
///
/// offset: where they begin in it.
/// from, length: the bytes.
///
/// Threads: any, one at a time with its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_region_write(
    region: *mut outboard_region,
    offset: u64,
    from: *const c_void,
    length: usize,
) -> outboard_status {
    body!(|promise| {
        let from = promise.bytes("from", from, length)?;
        with(region, |memory, region| Ok(memory.write(region, offset, from)?))
    })
}

/// Adds to a word of a region, as one step for all processes.
///
/// offset: where the word is, a multiple of 8.
/// addend: what is added; wraps around.
/// before: is given what the word held before; may be NULL.
///
/// Threads: any, one at a time with its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_region_fetch_add(
    region: *mut outboard_region,
    offset: u64,
    addend: u64,
    before: *mut u64,
) -> outboard_status {
    body!(|promise| {
        let held = with(region, |memory, region| Ok(memory.fetch_add(region, offset, addend)?))?;
        promise.maybe(before, held);
        Ok(())
    })
}

/// Replaces a word of a region if it holds what is expected, as one step for all processes.
///
/// offset: where the word is, a multiple of 8.
/// expected, replacement: what it has to hold, and what it holds then.
/// before: is given what it held before: it was replaced if that is what was expected. May be NULL.
///
/// Threads: any, one at a time with its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_region_compare_swap(
    region: *mut outboard_region,
    offset: u64,
    expected: u64,
    replacement: u64,
    before: *mut u64,
) -> outboard_status {
    body!(|promise| {
        let held =
            with(region, |memory, region| Ok(memory.compare_swap(region, offset, expected, replacement)?))?;
        promise.maybe(before, held);
        Ok(())
    })
}

/// Has the memory server write a loaded region to its file.
///
/// deadline_ms: how long it may take.
/// bytes: is given how many bytes the file has; may be NULL.
///
/// Threads: any, one at a time with its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_region_sync(
    region: *mut outboard_region,
    deadline_ms: u64,
    bytes: *mut u64,
) -> outboard_status {
    body!(|promise| {
        let synced = with(region, |memory, region| Ok(memory.sync(region, duration(deadline_ms))?))?;
        promise.maybe(bytes, synced);
        Ok(())
    })
}

/// Has the memory server take memory for all of a region now, in large pages where its machine has them.
///
/// large: is given how many bytes lie in those; may be NULL.
///
/// Threads: any, one at a time with its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_region_populate(
    region: *mut outboard_region,
    large: *mut u64,
) -> outboard_status {
    body!(|promise| {
        let bytes = with(region, |memory, region| Ok(memory.populate(region)?))?;
        promise.maybe(large, bytes);
        Ok(())
    })
}

/// Gives a region back to the memory server with all that is in it, and ends the handle if that is done.
///
/// Threads: any, one at a time with its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_region_free(region: *mut outboard_region) -> outboard_status {
    body!(|_promise| {
        handles::close_after(region, |opened| {
            let memory = opened.memory as *mut outboard_memory;
            handles::alone(memory, |memory| Ok(memory.free(opened.region.clone())?))
        })?;
        Ok(())
    })
}

/// Gives up a region, and ends the handle. It stays at the memory server if it has a name or a file; if not, it is freed.
///
/// Threads: any, one at a time with its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_region_close(region: *mut outboard_region) -> outboard_status {
    body!(|_promise| {
        let mut released = Ok(());
        handles::close_after(region, |opened| {
            let memory = opened.memory as *mut outboard_memory;
            let done = handles::alone(memory, |memory| Ok(memory.release(opened.region.clone())?));
            match done {
                Err(failure) if failure.status == OUTBOARD_BUSY => return Err(failure),
                // With its connection it has been given up already.
                Err(failure) if failure.status == OUTBOARD_CLOSED => {}
                done => released = done,
            }
            Ok(())
        })?;
        released
    })
}
