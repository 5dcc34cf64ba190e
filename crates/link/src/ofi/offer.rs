//! The offers of libfabric on this machine.

use core::ffi::{CStr, c_int};
use core::ptr::NonNull;
use std::ffi::CString;
use std::net::IpAddr;

use rustix::io::Errno;

use super::library::{FabricFault, Library};
use super::sys::{
    self, FI_ATOMIC, FI_AV_TABLE, FI_BUS_PCI, FI_CONTEXT, FI_CONTEXT2, FI_EP_RDM, FI_MR_ALLOCATED,
    FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_MSG, FI_ORDER_SAS, FI_ORDER_SAW,
    FI_ORDER_WAW, FI_PROGRESS_AUTO, FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RM_ENABLED, FI_RMA,
    FI_SEND, FI_SOURCE, FI_THREAD_DOMAIN, FI_WRITE, Info,
};

/// The capabilities that a link cannot do without.
const FRAMES: u64 = FI_MSG | FI_SEND | FI_RECV;
/// The capabilities for reads and writes that the peer's processor does not serve.
const REACH: u64 = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
/// The capability that makes providers that keep connections serve reads and writes by a thread of their own. Without it that thread only
/// makes connections. No link here has use for their atomics.
const WORKS_ALONE: u64 = FI_ATOMIC;
/// Messages are sent, or written.
const AFTER_WRITES: u64 = FI_ORDER_SAW | FI_ORDER_WAW;
/// How many bytes a write has to tell.
const NOTE_BYTES: usize = 4;
/// The demands on memory that can be met here.
const MEMORY_MODES: i32 = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
/// The provider that connects processes of one machine, and knows no network addresses.
pub(super) const WITHIN_A_MACHINE: &str = "shm";

/// One way to open an endpoint, as libfabric described it.
pub(crate) struct Offer {
    info: NonNull<Info>,
    library: &'static Library,
    /// The name of the providers that make it, as libfabric has it, such as `tcp;ofi_rxm`.
    pub(crate) provider: String,
    /// The network card or interface.
    pub(crate) device: String,
    /// Whether a network card moves the bytes.
    pub(crate) is_hardware: bool,
    /// Whether memory can be reached without frames.
    pub(crate) reaches: bool,
    /// Whether a message arrives after the writes before it.
    pub(crate) orders_writes: bool,
    /// Whether a write can tell the peer of itself.
    pub(crate) tells: bool,
    /// Whether the provider works without being called.
    pub(crate) is_automatic: bool,
    pub(crate) memory_mode: i32,
}

// SAFETY: plain data that nothing else points to; the library has no state that belongs to a thread.
unsafe impl Send for Offer {}

impl Offer {
    /// The offers for endpoints at `source` that progress in this way, best first by libfabric's own order; of one
    /// provider, if it is named.
    pub(crate) fn list(
        library: &'static Library,
        source: Option<IpAddr>,
        provider: Option<&str>,
        progress: c_int,
    ) -> Result<Vec<Self>, FabricFault> {
        let alone = if progress == FI_PROGRESS_AUTO { WORKS_ALONE } else { 0 };
        for caps in [FRAMES | REACH | alone, FRAMES | REACH, FRAMES] {
            let offers = Self::list_with(library, source, provider, (caps, progress))?;
            if !offers.is_empty() {
                return Ok(offers);
            }
        }
        Ok(Vec::new())
    }

    fn list_with(
        library: &'static Library,
        source: Option<IpAddr>,
        provider: Option<&str>,
        wanted: (u64, c_int),
    ) -> Result<Vec<Self>, FabricFault> {
        let hints = hints(library, provider, wanted)?;
        let node =
            source.filter(|_| provider != Some(WITHIN_A_MACHINE)).map(|ip| ip.to_canonical().to_string());
        let node = node.and_then(|node| CString::new(node).ok());
        let (node, flags) = node.as_ref().map_or((core::ptr::null(), 0), |node| (node.as_ptr(), FI_SOURCE));
        let mut first = core::ptr::null_mut();
        // SAFETY: the texts end with zeros, the hints are a structure of the library's own making, and the result
        // is a list that is ours to free.
        let found = unsafe {
            (library.getinfo)(
                sys::VERSION,
                node,
                core::ptr::null(),
                flags,
                hints.info.as_ptr(),
                &raw mut first,
            )
        };
        match FabricFault::check("fi_getinfo", found) {
            Ok(()) => {}
            // "No data": no provider offers this.
            Err(FabricFault { source: Errno::NODATA, .. }) => return Ok(Vec::new()),
            Err(fault) => return Err(fault),
        }
        let mut offers = Vec::new();
        let mut next = first;
        while let Some(info) = NonNull::new(next) {
            // SAFETY: an element of the list, which is freed below.
            next = unsafe { info.as_ref() }.next;
            // SAFETY: copies the element without its successors.
            let copy = unsafe { (library.dupinfo)(info.as_ptr()) };
            offers.extend(NonNull::new(copy).map(|info| Self::describe(library, info)));
        }
        // SAFETY: the whole list, once.
        unsafe { (library.freeinfo)(first) };
        Ok(offers)
    }

    fn describe(library: &'static Library, info: NonNull<Info>) -> Self {
        // SAFETY: libfabric fills every attribute of what it offers except the card, which may be null.
        unsafe {
            let all = info.as_ref();
            let bus = all.nic.as_ref().and_then(|nic| nic.bus_attr.as_ref());
            Self {
                info,
                library,
                provider: text((*all.fabric_attr).prov_name),
                device: text((*all.domain_attr).name),
                is_hardware: bus.is_some_and(|bus| bus.bus_type == FI_BUS_PCI),
                reaches: all.caps & REACH == REACH,
                orders_writes: (*all.tx_attr).msg_order & (*all.rx_attr).msg_order & AFTER_WRITES
                    == AFTER_WRITES,
                tells: all.caps & REACH == REACH && (*all.domain_attr).cq_data_size >= NOTE_BYTES,
                is_automatic: (*all.domain_attr).data_progress == FI_PROGRESS_AUTO,
                memory_mode: (*all.domain_attr).mr_mode,
            }
        }
    }

    /// The structure that libfabric wants back when the endpoint is opened.
    pub(super) fn info(&self) -> NonNull<Info> {
        self.info
    }

    pub(super) fn library(&self) -> &'static Library {
        self.library
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        // SAFETY: made by the library, freed once.
        unsafe { (self.library.freeinfo)(self.info.as_ptr()) };
    }
}

/// # Safety
/// `at` is null or a text that ends with a zero.
unsafe fn text(at: *const core::ffi::c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

/// The wishes of whom an offer is asked for.
fn hints(
    library: &'static Library,
    provider: Option<&str>,
    (caps, progress): (u64, c_int),
) -> Result<Hints, FabricFault> {
    // SAFETY: without anything to copy, the library makes an empty structure with all its attributes.
    let info = NonNull::new(unsafe { (library.dupinfo)(core::ptr::null()) });
    let info = info.ok_or(FabricFault { call: "fi_allocinfo", source: Errno::NOMEM })?;
    let hints = Hints { info, library };
    // SAFETY: the structure and its attributes were made together and belong to this function alone. The provider's name
    // is made by the allocator with which the library frees it.
    unsafe {
        let all = hints.info.as_ptr();
        (*all).caps = caps;
        (*all).mode = FI_CONTEXT | FI_CONTEXT2;
        (*(*all).ep_attr).kind = FI_EP_RDM;
        let domain = &mut *(*all).domain_attr;
        domain.mr_mode = MEMORY_MODES;
        // Each link has a domain of its own, and is used by one thread at a time.
        domain.threading = FI_THREAD_DOMAIN;
        domain.control_progress = progress;
        domain.data_progress = progress;
        domain.resource_mgmt = FI_RM_ENABLED;
        domain.av_type = FI_AV_TABLE;
        (*(*all).tx_attr).msg_order = FI_ORDER_SAS;
        (*(*all).rx_attr).msg_order = FI_ORDER_SAS;
        if let Some(name) = provider.and_then(|provider| CString::new(provider).ok()) {
            (*(*all).fabric_attr).prov_name = libc::strdup(name.as_ptr());
        }
    }
    Ok(hints)
}

struct Hints {
    info: NonNull<Info>,
    library: &'static Library,
}

impl Drop for Hints {
    fn drop(&mut self) {
        // SAFETY: made by the library, freed once.
        unsafe { (self.library.freeinfo)(self.info.as_ptr()) };
    }
}
