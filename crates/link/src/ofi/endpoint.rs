//! An endpoint with everything that belongs to it. The only place where libfabric's tables are called.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::Errno;

use super::library::Fault;
use super::offer::Offer;
use super::sys::{
    Av, AvAttr, Context, Cq, CqAttr, CqErrEntry, CqMsgEntry, Domain, Ep, FI_ADDR_UNSPEC, FI_AV_TABLE,
    FI_COMPLETION, FI_CQ_FORMAT_MSG, FI_EAGAIN, FI_EAVAIL, FI_ENABLE, FI_GETWAIT, FI_MORE, FI_MR_ENDPOINT,
    FI_MR_LOCAL, FI_MR_PROV_KEY, FI_READ, FI_RECV, FI_SEND, FI_WAIT_FD, FI_WAIT_NONE, FI_WRITE, Fabric, Fid,
    Mr, Msg,
};
use crate::memory::{Buffer, WindowMut};

/// The longest name of an endpoint. Sockets' addresses take 28 bytes, those of fabrics 32, those of files more.
pub(super) const NAME_MAX: usize = 256;
/// How many completions are taken at once.
pub(super) const BATCH: usize = 32;

/// How many operations of each kind can be under way, and how long a message is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) receives: usize,
    pub(super) sends: usize,
    pub(super) accesses: usize,
    pub(super) slot_bytes: usize,
}

/// What an operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Receive(usize),
    Send(usize),
    Access(usize),
}

/// The end of an operation: how many bytes, or why not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) operation: Operation,
    pub(super) result: Result<usize, Errno>,
}

/// Something of libfabric's that is closed when it is dropped.
struct Closing<T>(NonNull<T>);

impl<T> Closing<T> {
    fn new(call: &'static str, opened: *mut T) -> Result<Self, Fault> {
        NonNull::new(opened).map(Self).ok_or(Fault { call, source: Errno::NOMEM })
    }

    fn get(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Every object of libfabric's begins with one of these.
    fn fid(&self) -> *mut Fid {
        self.0.as_ptr().cast()
    }
}

impl<T> Drop for Closing<T> {
    fn drop(&mut self) {
        // SAFETY: opened once and closed once. What is still in use refuses, and then it stays until the process
        // ends, which harms nobody.
        unsafe { ((*(*self.fid()).ops).close)(self.fid()) };
    }
}

/// Memory that is registered, until it is dropped.
pub(super) struct Registration {
    mr: Closing<Mr>,
}

// SAFETY: as for the endpoint that it belongs to.
unsafe impl Send for Registration {}

/// A reliable endpoint, its one peer, and the memory that its messages lie in. Fields are closed from the top.
pub(super) struct Endpoint {
    ep: Closing<Ep>,
    pool_registration: Option<Registration>,
    av: Closing<Av>,
    cq: Closing<Cq>,
    domain: Closing<Domain>,
    fabric: Closing<Fabric>,
    /// One for every operation that can be under way; its place says which. Providers write to them.
    contexts: Box<[Context]>,
    pool: Buffer,
    /// Which receives are under way.
    is_posted: Vec<bool>,
    offer: Offer,
    sizes: Sizes,
    peer: u64,
    wait: Option<RawFd>,
}

// SAFETY: everything here is used by whoever has the endpoint, by one thread at a time, which is what its domain
// was opened for.
unsafe impl Send for Endpoint {}

impl Endpoint {
    /// Opens an endpoint that nobody knows of yet.
    pub(super) fn open(offer: Offer, sizes: Sizes) -> Result<Self, Fault> {
        let info = offer.info().as_ptr();
        let count = sizes.receives + sizes.sends + sizes.accesses;
        // SAFETY: each call is given what was opened before it by the same library and a place for its result.
        unsafe {
            let (mut fabric, mut domain, mut av, mut ep) = (null_mut(), null_mut(), null_mut(), null_mut());
            let made = (offer.library().fabric)((*info).fabric_attr, &raw mut fabric, null_mut());
            Fault::check("fi_fabric", made)?;
            let fabric = Closing::<Fabric>::new("fi_fabric", fabric)?;
            let made = ((*(*fabric.get()).ops).domain)(fabric.get(), info, &raw mut domain, null_mut());
            Fault::check("fi_domain", made)?;
            let domain = Closing::<Domain>::new("fi_domain", domain)?;
            let (cq, wait) = open_queue(&domain, count)?;
            let mut attr: AvAttr = core::mem::zeroed();
            (attr.kind, attr.count) = (FI_AV_TABLE, 1);
            let made = ((*(*domain.get()).ops).av_open)(domain.get(), &raw mut attr, &raw mut av, null_mut());
            Fault::check("fi_av_open", made)?;
            let av = Closing::<Av>::new("fi_av_open", av)?;
            let made = ((*(*domain.get()).ops).endpoint)(domain.get(), info, &raw mut ep, null_mut());
            Fault::check("fi_endpoint", made)?;
            let ep = Closing::<Ep>::new("fi_endpoint", ep)?;
            let ops = &*(*ep.fid()).ops;
            Fault::check("fi_ep_bind", (ops.bind)(ep.fid(), av.fid(), 0))?;
            Fault::check("fi_ep_bind", (ops.bind)(ep.fid(), cq.fid(), FI_SEND | FI_RECV))?;
            Fault::check("fi_enable", (ops.control)(ep.fid(), FI_ENABLE, null_mut()))?;
            let bytes = (sizes.receives + sizes.sends) * sizes.slot_bytes;
            let pool = Buffer::allocate(bytes).map_err(|source| Fault { call: "mmap", source })?;
            let contexts = vec![Context { internal: [null_mut(); 8] }; count].into_boxed_slice();
            let pool_registration = None;
            let peer = FI_ADDR_UNSPEC;
            let is_posted = vec![false; sizes.receives];
            let mut endpoint = Self {
                ep,
                pool_registration,
                av,
                cq,
                domain,
                fabric,
                contexts,
                pool,
                is_posted,
                offer,
                sizes,
                peer,
                wait,
            };
            if endpoint.offer.memory_mode & FI_MR_LOCAL != 0 {
                let (start, len) = (endpoint.pool.start(), endpoint.pool.len());
                let access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
                endpoint.pool_registration = Some(endpoint.register(start, len, access)?);
            }
            Ok(endpoint)
        }
    }

    pub(super) fn offer(&self) -> &Offer {
        &self.offer
    }

    pub(super) fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// What the peer needs to know to send here.
    pub(super) fn name(&self) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; NAME_MAX];
        let mut len = bytes.len();
        // SAFETY: the provider writes no more than `len` bytes, and how many there are.
        let got = unsafe {
            let cm = &*(*self.ep.get()).cm;
            (cm.getname)(self.ep.fid(), bytes.as_mut_ptr().cast(), &raw mut len)
        };
        Fault::check("fi_getname", got)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Learns where to send to. `name` is the peer's word, as long as any name can be: a provider may read as much as
    /// its own names have, whatever this one's length is.
    pub(super) fn set_peer(&mut self, name: &[u8; NAME_MAX]) -> Result<(), Fault> {
        let mut peer = FI_ADDR_UNSPEC;
        // SAFETY: the provider reads one name, which is not longer than this.
        let inserted = unsafe {
            let ops = &*(*self.av.get()).ops;
            (ops.insert)(self.av.get(), name.as_ptr().cast(), 1, &raw mut peer, 0, null_mut())
        };
        Fault::check("fi_av_insert", inserted)?;
        if inserted != 1 || peer == FI_ADDR_UNSPEC {
            return Err(Fault { call: "fi_av_insert", source: Errno::INVAL });
        }
        self.peer = peer;
        Ok(())
    }

    /// The message of a receive that has ended.
    ///
    /// # Panics
    /// If the receive is under way.
    #[inline]
    pub(super) fn received(&self, slot: usize) -> &[u8] {
        assert!(!self.is_posted[slot], "a message that is being received is not read");
        let place = self.pool.window().part(slot * self.sizes.slot_bytes, self.sizes.slot_bytes);
        // SAFETY: nobody writes there until the slot is given to the provider again, for which `self` is borrowed
        // exclusively.
        unsafe { core::slice::from_raw_parts(place.as_ptr(), place.len()) }
    }

    /// Where the message of a send goes. It must not be under way.
    #[inline]
    pub(super) fn send_slot(&self, slot: usize) -> WindowMut<'_> {
        let at = (self.sizes.receives + slot) * self.sizes.slot_bytes;
        self.pool.window_mut().part(at, self.sizes.slot_bytes)
    }

    fn context(&mut self, operation: Operation) -> *mut c_void {
        let index = match operation {
            Operation::Receive(slot) => slot,
            Operation::Send(slot) => self.sizes.receives + slot,
            Operation::Access(number) => self.sizes.receives + self.sizes.sends + number,
        };
        (&raw mut self.contexts[index]).cast()
    }

    /// The operation whose context this is.
    fn operation(&self, context: *mut c_void) -> Option<Operation> {
        let distance = (context as usize).checked_sub(self.contexts.as_ptr() as usize)?;
        let (index, Sizes { receives, sends, .. }) = (distance / size_of::<Context>(), self.sizes);
        match index {
            _ if index >= self.contexts.len() => None,
            _ if index < receives => Some(Operation::Receive(index)),
            _ if index < receives + sends => Some(Operation::Send(index - receives)),
            _ => Some(Operation::Access(index - receives - sends)),
        }
    }

    fn pool_descriptor(&self) -> *mut c_void {
        // SAFETY: registered as long as `self`.
        self.pool_registration.as_ref().map_or(null_mut(), |pool| unsafe { (*pool.mr.get()).mem_desc })
    }

    /// Gives a place for the next message. Returns false if the provider takes no more at the moment.
    pub(super) fn receive(&mut self, slot: usize) -> Result<bool, Fault> {
        let len = self.sizes.slot_bytes;
        let start = self.pool.window_mut().part(slot * len, len).as_mut_ptr();
        let (descriptor, context) = (self.pool_descriptor(), self.context(Operation::Receive(slot)));
        // SAFETY: the slot and the context are left alone until the completion, and live until the endpoint is
        // closed.
        let posted = unsafe {
            let msg = &*(*self.ep.get()).msg;
            (msg.recv)(self.ep.get(), start.cast(), len, descriptor, FI_ADDR_UNSPEC, context)
        };
        let is_posted = begun("fi_recv", posted)?;
        self.is_posted[slot] = is_posted;
        Ok(is_posted)
    }

    /// Sends the first `len` bytes of a slot. `has_more` says that another follows at once.
    pub(super) fn send(&mut self, slot: usize, len: usize, has_more: bool) -> Result<bool, Fault> {
        let start = self.send_slot(slot).part(0, len).as_mut_ptr();
        let piece = libc::iovec { iov_base: start.cast(), iov_len: len };
        let mut descriptor = self.pool_descriptor();
        let message = Msg {
            msg_iov: &raw const piece,
            desc: &raw mut descriptor,
            iov_count: 1,
            addr: self.peer,
            context: self.context(Operation::Send(slot)),
            data: 0,
        };
        let flags = FI_COMPLETION | if has_more { FI_MORE } else { 0 };
        // SAFETY: as for a receive. The message itself is read during the call only.
        let posted = unsafe { ((*(*self.ep.get()).msg).sendmsg)(self.ep.get(), &raw const message, flags) };
        begun("fi_sendmsg", posted)
    }

    /// # Safety
    /// The memory stays mapped, with the protection that `access` needs, until the registration is dropped, and is
    /// only used through windows and atomics meanwhile.
    unsafe fn register(&self, start: NonNull<u8>, len: usize, access: u64) -> Result<Registration, Fault> {
        let mode = self.offer.memory_mode;
        // A key that cannot be guessed, where it is ours to choose.
        let wanted = if mode & FI_MR_PROV_KEY == 0 { random_key() } else { 0 };
        let mut mr = null_mut();
        // SAFETY: the memory is mapped, as the caller says.
        unsafe {
            let ops = &*(*self.domain.get()).mr;
            let (domain, start) = (self.domain.fid(), start.as_ptr().cast());
            let made = (ops.reg)(domain, start, len, access, 0, wanted, 0, &raw mut mr, null_mut());
            Fault::check("fi_mr_reg", made)?;
            let mr = Closing::<Mr>::new("fi_mr_reg", mr)?;
            if mode & FI_MR_ENDPOINT != 0 {
                let ops = &*(*mr.fid()).ops;
                Fault::check("fi_mr_bind", (ops.bind)(mr.fid(), self.ep.fid(), 0))?;
                Fault::check("fi_mr_enable", (ops.control)(mr.fid(), FI_ENABLE, null_mut()))?;
            }
            Ok(Registration { mr })
        }
    }

    /// Lets the provider work, and takes what has ended. An operation that failed is an end like others.
    pub(super) fn poll(&mut self, ended: &mut Vec<Ended>) -> Result<(), Fault> {
        let mut entries = [CqMsgEntry { op_context: null_mut(), flags: 0, len: 0 }; BATCH];
        // SAFETY: there is room for this many entries of the format that the queue was opened with.
        let count = unsafe {
            let ops = &*(*self.cq.get()).ops;
            (ops.read)(self.cq.get(), entries.as_mut_ptr().cast(), entries.len())
        };
        match usize::try_from(count) {
            Ok(count) => {
                for entry in &entries[..count.min(BATCH)] {
                    self.note(entry.op_context, Ok(entry.len), ended);
                }
                Ok(())
            }
            Err(_) if count == -FI_EAGAIN => Ok(()),
            Err(_) if count == -FI_EAVAIL => self.take_error(ended),
            Err(_) => Err(Fault::of("fi_cq_read", count)),
        }
    }

    #[cold]
    fn take_error(&mut self, ended: &mut Vec<Ended>) -> Result<(), Fault> {
        // SAFETY: plain data, of which zero means that there is no room for details.
        let mut entry: CqErrEntry = unsafe { core::mem::zeroed() };
        // SAFETY: there is room for one entry.
        let count = unsafe { ((*(*self.cq.get()).ops).readerr)(self.cq.get(), &raw mut entry, 0) };
        if count < 0 && count != -FI_EAGAIN {
            return Err(Fault::of("fi_cq_readerr", count));
        }
        if count > 0 {
            let source = Fault::of("", entry.err as isize).source;
            self.note(entry.op_context, Err(source), ended);
        }
        Ok(())
    }

    fn note(&mut self, context: *mut c_void, result: Result<usize, Errno>, ended: &mut Vec<Ended>) {
        let Some(operation) = self.operation(context) else { return };
        if let Operation::Receive(slot) = operation {
            self.is_posted[slot] = false;
        }
        ended.push(Ended { operation, result });
    }

    /// What becomes readable when something has ended or can go on, if the provider has it.
    pub(super) fn wait_descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: open as long as the queue.
        self.wait.map(|wait| unsafe { BorrowedFd::borrow_raw(wait) })
    }

    /// Whether the descriptor will tell of what comes next. If not, there is something already.
    pub(super) fn may_sleep(&self) -> bool {
        let mut fids = [self.cq.fid()];
        // SAFETY: one queue of this fabric.
        unsafe { ((*(*self.fabric.get()).ops).trywait)(self.fabric.get(), fids.as_mut_ptr(), 1) == 0 }
    }
}

/// Whether an operation was begun; not if the provider has no room for it.
#[inline]
fn begun(call: &'static str, result: isize) -> Result<bool, Fault> {
    match result {
        0 => Ok(true),
        _ if result == -FI_EAGAIN => Ok(false),
        _ => Err(Fault::of(call, result)),
    }
}

fn random_key() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => fastrand::u64(..),
    }
}

/// Opens the queue of completions, with a descriptor to wait on if the provider has one.
fn open_queue(domain: &Closing<Domain>, size: usize) -> Result<(Closing<Cq>, Option<RawFd>), Fault> {
    let open = |wait_obj| {
        // SAFETY: plain data, of which zero means the default.
        let mut attr: CqAttr = unsafe { core::mem::zeroed() };
        (attr.size, attr.format, attr.wait_obj) = (size, FI_CQ_FORMAT_MSG, wait_obj);
        let mut cq = null_mut();
        // SAFETY: an open domain, and a place for the result.
        let made =
            unsafe { ((*(*domain.get()).ops).cq_open)(domain.get(), &raw mut attr, &raw mut cq, null_mut()) };
        Fault::check("fi_cq_open", made)?;
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
