//! How an endpoint comes to be.

use core::ptr::null_mut;
use std::os::fd::RawFd;
use std::sync::Arc;

use super::access::Accesses;
use super::endpoint::{Endpoint, Sizes};
use super::library::FabricFault;
use super::object::{Closing, Home};
use super::offer::Offer;
use super::sys::{
    Av, AvAttr, Context, Cq, CqAttr, Domain, Ep, FI_ADDR_UNSPEC, FI_AV_TABLE, FI_CQ_FORMAT_DATA, FI_ENABLE,
    FI_GETWAIT, FI_MR_LOCAL, FI_RECV, FI_SEND, FI_WAIT_FD, FI_WAIT_NONE, Fabric,
};
use crate::memory::Buffer;

impl Endpoint {
    /// Opens an endpoint that no peer knows of yet.
    pub(super) fn open(offer: Offer, sizes: Sizes) -> Result<Self, FabricFault> {
        let info = offer.info().as_ptr();
        let count = sizes.receives + sizes.sends + sizes.long_sends + sizes.accesses;
        // SAFETY: each call is given what was opened before it by the same library and a place for its result.
        unsafe {
            let (mut fabric, mut domain, mut av, mut ep) = (null_mut(), null_mut(), null_mut(), null_mut());
            let made = (offer.library().fabric)((*info).fabric_attr, &raw mut fabric, null_mut());
            FabricFault::check("fi_fabric", made)?;
            let fabric = Closing::<Fabric>::new("fi_fabric", fabric)?;
            let made = ((*(*fabric.get()).ops).domain)(fabric.get(), info, &raw mut domain, null_mut());
            FabricFault::check("fi_domain", made)?;
            let domain = Closing::<Domain>::new("fi_domain", domain)?;
            let home = Arc::new(Home { domain, fabric, memory_mode: offer.memory_mode });
            let domain = &home.domain;
            // The peer tells of as many messages at once as it could send.
            let (cq, wait) = open_queue(domain, count + sizes.receives)?;
            let mut attr: AvAttr = core::mem::zeroed();
            (attr.kind, attr.count) = (FI_AV_TABLE, 1);
            let made = ((*(*domain.get()).ops).av_open)(domain.get(), &raw mut attr, &raw mut av, null_mut());
            FabricFault::check("fi_av_open", made)?;
            let av = Closing::<Av>::new("fi_av_open", av)?;
            let made = ((*(*domain.get()).ops).endpoint)(domain.get(), info, &raw mut ep, null_mut());
            FabricFault::check("fi_endpoint", made)?;
            let ep = Closing::<Ep>::new("fi_endpoint", ep)?;
            let ops = &*(*ep.fid()).ops;
            FabricFault::check("fi_ep_bind", (ops.bind)(ep.fid(), av.fid(), 0))?;
            FabricFault::check("fi_ep_bind", (ops.bind)(ep.fid(), cq.fid(), FI_SEND | FI_RECV))?;
            FabricFault::check("fi_enable", (ops.control)(ep.fid(), FI_ENABLE, null_mut()))?;
            let bytes = (sizes.receives + sizes.sends) * sizes.short_bytes;
            let pool = Buffer::allocate(bytes).map_err(|source| FabricFault { call: "mmap", source })?;
            let contexts = vec![Context { internal: [null_mut(); 8] }; count].into_boxed_slice();
            let pool_registration = None;
            let peer = FI_ADDR_UNSPEC;
            let is_posted = vec![false; sizes.receives];
            let mut endpoint = Self {
                ep,
                pool_registration,
                landing: None,
                long: None,
                accesses: Accesses::new(sizes.accesses),
                av,
                cq,
                home,
                contexts,
                pool,
                is_posted,
                offer,
                sizes,
                peer,
                wait,
            };
            if endpoint.offer.memory_mode & FI_MR_LOCAL != 0 {
                let place = (endpoint.pool.start(), endpoint.pool.len());
                endpoint.pool_registration = Some(endpoint.register(place, FI_SEND | FI_RECV)?);
            }
            Ok(endpoint)
        }
    }
}

/// Opens the queue of completions, with a descriptor to wait on if the provider has one.
fn open_queue(domain: &Closing<Domain>, size: usize) -> Result<(Closing<Cq>, Option<RawFd>), FabricFault> {
    let open = |wait_obj| {
        // SAFETY: plain data, of which zero means the default.
        let mut attr: CqAttr = unsafe { core::mem::zeroed() };
        (attr.size, attr.format, attr.wait_obj) = (size, FI_CQ_FORMAT_DATA, wait_obj);
        let mut cq = null_mut();
        // SAFETY: an open domain, and a place for the result.
        let made =
            unsafe { ((*(*domain.get()).ops).cq_open)(domain.get(), &raw mut attr, &raw mut cq, null_mut()) };
        FabricFault::check("fi_cq_open", made)?;
        Closing::new("fi_cq_open", cq)
    };
    if let Ok(cq) = open(FI_WAIT_FD) {
        let mut wait: RawFd = -1;
        // SAFETY: the queue writes a descriptor.
        let got = unsafe { ((*(*cq.fid()).ops).control)(cq.fid(), FI_GETWAIT, (&raw mut wait).cast()) };
        if got == 0 && wait >= 0 {
            return Ok((cq, Some(wait)));
        }
    }
    Ok((open(FI_WAIT_NONE)?, None))
}
