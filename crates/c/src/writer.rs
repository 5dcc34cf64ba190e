//! Remote writes that choose their path.

use std::ffi::{c_char, c_void};

use outboard::{Hint, WriteId, WriteOptions, WritePath, WriteTarget, Writer, WriterOptions};

use crate::arguments::{choice, duration, flags, size};
use crate::daemons::outboard_t;
use crate::handles::{self, Handle};
use crate::memory::outboard_region;
use crate::status::{Failure, OUTBOARD_NOT_THERE, OUTBOARD_NOTHING, OUTBOARD_OK, outboard_status, remember};
use crate::structures::sized;

/// Writes to regions of a memory server, each by the path that is expected to be faster.
pub struct outboard_writer;

/// A writer, and what it has open, by number.
pub(crate) struct Writes {
    writer: Writer,
    targets: Vec<Option<WriteTarget>>,
}

impl Handle for outboard_writer {
    type Object = Writes;
    const NAME: &'static str = "outboard_writer";
}

/// The number of a region that a writer has open.
pub type outboard_target = u32;

/// Each write is decided by itself.
pub const OUTBOARD_WRITE_AUTO: u32 = 0;
/// Straight into the memory server's memory.
pub const OUTBOARD_WRITE_OFFLOAD: u32 = 1;
/// Into a ring at the memory server, from which a processor there copies it home.
pub const OUTBOARD_WRITE_UNLOAD: u32 = 2;

/// Nothing is known of the page.
pub const OUTBOARD_HINT_NONE: u32 = 0;
/// The page is written again and again.
pub const OUTBOARD_HINT_HOT: u32 = 1;
/// The page is hardly ever written.
pub const OUTBOARD_HINT_COLD: u32 = 2;
/// The write is one of many that go through memory in order.
pub const OUTBOARD_HINT_STREAMING: u32 = 3;

/// Unloaded writes go through the agent, if there is one.
pub const OUTBOARD_WRITER_BY_AGENT: u32 = 1;
/// outboard_writer_wait() tells the end of the write also if it is a good one.
pub const OUTBOARD_WRITE_SIGNAL: u32 = 1;

/// How a writer works. All zero: the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_writer_options {
    /// sizeof(outboard_writer_options)
    pub size: usize,
    /// The path of all writes: OUTBOARD_WRITE_AUTO, OUTBOARD_WRITE_OFFLOAD or OUTBOARD_WRITE_UNLOAD.
    pub path: u32,
    /// 0 or OUTBOARD_WRITER_BY_AGENT.
    pub flags: u32,
    /// Bytes that may be unloaded and not settled; half of it bounds the longest write. 0: 256 KiB.
    pub ring_bytes: u64,
    /// Writes that may be under way by each path. 0: 512.
    pub under_way_max: u64,
}

/// How one write is done. All zero: the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_write_options {
    /// sizeof(outboard_write_options)
    pub size: usize,
    /// What is known of its page: OUTBOARD_HINT_...
    pub hint: u32,
    /// Its path: OUTBOARD_WRITE_AUTO, OUTBOARD_WRITE_OFFLOAD or OUTBOARD_WRITE_UNLOAD.
    pub path: u32,
    /// 0 or OUTBOARD_WRITE_SIGNAL.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// A part of a write of several parts.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_write_part {
    /// Where it begins in the region.
    pub offset: u64,
    /// Its bytes.
    pub bytes: *const c_void,
    /// How many there are.
    pub length: usize,
}

/// A write that has ended.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_write_end {
    /// sizeof(outboard_write_end), set before the call
    pub size: usize,
    /// Which write it was.
    pub id: u64,
    /// OUTBOARD_OK if it is visible, or why not, of which outboard_last_error() has the text.
    pub status: outboard_status,
    /// By which path it went: OUTBOARD_WRITE_OFFLOAD or OUTBOARD_WRITE_UNLOAD.
    pub path: u32,
}

sized!(outboard_writer_options, outboard_write_options, outboard_write_end);

const PATHS: [Option<WritePath>; 3] = [None, Some(WritePath::Offload), Some(WritePath::Unload)];

fn target(writes: &Writes, number: outboard_target) -> Result<WriteTarget, Failure> {
    let known = writes.targets.get(number as usize).copied().flatten();
    known.ok_or_else(|| Failure::new(OUTBOARD_NOT_THERE, format!("the writer has no open target {number}")))
}

/// Connects to the memory server for writes.
///
/// options: NULL for the defaults.
/// writer: is given the handle; outboard_writer_close() ends it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_writer_connect(
    outboard: *mut outboard_t,
    options: *const outboard_writer_options,
    writer: *mut *mut outboard_writer,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("writer", writer)?;
        let given = promise.options(options)?;
        let usual = WriterOptions::default();
        let by_agent = flags("outboard_writer_options.flags", given.flags, OUTBOARD_WRITER_BY_AGENT)? != 0;
        let under_way_max = size("outboard_writer_options.under_way_max", given.under_way_max)?;
        if under_way_max.is_some_and(|most| most > 1024) {
            return Err(Failure::invalid(
                "outboard_writer_options.under_way_max is over 1024, which is the most",
            ));
        }
        let options = WriterOptions {
            path: choice("outboard_writer_options.path", given.path, &PATHS)?,
            ring_bytes: size("outboard_writer_options.ring_bytes", given.ring_bytes)?
                .unwrap_or(usual.ring_bytes),
            under_way_max: under_way_max.unwrap_or(usual.under_way_max),
            by_agent,
        };
        let writer = handles::shared(outboard, |outboard| Ok(outboard.writer_with(options)?))?;
        out.put(handles::open(Writes { writer, targets: Vec::new() })?);
        Ok(())
    })
}

/// Opens a region for writing.
///
/// region: the region, which stays open for itself.
/// target: is given its number here.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_writer_open(
    writer: *mut outboard_writer,
    region: *mut outboard_region,
    target: *mut outboard_target,
) -> outboard_status {
    body!(|promise| {
        let out = promise.out("target", target)?;
        let number = handles::shared(region, |opened| {
            handles::alone(writer, |writes| {
                let target = writes.writer.open(&opened.region)?;
                writes.targets.push(Some(target));
                Ok(writes.targets.len() as u32 - 1)
            })
        })?;
        out.put(number);
        Ok(())
    })
}

/// Gives a target back when all writes have ended.
///
/// target: its number, which means nothing then.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_writer_close_target(
    writer: *mut outboard_writer,
    target: outboard_target,
) -> outboard_status {
    body!(|_promise| {
        handles::alone(writer, |writes| {
            let open = self::target(writes, target)?;
            writes.writer.close_region(open)?;
            writes.targets[target as usize] = None;
            Ok(())
        })
    })
}

/// Begins a write; waits if others have to end first. Its bytes can be changed when the call returns, and it goes on while any call
/// of this writer is made. If it fails outboard_writer_wait() and outboard_writer_flush() tell.
///
/// target, offset: where it goes.
/// bytes, length: what is written.
/// options: NULL for the defaults.
/// id: is given the number of the write; may be NULL.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_writer_write(
    writer: *mut outboard_writer,
    target: outboard_target,
    offset: u64,
    bytes: *const c_void,
    length: usize,
    options: *const outboard_write_options,
    id: *mut u64,
) -> outboard_status {
    const HINTS: [Hint; 4] = [Hint::None, Hint::Hot, Hint::Cold, Hint::Streaming];
    body!(|promise| {
        let bytes = promise.bytes("bytes", bytes, length)?;
        let given = promise.options(options)?;
        flags("outboard_write_options.reserved", given.reserved, 0)?;
        let options = WriteOptions {
            hint: choice("outboard_write_options.hint", given.hint, &HINTS)?,
            path: choice("outboard_write_options.path", given.path, &PATHS)?,
            signal: flags("outboard_write_options.flags", given.flags, OUTBOARD_WRITE_SIGNAL)? != 0,
        };
        let WriteId(number) = handles::alone(writer, |writes| {
            let target = self::target(writes, target)?;
            Ok(writes.writer.write_with(target, offset, bytes, options)?)
        })?;
        promise.maybe(id, number);
        Ok(())
    })
}

/// Begins several writes in order, of which outboard_writer_wait() tells once when all have ended, or how the first that failed
/// did. All are checked before the first begins.
///
/// target: where they go.
/// parts, count: the writes.
/// id: is given the number of the write; may be NULL.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_writer_write_parts(
    writer: *mut outboard_writer,
    target: outboard_target,
    parts: *const outboard_write_part,
    count: usize,
    id: *mut u64,
) -> outboard_status {
    body!(|promise| {
        let parts = promise.items("parts", parts, count)?;
        let bytes = |part: &outboard_write_part| {
            Ok((part.offset, promise.bytes("outboard_write_part.bytes", part.bytes, part.length)?))
        };
        let parts = parts.iter().map(bytes).collect::<Result<Vec<_>, Failure>>()?;
        let WriteId(number) = handles::alone(writer, |writes| {
            let target = self::target(writes, target)?;
            Ok(writes.writer.write_vectored(target, &parts)?)
        })?;
        promise.maybe(id, number);
        Ok(())
    })
}

/// Orders everything: writes from now on begin when all before have ended.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_writer_fence(writer: *mut outboard_writer) -> outboard_status {
    body!(|_promise| {
        handles::alone(writer, |writes| {
            writes.writer.fence();
            Ok(())
        })
    })
}

/// Waits until every write has ended: all that were begun since the latest flush are visible then, or it fails as the first of them
/// did.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_writer_flush(writer: *mut outboard_writer) -> outboard_status {
    body!(|_promise| handles::alone(writer, |writes| Ok(writes.writer.flush()?)))
}

/// Waits for the next write that ends and is to be told of. OUTBOARD_NOTHING if the deadline has passed, or if none is under way.
/// Otherwise outboard_write_end.status says how the write has ended.
///
/// deadline_ms: how long to wait; 0 only looks.
/// end: is filled as far as its size says.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_writer_wait(
    writer: *mut outboard_writer,
    deadline_ms: u64,
    end: *mut outboard_write_end,
) -> outboard_status {
    body!(|promise| {
        promise.out("end", end)?;
        // An end is told once, so there has to be a place for it before it is asked for.
        promise.options(end)?;
        let ended = handles::alone(writer, |writes| {
            Ok(match deadline_ms {
                0 => writes.writer.poll(),
                _ => writes.writer.wait(duration(deadline_ms)),
            })
        })?;
        let Some(ended) = ended else {
            return Err(Failure::new(OUTBOARD_NOTHING, "no write has ended within the deadline"));
        };
        let path = match ended.path {
            WritePath::Offload => OUTBOARD_WRITE_OFFLOAD,
            WritePath::Unload => OUTBOARD_WRITE_UNLOAD,
        };
        let status = ended.result.map_or_else(|error| remember(error.into()), |()| OUTBOARD_OK);
        promise.fill(end, &outboard_write_end { size: 0, id: ended.id.0, status, path })
    })
}

/// The longest write that one can have, in bytes.
///
/// bytes: is given how many.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_writer_longest(
    writer: *mut outboard_writer,
    bytes: *mut usize,
) -> outboard_status {
    body!(|promise| {
        let out = promise.out("bytes", bytes)?;
        out.put(0);
        out.put(handles::alone(writer, |writes| Ok(writes.writer.longest()))?);
        Ok(())
    })
}

/// Says how paths are chosen at present and why, in lines for people.
///
/// text, room, length: as in outboard_explain().
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_writer_explain(
    writer: *mut outboard_writer,
    text: *mut c_char,
    room: usize,
    length: *mut usize,
) -> outboard_status {
    body!(|promise| {
        let lines = handles::alone(writer, |writes| Ok(writes.writer.explain()))?;
        promise.give_text(&lines, (text, room), length)
    })
}

/// Ends a writer. Flush it before, to know that all is written.
///
/// Threads: any, but not while another is in a call with this handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_writer_close(writer: *mut outboard_writer) -> outboard_status {
    body!(|_promise| {
        drop(handles::close(writer)?);
        Ok(())
    })
}
