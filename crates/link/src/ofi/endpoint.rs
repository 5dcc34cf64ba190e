//! An endpoint with everything that belongs to it. The only place where libfabric's tables are called.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::access::Accesses;
use super::library::Fault;
use super::object::{Closing, Home, Registration};
use super::offer::Offer;
use super::sys::{
    Av, Context, Cq, CqErrEntry, CqMsgEntry, Ep, FI_ADDR_UNSPEC, FI_COMPLETION, FI_DELIVERY_COMPLETE,
    FI_EAGAIN, FI_EAVAIL, FI_MORE, FI_MR_LOCAL, FI_REMOTE_READ, FI_REMOTE_WRITE, Msg, MsgRma, RmaIov,
};
use crate::memory::{Buffer, WindowMut};

/// The longest name of an endpoint. Sockets' addresses take 28 bytes, those of fabrics 32, those of files more.
pub(super) const NAME_MAX: usize = 256;
/// Part of the names of providers that keep a connection for each peer.
const CONNECTED: &str = "ofi_rxm";
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

/// A stretch of the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Far {
    pub(super) key: u64,
    pub(super) address: u64,
    pub(super) len: usize,
}

/// A reliable endpoint, its one peer, and the memory that its messages lie in. Fields are closed from the top.
pub(super) struct Endpoint {
    pub(super) ep: Closing<Ep>,
    pub(super) pool_registration: Option<Registration>,
    /// What the provider may be reading or writing for reads and writes of the peer's memory.
    pub(super) accesses: Accesses,
    pub(super) av: Closing<Av>,
    pub(super) cq: Closing<Cq>,
    pub(super) home: Arc<Home>,
    /// One for every operation that can be under way; its place says which. Providers write to them.
    pub(super) contexts: Box<[Context]>,
    pub(super) pool: Buffer,
    /// Which receives are under way.
    pub(super) is_posted: Vec<bool>,
    pub(super) offer: Offer,
    pub(super) sizes: Sizes,
    pub(super) peer: u64,
    pub(super) wait: Option<RawFd>,
}

// SAFETY: everything here is used by whoever has the endpoint, by one thread at a time, which is what its domain
// was opened for.
unsafe impl Send for Endpoint {}

impl Endpoint {
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
        self.pool_registration.as_ref().map_or(null_mut(), Registration::descriptor)
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

    /// Begins to read what is `far` into `near`, or to write it there.
    ///
    /// # Safety
    /// `near` is `far.len` bytes that stay mapped, with the descriptor of their registration if the provider wants one,
    /// until access `number` has ended or the endpoint is dropped. Nobody has references to them if they are read into.
    pub(super) unsafe fn access(
        &mut self,
        number: usize,
        (near, mut descriptor): (*mut u8, *mut c_void),
        far: Far,
        is_write: bool,
    ) -> Result<bool, Fault> {
        let piece = libc::iovec { iov_base: near.cast(), iov_len: far.len };
        let span = RmaIov { addr: far.address, len: far.len, key: far.key };
        let message = MsgRma {
            msg_iov: &raw const piece,
            desc: &raw mut descriptor,
            iov_count: 1,
            addr: self.peer,
            rma_iov: &raw const span,
            rma_iov_count: 1,
            context: self.context(Operation::Access(number)),
            data: 0,
        };
        // SAFETY: the caller answers for the memory; the message itself is read during the call only.
        let posted = unsafe {
            let rma = &*(*self.ep.get()).rma;
            if is_write {
                // The end of a write means that it can be seen, not only that it has left.
                (rma.writemsg)(self.ep.get(), &raw const message, FI_COMPLETION | FI_DELIVERY_COMPLETE)
            } else {
                (rma.readmsg)(self.ep.get(), &raw const message, FI_COMPLETION)
            }
        };
        begun(if is_write { "fi_writemsg" } else { "fi_readmsg" }, posted)
    }

    /// Lets the peer do this with memory of ours.
    ///
    /// # Safety
    /// As for every [registration](Registration::new).
    pub(super) unsafe fn register_far(
        &self,
        place: (NonNull<u8>, usize),
        (may_read, may_write): (bool, bool),
    ) -> Result<Registration, Fault> {
        let access = if may_read { FI_REMOTE_READ } else { 0 } | if may_write { FI_REMOTE_WRITE } else { 0 };
        // SAFETY: as the caller says.
        unsafe { self.register(place, access) }
    }

    /// # Safety
    /// As above.
    pub(super) unsafe fn register(
        &self,
        place: (NonNull<u8>, usize),
        access: u64,
    ) -> Result<Registration, Fault> {
        // SAFETY: as the caller says.
        unsafe { Registration::new((&self.home, &self.ep), place, access) }
    }

    /// Whether memory of this side has to be registered too.
    pub(super) fn wants_registration(&self) -> bool {
        self.home.memory_mode & FI_MR_LOCAL != 0
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

    /// Takes everything that has arrived, before the endpoint is closed: a provider that keeps connections and closes
    /// one with messages still to be told of may give their places to the connection that is gone.
    pub(super) fn drain(&mut self) {
        if !self.offer.provider.contains(CONNECTED) {
            return;
        }
        let mut ended = Vec::with_capacity(BATCH);
        // Some providers look at one message in each turn.
        for _ in 0..2 * self.contexts.len() {
            ended.clear();
            if self.poll(&mut ended).is_err() {
                break;
            }
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
        unsafe {
            ((*(*self.home.fabric.get()).ops).trywait)(self.home.fabric.get(), fids.as_mut_ptr(), 1) == 0
        }
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
