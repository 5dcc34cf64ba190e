//! Regions of a memory server, by calls.

use std::ffi::{CString, c_char, c_void};

use outboard::{FarRegion, Memory, RegionSharing, Rights};

use crate::arguments::{duration, flags, size};
use crate::daemons::outboard_t;
use crate::handles::{self, Handle};
use crate::status::{Failure, outboard_status};
use crate::structures::sized;

/// A connection to a memory server, for its regions.
pub struct outboard_memory;

impl Handle for outboard_memory {
    type Object = Memory;
    const NAME: &'static str = "outboard_memory";
}

/// A region that this process has opened.
pub struct outboard_region;

/// A region, and the connection by which it is open.
pub(crate) struct OpenedRegion {
    pub(crate) memory: usize,
    pub(crate) region: FarRegion,
}

impl Handle for outboard_region {
    type Object = OpenedRegion;
    const NAME: &'static str = "outboard_region";
}

/// Bytes may be read.
pub const OUTBOARD_READ: u32 = 1;
/// Bytes may be written, and words changed by outboard_region_fetch_add() and outboard_region_compare_swap().
pub const OUTBOARD_WRITE: u32 = 2;
/// Functions that this process calls may use the region.
pub const OUTBOARD_CALL: u32 = 4;

/// Many processes have the region together, and all may write it. Needs a name.
pub const OUTBOARD_REGION_SHARED: u32 = 1;
/// The memory server counts and keeps only what is written through far memory.
pub const OUTBOARD_REGION_SPARSE: u32 = 2;

/// How a region is reserved. All zero: the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_region_options {
    /// sizeof(outboard_region_options)
    pub size: usize,
    /// A name under which the region outlives this process and others can open it. NULL: it ends with this process.
    pub name: *const c_char,
    /// The unit in which far memory would move it: a power of two from 4 KiB to 2 MiB. 0: 64 KiB.
    pub chunk: u64,
    /// OUTBOARD_REGION_..., added up.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// A region as outboard_memory_list() tells of it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_region_entry {
    /// Its number at the memory server.
    pub id: u64,
    /// Its name, or NULL. It stays as long as the handler runs.
    pub name: *const c_char,
    /// Its size in bytes.
    pub bytes: u64,
    /// The number of the process that reserved it, or 0 if that has gone.
    pub owner: u32,
}

/// Is told of a region. It must not throw, nor leave by longjmp().
pub type outboard_region_handler =
    Option<unsafe extern "C" fn(context: *mut c_void, entry: *const outboard_region_entry)>;

sized!(outboard_region_options);

/// The usual unit of movement, as a power of two.
const CHUNK_LOG2: u8 = 16;

fn chunk_log2(bytes: u64) -> Result<u8, Failure> {
    match size("outboard_region_options.chunk", bytes)? {
        None => Ok(CHUNK_LOG2),
        Some(chunk) if chunk.is_power_of_two() => Ok(chunk.ilog2() as u8),
        Some(chunk) => {
            Err(Failure::invalid(format!("outboard_region_options.chunk is {chunk}, and no power of two")))
        }
    }
}

pub(crate) fn rights(name: &str, given: u32) -> Result<Rights, Failure> {
    let known = flags(name, given, OUTBOARD_READ | OUTBOARD_WRITE | OUTBOARD_CALL)?;
    let all = [(OUTBOARD_READ, Rights::READ), (OUTBOARD_WRITE, Rights::WRITE), (OUTBOARD_CALL, Rights::CALL)];
    let chosen = all.into_iter().filter(|(flag, _)| known & flag != 0);
    Ok(chosen.fold(Rights::NONE, |rights, (_, right)| rights.and(right)))
}

fn open(memory: *mut outboard_memory, region: FarRegion) -> Result<*mut outboard_region, Failure> {
    handles::open(OpenedRegion { memory: memory as usize, region })
}

/// Connects to the memory server, to reserve, open, read, write and update its regions.
///
/// memory: is given the handle; outboard_memory_close() ends it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_memory_connect(
    outboard: *mut outboard_t,
    memory: *mut *mut outboard_memory,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("memory", memory)?;
        out.put(handles::open(handles::shared(outboard, |outboard| Ok(outboard.memory()?))?)?);
        Ok(())
    })
}

/// Reserves bytes at the memory server, all zero.
///
/// bytes: how many.
/// options: NULL for the defaults.
/// region: is given the handle; outboard_region_close() or outboard_region_free() ends it.
///
/// Threads: any, one at a time with this memory and its regions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_memory_reserve(
    memory: *mut outboard_memory,
    bytes: u64,
    options: *const outboard_region_options,
    region: *mut *mut outboard_region,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("region", region)?;
        let given = promise.options(options)?;
        let name = promise.optional_text("outboard_region_options.name", given.name)?;
        let chunk_log2 = chunk_log2(given.chunk)?;
        flags("outboard_region_options.reserved", given.reserved, 0)?;
        let known = OUTBOARD_REGION_SHARED | OUTBOARD_REGION_SPARSE;
        let chosen = flags("outboard_region_options.flags", given.flags, known)?;
        if chosen & OUTBOARD_REGION_SHARED != 0 && name.is_none() {
            return Err(Failure::invalid("a shared region needs a name, by which others open it"));
        }
        if chosen == known {
            return Err(Failure::invalid("a region is shared or sparse, not both"));
        }
        let sharing = match chosen & OUTBOARD_REGION_SHARED {
            0 => RegionSharing::Leased,
            _ => RegionSharing::Together,
        };
        let reserved = handles::alone(memory, |memory| {
            Ok(match chosen & OUTBOARD_REGION_SPARSE {
                0 => memory.reserve_chunks(bytes, chunk_log2, name, sharing)?,
                _ => memory.reserve_sparse(bytes, chunk_log2, name)?,
            })
        })?;
        out.put(open(memory, reserved)?);
        Ok(())
    })
}

/// Opens a region that has a name: as its only writer if the rights include OUTBOARD_WRITE, else as one of its readers. With
/// OUTBOARD_REGION_SHARED together with all others who open it so.
///
/// name: the region's.
/// rights: OUTBOARD_READ, OUTBOARD_WRITE and OUTBOARD_CALL, added up.
/// flags: 0 or OUTBOARD_REGION_SHARED.
/// region: is given the handle; outboard_region_close() or outboard_region_free() ends it.
///
/// Threads: any, one at a time with this memory and its regions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_memory_open(
    memory: *mut outboard_memory,
    name: *const c_char,
    rights: u32,
    flags: u32,
    region: *mut *mut outboard_region,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("region", region)?;
        let name = promise.text("name", name)?;
        let rights = self::rights("rights", rights)?;
        let is_shared = crate::arguments::flags("flags", flags, OUTBOARD_REGION_SHARED)? != 0;
        let opened = handles::alone(memory, |memory| {
            Ok(match is_shared {
                true => memory.open_shared(name, rights)?,
                false => memory.open(name, rights)?,
            })
        })?;
        out.put(open(memory, opened)?);
        Ok(())
    })
}

/// Opens a file below the memory server's data directory, which loads it unless it has already.
///
/// path: the file's, below that directory.
/// rights: as in outboard_memory_open().
/// deadline_ms: how long loading may take.
/// region: is given the handle; outboard_region_close() or outboard_region_free() ends it.
///
/// Threads: any, one at a time with this memory and its regions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_memory_load(
    memory: *mut outboard_memory,
    path: *const c_char,
    rights: u32,
    deadline_ms: u64,
    region: *mut *mut outboard_region,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("region", region)?;
        let path = promise.text("path", path)?;
        let rights = self::rights("rights", rights)?;
        let loaded =
            handles::alone(memory, |memory| Ok(memory.load(path, rights, duration(deadline_ms))?))?;
        out.put(open(memory, loaded)?);
        Ok(())
    })
}

/// Tells of all regions of the memory server, one after the other.
///
/// handler: is called for each, in this thread.
/// context: is given to the handler.
///
/// Threads: any, one at a time with this memory and its regions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_memory_list(
    memory: *mut outboard_memory,
    handler: outboard_region_handler,
    context: *mut c_void,
) -> outboard_status {
    body!(|_promise| {
        let handler = handler.ok_or_else(|| Failure::invalid("handler is NULL"))?;
        for listed in handles::alone(memory, |memory| Ok(memory.list()?))? {
            let name = listed.name.map(|name| CString::new(name).unwrap_or_default());
            let name_or_null = name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
            let (id, bytes, owner) = (listed.id, listed.size, listed.owner.unwrap_or(0));
            let entry = outboard_region_entry { id, name: name_or_null, bytes, owner };
            // SAFETY: a function of the program, called as its type says.
            unsafe { handler(context, &raw const entry) };
        }
        Ok(())
    })
}

/// Ends a connection. Its regions can only be closed then.
///
/// Threads: any, but not while another is in a call with this handle or its regions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_memory_close(memory: *mut outboard_memory) -> outboard_status {
    body!(|_promise| {
        handles::close(memory)?.close("done");
        Ok(())
    })
}
