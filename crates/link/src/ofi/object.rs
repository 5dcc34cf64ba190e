//! libfabric's objects, closed when they are dropped, and memory registered with them.

use core::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rustix::io::Errno;

use super::library::FabricFault;
use super::sys::{Domain, Ep, FI_ENABLE, FI_MR_ENDPOINT, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, Fabric, Fid, Mr};

/// Something of libfabric's that is closed when it is dropped.
pub(super) struct Closing<T>(NonNull<T>);

impl<T> Closing<T> {
    pub(super) fn new(call: &'static str, opened: *mut T) -> Result<Self, FabricFault> {
        NonNull::new(opened).map(Self).ok_or(FabricFault { call, source: Errno::NOMEM })
    }

    pub(super) fn get(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Every object of libfabric's begins with one of these.
    pub(super) fn fid(&self) -> *mut Fid {
        self.0.as_ptr().cast()
    }
}

impl<T> Drop for Closing<T> {
    fn drop(&mut self) {
        // SAFETY: opened once and closed once. What is still in use refuses, and then it stays until the process
        // ends, which does no harm.
        unsafe { ((*(*self.fid()).ops).close)(self.fid()) };
    }
}

/// The objects in which endpoints and registrations are opened. Closed from the top, after all of these.
pub(super) struct Home {
    pub(super) domain: Closing<Domain>,
    pub(super) fabric: Closing<Fabric>,
    /// Its demands on memory.
    pub(super) memory_mode: i32,
}

// SAFETY: its objects are used by the owner of the endpoint that was opened in it, by one thread at a time, which is
// what the domain was opened for. Others only keep it.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

/// Memory that is registered, until it is dropped.
pub(super) struct Registration {
    mr: Closing<Mr>,
    pub(super) key: u64,
    /// The address that is added to an offset.
    pub(super) base: u64,
    _home: Arc<Home>,
}

// SAFETY: as for the endpoint that it belongs to: used by one thread at a time.
unsafe impl Send for Registration {}

impl Registration {
    /// Registers memory for what `access` says.
    ///
    /// # Safety
    /// The memory stays mapped, with the protection that `access` needs, until the registration is dropped, and is
    /// only used through windows and atomics meanwhile. The endpoint is of this home.
    pub(super) unsafe fn new(
        (home, ep): (&Arc<Home>, &Closing<Ep>),
        (start, len): (NonNull<u8>, usize),
        access: u64,
    ) -> Result<Self, FabricFault> {
        let mode = home.memory_mode;
        // A key that cannot be guessed, where it is ours to choose.
        let wanted = if mode & FI_MR_PROV_KEY == 0 { random_key() } else { 0 };
        let mut mr = null_mut();
        // SAFETY: the memory is mapped, as the caller says.
        unsafe {
            let ops = &*(*home.domain.get()).mr;
            let (domain, start) = (home.domain.fid(), start.as_ptr().cast());
            let made = (ops.reg)(domain, start, len, access, 0, wanted, 0, &raw mut mr, null_mut());
            FabricFault::check("fi_mr_reg", made)?;
            let mr = Closing::<Mr>::new("fi_mr_reg", mr)?;
            if mode & FI_MR_ENDPOINT != 0 {
                let ops = &*(*mr.fid()).ops;
                FabricFault::check("fi_mr_bind", (ops.bind)(mr.fid(), ep.fid(), 0))?;
                FabricFault::check("fi_mr_enable", (ops.control)(mr.fid(), FI_ENABLE, null_mut()))?;
            }
            let base = if mode & FI_MR_VIRT_ADDR == 0 { 0 } else { start as u64 };
            Ok(Self { key: (*mr.get()).key, mr, base, _home: Arc::clone(home) })
        }
    }

    /// The descriptor that operations on this memory give to the provider.
    pub(super) fn descriptor(&self) -> *mut core::ffi::c_void {
        // SAFETY: registered as long as `self`.
        unsafe { (*self.mr.get()).mem_desc }
    }
}

fn random_key() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => fastrand::u64(..),
    }
}
