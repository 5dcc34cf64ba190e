//! Regions of far memory at addresses of this process.

use std::ffi::{c_char, c_void};
use std::sync::{PoisonError, RwLock};

use outboard::{CacheMode, FarMapping, Path, RegionOptions};

use crate::arguments::{Promise, choice, deadline, duration, flags, size};
use crate::far::outboard_far;
use crate::handles::{self, Handle};
use crate::status::{Failure, OUTBOARD_CLOSED, outboard_status};
use crate::structures::sized;

/// A region of far memory at an address of this process.
pub struct outboard_mapping;

/// Calls that change what is pinned or where it lies wait for others with the same mapping, and nothing else does. It is gone when
/// it could not be frozen.
pub(crate) type Mapping = RwLock<Option<FarMapping>>;

impl Handle for outboard_mapping {
    type Object = Mapping;
    const NAME: &'static str = "outboard_mapping";
}

/// Bytes go by whichever way is measured to be faster.
pub const OUTBOARD_PATH_AUTO: u32 = 0;
/// Bytes go between this process and the memory server.
pub const OUTBOARD_PATH_DIRECT: u32 = 1;
/// Bytes go by the agent while it is there.
pub const OUTBOARD_PATH_AGENT: u32 = 2;

/// The agent keeps what pays.
pub const OUTBOARD_CACHE_AUTO: u32 = 0;
/// The agent keeps nothing.
pub const OUTBOARD_CACHE_OFF: u32 = 1;
/// The agent keeps the whole region.
pub const OUTBOARD_CACHE_STATIC: u32 = 2;
/// The agent keeps what was fetched lately, and what is expected next.
pub const OUTBOARD_CACHE_DYNAMIC: u32 = 3;

/// The memory server sets room aside for all of it from the start.
pub const OUTBOARD_MAPPING_GUARANTEED: u32 = 1;
/// It may be written; for outboard_mapping_open() and outboard_mapping_open_file().
pub const OUTBOARD_MAPPING_WRITABLE: u32 = 2;

/// How a mapping is made. All zero: the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_mapping_options {
    /// sizeof(outboard_mapping_options)
    pub size: usize,
    /// A name under which a reserved region outlives this process and others can open it. NULL: it ends with the mapping.
    pub name: *const c_char,
    /// The unit in which it moves: a power of two from a page to 2 MiB. 0: 64 KiB.
    pub chunk: u64,
    /// OUTBOARD_PATH_...
    pub path: u32,
    /// OUTBOARD_CACHE_...
    pub cache: u32,
    /// OUTBOARD_MAPPING_..., added up.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// How long the server may take to load a file. 0: a minute.
    pub load_deadline_ms: u64,
}

sized!(outboard_mapping_options);

fn region_options(promise: Promise, given: &outboard_mapping_options) -> Result<RegionOptions, Failure> {
    let usual = RegionOptions::default();
    flags("outboard_mapping_options.reserved", given.reserved, 0)?;
    let paths = [Path::Auto, Path::Direct, Path::Agent];
    let caches = [CacheMode::Auto, CacheMode::Off, CacheMode::Static, CacheMode::Dynamic];
    Ok(RegionOptions {
        chunk: size("outboard_mapping_options.chunk", given.chunk)?.unwrap_or(usual.chunk),
        path: choice("outboard_mapping_options.path", given.path, &paths)?,
        cache: choice("outboard_mapping_options.cache", given.cache, &caches)?,
        name: promise.optional_text("outboard_mapping_options.name", given.name)?.map(str::to_owned),
        is_guaranteed: given.flags & OUTBOARD_MAPPING_GUARANTEED != 0,
        deadline: deadline(given.load_deadline_ms).unwrap_or(usual.deadline),
    })
}

fn open(mapping: FarMapping) -> Result<*mut outboard_mapping, Failure> {
    handles::open(RwLock::new(Some(mapping)))
}

pub(crate) fn gone() -> Failure {
    Failure::new(OUTBOARD_CLOSED, "the mapping could not be frozen, and is gone: close it")
}

/// Uses a mapping beside other calls.
pub(crate) fn with<R>(
    mapping: *mut outboard_mapping,
    work: impl FnOnce(&FarMapping) -> Result<R, Failure>,
) -> Result<R, Failure> {
    handles::shared(mapping, |mapping| {
        let mapping = mapping.read().unwrap_or_else(PoisonError::into_inner);
        work(mapping.as_ref().ok_or_else(gone)?)
    })
}

/// Uses a mapping when no other call does.
pub(crate) fn change<R>(
    mapping: *mut outboard_mapping,
    work: impl FnOnce(&mut Option<FarMapping>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    handles::shared(mapping, |mapping| {
        let mut mapping = mapping.write().unwrap_or_else(PoisonError::into_inner);
        if mapping.is_none() { Err(gone()) } else { work(&mut mapping) }
    })
}

/// Reserves bytes of far memory, all zero, at an address of this process. What was never written takes memory nowhere.
///
/// bytes: how many.
/// options: NULL for the defaults.
/// mapping: is given the handle; outboard_mapping_close() ends it.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_reserve(
    far: *mut outboard_far,
    bytes: u64,
    options: *const outboard_mapping_options,
    mapping: *mut *mut outboard_mapping,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("mapping", mapping)?;
        let given = promise.options(options)?;
        let options = region_options(promise, &given)?;
        let known = OUTBOARD_MAPPING_GUARANTEED | OUTBOARD_MAPPING_WRITABLE;
        flags("outboard_mapping_options.flags", given.flags, known)?;
        size("bytes", bytes)?.ok_or_else(|| Failure::invalid("bytes is 0: a mapping has at least one"))?;
        out.put(open(handles::shared(far, |far| Ok(far.reserve(bytes, &options)?))?)?);
        Ok(())
    })
}

/// Opens a region that has a name: to read it together with other readers, or with OUTBOARD_MAPPING_WRITABLE as its only writer.
///
/// name: the region's.
/// options: NULL for the defaults. Its name is not looked at.
/// mapping: is given the handle; outboard_mapping_close() ends it.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_open(
    far: *mut outboard_far,
    name: *const c_char,
    options: *const outboard_mapping_options,
    mapping: *mut *mut outboard_mapping,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("mapping", mapping)?;
        let name = promise.text("name", name)?;
        let given = promise.options(options)?;
        let options = region_options(promise, &given)?;
        let is_writable =
            flags("outboard_mapping_options.flags", given.flags, OUTBOARD_MAPPING_WRITABLE)? != 0;
        let opened = handles::shared(far, |far| {
            Ok(match is_writable {
                true => far.open_writable::<u8>(name, &options)?.into_mapping(),
                false => far.open::<u8>(name, &options)?.into_mapping(),
            })
        })?;
        out.put(open(opened)?);
        Ok(())
    })
}

/// Opens a file below the memory server's data directory, which loads it unless it has already: to read it together with other
/// readers, or with OUTBOARD_MAPPING_WRITABLE as its only writer. outboard_mapping_sync() brings what was written to the file.
///
/// path: the file's, below that directory.
/// options: NULL for the defaults. Its name is not looked at.
/// mapping: is given the handle; outboard_mapping_close() ends it.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_open_file(
    far: *mut outboard_far,
    path: *const c_char,
    options: *const outboard_mapping_options,
    mapping: *mut *mut outboard_mapping,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("mapping", mapping)?;
        let path = promise.text("path", path)?;
        let given = promise.options(options)?;
        let options = region_options(promise, &given)?;
        let is_writable =
            flags("outboard_mapping_options.flags", given.flags, OUTBOARD_MAPPING_WRITABLE)? != 0;
        let opened = handles::shared(far, |far| {
            Ok(match is_writable {
                true => far.open_file_writable::<u8>(path, &options)?.into_mapping(),
                false => far.open_file::<u8>(path, &options)?.into_mapping(),
            })
        })?;
        out.put(open(opened)?);
        Ok(())
    })
}

/// Where a mapping begins, and how long it is. Touching it may wait for the memory server; if that is lost for good it raises SIGBUS,
/// or the process ends. A store to a mapping that may only be read raises SIGSEGV.
///
/// address, bytes: are given the two; either may be NULL.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_address(
    mapping: *mut outboard_mapping,
    address: *mut *mut c_void,
    bytes: *mut usize,
) -> outboard_status {
    body!(|promise| {
        promise.maybe(address, std::ptr::null_mut());
        let (start, len) = with(mapping, |mapping| Ok((mapping.as_ptr(), mapping.len())))?;
        promise.maybe(address, start.as_ptr().cast());
        promise.maybe(bytes, len);
        Ok(())
    })
}

/// Waits until the memory server has all that was written to a mapping before the call.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_flush(mapping: *mut outboard_mapping) -> outboard_status {
    body!(|_promise| with(mapping, |mapping| Ok(mapping.flush()?)))
}

/// Flushes, and has the memory server write a mapping to the file that it was opened from.
///
/// deadline_ms: how long the server may take.
/// bytes: is given how many bytes the file has; may be NULL.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_sync(
    mapping: *mut outboard_mapping,
    deadline_ms: u64,
    bytes: *mut u64,
) -> outboard_status {
    body!(|promise| {
        let synced = with(mapping, |mapping| Ok(mapping.sync(duration(deadline_ms))?))?;
        promise.maybe(bytes, synced);
        Ok(())
    })
}

/// Flushes a mapping and makes it read-only from now on, which makes faults cheaper. It lies at another address afterwards. After a
/// failure it can only be closed.
///
/// address: is given the new address; may be NULL.
///
/// Threads: any; it waits for other calls with this mapping. No thread may touch it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_freeze(
    mapping: *mut outboard_mapping,
    address: *mut *mut c_void,
) -> outboard_status {
    body!(|promise| {
        promise.maybe(address, std::ptr::null_mut());
        let start = change(mapping, |mapping| {
            let frozen = mapping.take().ok_or_else(gone)?.freeze()?;
            Ok(mapping.insert(frozen).as_ptr())
        })?;
        promise.maybe(address, start.as_ptr().cast());
        Ok(())
    })
}

/// Says what was chosen for a mapping and why, in lines for people.
///
/// text, room, length: as in outboard_explain().
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_explain(
    mapping: *mut outboard_mapping,
    text: *mut c_char,
    room: usize,
    length: *mut usize,
) -> outboard_status {
    body!(|promise| {
        let lines = with(mapping, |mapping| Ok(mapping.explain()))?;
        promise.give_text(&lines, (text, room), length)
    })
}

/// Gives a mapping's region back to the memory server with all that is in it, whether it has a name or not, and ends the handle.
///
/// Threads: any, but not while another is in a call with this handle. No thread may touch the mapping any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_free(mapping: *mut outboard_mapping) -> outboard_status {
    body!(|_promise| {
        let mapping = handles::close(mapping)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        mapping.map_or(Ok(()), |mapping| Ok(mapping.free()?))
    })
}

/// Ends a mapping. What it holds is given up if it has no name, and written back if it has; flush it before, to know that it was.
///
/// Threads: any, but not while another is in a call with this handle. No thread may touch the mapping any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_mapping_close(mapping: *mut outboard_mapping) -> outboard_status {
    body!(|_promise| {
        drop(handles::close(mapping)?);
        Ok(())
    })
}
