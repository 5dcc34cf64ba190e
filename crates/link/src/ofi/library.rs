//! libfabric, loaded when it is first needed.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use rustix::io::Errno;
use thiserror::Error;

use super::sys::{Fabric, FabricAttr, Info};

/// The names that the dynamic linker looks for.
const FILE: &CStr = c"libfabric.so.1";

/// Variables that keep the library from acting behind the back of the process that loads it.
const PRECAUTIONS: &[(&str, &str)] = &[
    // It would watch our memory with a userfaultfd of its own to find out when registered pages are unmapped. Pages
    // that two of them watch cannot be moved, and nothing is unmapped here while it is registered.
    ("FI_MR_CACHE_MONITOR", "disabled"),
    // Every endpoint here has one peer. Queues for the 256 that are usual are more than some cards have.
    ("FI_UNIVERSE_SIZE", "2"),
    // Every endpoint makes this many buffers of 16 KiB at once, and 2048 by default: 50 MiB for each link.
    // There are never more messages on their way to one than half of these.
    ("FI_OFI_RXM_MSG_RX_SIZE", "128"),
    // Libraries that it brings along would take over the signals of memory that is not there, and write a file.
    ("IPATH_NO_BACKTRACE", "1"),
    ("HFI_NO_BACKTRACE", "1"),
];

type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;

/// The few functions that libfabric exports and that are used here. Everything else is reached through tables.
pub(crate) struct Library {
    pub(super) getinfo: GetInfo,
    pub(super) freeinfo: unsafe extern "C" fn(*mut Info),
    pub(super) dupinfo: unsafe extern "C" fn(*const Info) -> *mut Info,
    pub(super) fabric: unsafe extern "C" fn(*mut FabricAttr, *mut *mut Fabric, *mut c_void) -> c_int,
    version: unsafe extern "C" fn() -> u32,
}

/// Why libfabric cannot be used.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It is not there, or something that it needs is not.
    #[error("libfabric cannot be loaded: {reason}; install it: sudo apt install libfabric1")]
    Missing {
        /// In the words of the dynamic linker.
        reason: String,
    },
    /// It is there and lacks a function.
    #[error("libfabric has no {name} of interface {version}: it is too old, 1.7 or later is needed")]
    TooOld {
        /// Which one.
        name: &'static str,
        /// Of which interface.
        version: &'static str,
    },
}

/// Something that libfabric refused.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("{call} failed: {source}")]
pub struct FabricFault {
    /// Which call.
    pub call: &'static str,
    /// Why.
    pub source: Errno,
}

outboard_wire::debug_with_causes!(LoadError, FabricFault);

impl FabricFault {
    /// The meaning of a call's result. libfabric has negative numbers for errors.
    #[inline]
    pub(super) fn check(call: &'static str, result: c_int) -> Result<(), Self> {
        if result >= 0 { Ok(()) } else { Err(Self::of(call, result as isize)) }
    }

    #[cold]
    pub(super) fn of(call: &'static str, result: isize) -> Self {
        let number = i32::try_from(result.unsigned_abs()).ok().filter(|number| (1..4096).contains(number));
        Self { call, source: number.map_or(Errno::IO, Errno::from_raw_os_error) }
    }
}

impl Library {
    /// The library, loaded at the first call. What it said then it says always.
    pub(crate) fn get() -> Result<&'static Self, LoadError> {
        static LIBRARY: OnceLock<Result<Library, LoadError>> = OnceLock::new();
        LIBRARY.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, LoadError> {
        for (variable, value) in PRECAUTIONS {
            if std::env::var_os(variable).is_none() {
                // SAFETY: Rust code reads the environment under the lock that this takes. C code that reads it at this
                // very moment in another thread would be unsafe; a program with such code sets the variables itself.
                unsafe { std::env::set_var(variable, value) };
            }
        }
        // SAFETY: a library with no demands on those who load it. It is never unloaded.
        let handle = unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(LoadError::Missing { reason: linker_error() });
        }
        // SAFETY: each type is that of the function of this name and version in the library's headers.
        unsafe {
            Ok(Self {
                getinfo: find(handle, (c"fi_getinfo", "fi_getinfo"), (c"FABRIC_1.3", "1.3"))?,
                freeinfo: find(handle, (c"fi_freeinfo", "fi_freeinfo"), (c"FABRIC_1.3", "1.3"))?,
                dupinfo: find(handle, (c"fi_dupinfo", "fi_dupinfo"), (c"FABRIC_1.3", "1.3"))?,
                fabric: find(handle, (c"fi_fabric", "fi_fabric"), (c"FABRIC_1.1", "1.1"))?,
                version: find(handle, (c"fi_version", "fi_version"), (c"FABRIC_1.0", "1.0"))?,
            })
        }
    }

    /// Its release, such as 1.17.
    pub(crate) fn version(&self) -> (u32, u32) {
        // SAFETY: it takes nothing and touches nothing.
        let version = unsafe { (self.version)() };
        (version >> 16, version & 0xffff)
    }
}

/// The function of this name in this version of the interface, whatever the library's newest is: structures grow.
///
/// # Safety
/// `F` is a pointer to a function of the type that the headers give it.
unsafe fn find<F: Copy>(
    handle: *mut c_void,
    (name, shown): (&CStr, &'static str),
    (version, number): (&CStr, &'static str),
) -> Result<F, LoadError> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle is that of a loaded library, and the names end with a zero.
    let symbol = unsafe { libc::dlvsym(handle, name.as_ptr(), version.as_ptr()) };
    if symbol.is_null() {
        return Err(LoadError::TooOld { name: shown, version: number });
    }
    // SAFETY: a pointer to a function has the same size as one to data, and the caller knows its type.
    Ok(unsafe { core::mem::transmute_copy(&symbol) })
}

fn linker_error() -> String {
    // SAFETY: returns null or a text that is valid until this thread's next call to the linker.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
