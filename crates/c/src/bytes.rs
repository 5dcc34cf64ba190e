//! Bytes of a mapping: how they will be used, what is brought here, kept, protected, given up and copied.

use std::ffi::c_void;
use std::ops::Range;

use outboard::{Advice, PageProtection};

use crate::arguments::{choice, duration};
use crate::mapping::{change, gone, outboard_mapping, with};
use crate::status::outboard_status;

/// From `start` so many bytes. What is more than all addresses is outside of any mapping.
fn span(start: usize, length: usize) -> Range<usize> {
    start..start.saturating_add(length)
}

/// Bytes are used as it turns out.
pub const OUTBOARD_ADVICE_NORMAL: u32 = 0;
/// Bytes are used from one end to the other: more is read ahead.
pub const OUTBOARD_ADVICE_SEQUENTIAL: u32 = 1;
/// Bytes are used without order: nothing is read ahead, and pages come one by one.
pub const OUTBOARD_ADVICE_RANDOM: u32 = 2;
/// Bytes are used without order, but what is in a chunk together.
pub const OUTBOARD_ADVICE_WHOLE: u32 = 3;
/// Bytes are used soon: they are fetched in the background.
pub const OUTBOARD_ADVICE_WILL_NEED: u32 = 4;
/// Bytes are used no longer: their place in the buffer is the next to be taken. What was written is not lost.
pub const OUTBOARD_ADVICE_DONT_NEED: u32 = 5;

/// Says how bytes will be used, from now on or until it is said otherwise.
///
/// start, length: which bytes.
/// advice: OUTBOARD_ADVICE_...
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_advise(
    mapping: *mut outboard_mapping,
    start: usize,
    length: usize,
    advice: u32,
) -> outboard_status {
    const ALL: [Advice; 6] = [
        Advice::Normal,
        Advice::Sequential,
        Advice::Random,
        Advice::Whole,
        Advice::WillNeed,
        Advice::DontNeed,
    ];
    body!(|_promise| {
        let advice = choice("advice", advice, &ALL)?;
        with(mapping, |mapping| Ok(mapping.advise(span(start, length), advice)?))
    })
}

/// Some bytes of a mapping.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_span {
    /// Where they begin in it.
    pub start: usize,
    /// How many there are.
    pub length: usize,
}

/// Says that the bytes of these spans will be touched next, in any order. They are fetched in the background, as far as there is
/// room. It returns at once.
///
/// spans, count: which bytes.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_prefetch(
    mapping: *mut outboard_mapping,
    spans: *const outboard_span,
    count: usize,
) -> outboard_status {
    body!(|promise| {
        let spans = promise.items("spans", spans, count)?;
        let spans = spans.iter().map(|given| span(given.start, given.length));
        with(mapping, |mapping| Ok(mapping.prefetch(spans)?))
    })
}

/// Brings bytes here before they are needed, as far as the buffer has room for them, and waits for them.
///
/// start, length: which bytes.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_prefault(
    mapping: *mut outboard_mapping,
    start: usize,
    length: usize,
) -> outboard_status {
    body!(|_promise| with(mapping, |mapping| Ok(mapping.prefault(span(start, length))?)))
}

/// Brings bytes here and keeps them here until outboard_mapping_unpin(), so that system calls and devices can be given them. Half of
/// the buffer may be pinned at most.
///
/// start, length: which bytes.
///
/// Threads: any; it waits for other calls with this mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_pin(
    mapping: *mut outboard_mapping,
    start: usize,
    length: usize,
) -> outboard_status {
    body!(|_promise| {
        change(mapping, |mapping| match mapping {
            Some(mapping) => Ok(mapping.pin(span(start, length))?),
            None => Err(gone()),
        })
    })
}

/// Ends all pins of a mapping.
///
/// Threads: any; it waits for other calls with this mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_unpin(mapping: *mut outboard_mapping) -> outboard_status {
    body!(|_promise| {
        change(mapping, |mapping| {
            mapping.as_mut().ok_or_else(gone)?.unpin();
            Ok(())
        })
    })
}

/// Makes bytes zero that are needed no longer. What of them are whole chunks takes no memory afterwards, here or at the memory
/// server. No other thread may touch them meanwhile.
///
/// start, length: which bytes.
///
/// Threads: any; it waits for other calls with this mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_discard(
    mapping: *mut outboard_mapping,
    start: usize,
    length: usize,
) -> outboard_status {
    body!(|_promise| {
        change(mapping, |mapping| Ok(mapping.as_mut().ok_or_else(gone)?.discard(span(start, length))?))
    })
}

/// Pages may not be touched. Their bytes are kept.
pub const OUTBOARD_PROTECT_NONE: u32 = 0;
/// Pages may be read.
pub const OUTBOARD_PROTECT_READ: u32 = 1;
/// Pages may be read and written.
pub const OUTBOARD_PROTECT_READ_WRITE: u32 = 2;
/// Pages may be read and run as code.
pub const OUTBOARD_PROTECT_READ_EXECUTE: u32 = 3;
/// Pages may be read, written and run as code.
pub const OUTBOARD_PROTECT_READ_WRITE_EXECUTE: u32 = 4;

/// Changes what may be done to the pages that these bytes are in, as mprotect() does.
///
/// start, length: which bytes; start is the first of a page.
/// protection: OUTBOARD_PROTECT_...
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_protect(
    mapping: *mut outboard_mapping,
    start: usize,
    length: usize,
    protection: u32,
) -> outboard_status {
    const ALL: [PageProtection; 5] = [
        PageProtection::None,
        PageProtection::Read,
        PageProtection::ReadWrite,
        PageProtection::ReadExecute,
        PageProtection::ReadWriteExecute,
    ];
    body!(|_promise| {
        let protection = choice("protection", protection, &ALL)?;
        with(mapping, |mapping| Ok(mapping.protect(span(start, length), protection)?))
    })
}

/// Copies bytes out of a mapping, with a status where touching them would raise a signal.
///
/// start: where they begin in the mapping.
/// into, length: where they go, and how many there are.
/// deadline_ms: how long it may take in all to fetch what is not here. With 0 only what is here can be read.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_read(
    mapping: *mut outboard_mapping,
    start: usize,
    into: *mut c_void,
    length: usize,
    deadline_ms: u64,
) -> outboard_status {
    body!(|promise| {
        let into = promise.room("into", into, length)?;
        with(mapping, |mapping| Ok(mapping.try_read(start, into, duration(deadline_ms))?))
    })
}

/// Copies bytes into a mapping, with a status where touching it would raise a signal.
///
/// start: where they begin in the mapping.
/// from, length: the bytes.
/// deadline_ms: as in outboard_mapping_read().
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_write(
    mapping: *mut outboard_mapping,
    start: usize,
    from: *const c_void,
    length: usize,
    deadline_ms: u64,
) -> outboard_status {
    body!(|promise| {
        let from = promise.bytes("from", from, length)?;
        with(mapping, |mapping| {
            // SAFETY: a program in C has no references into the mapping, and divides its bytes among its threads itself.
            Ok(unsafe { mapping.try_write_shared(start, from, duration(deadline_ms)) }?)
        })
    })
}
