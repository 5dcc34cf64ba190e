//! An endpoint with everything that belongs to it. The only place where libfabric's tables are called.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::access::Accesses;
use super::landing::Landing;
use super::library::FabricFault;
use super::long_slots::LongSlots;
use super::object::{Closing, Home, Registration};
use super::offer::Offer;
use super::sys::{
    Av, Context, Cq, Ep, FI_ADDR_UNSPEC, FI_COMPLETION, FI_DELIVERY_COMPLETE, FI_EAGAIN, FI_MORE,
    FI_MR_LOCAL, FI_REMOTE_CQ_DATA, FI_REMOTE_READ, FI_REMOTE_WRITE, Msg, MsgRma, RmaIov,
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
    /// Sends of long messages, besides.
    pub(super) long_sends: usize,
    pub(super) accesses: usize,
    /// The longest message.
    pub(super) slot_bytes: usize,
    /// The longest message that is sent and received; a longer one is written.
    pub(super) short_bytes: usize,
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Receive(usize),
    Send(usize),
    Access(usize),
    /// The peer has written to memory of ours, and says so.
    Told(u32),
}

/// The end of an operation: how many bytes, or why not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) operation: Operation,
    pub(super) result: Result<usize, Errno>,
}

/// A range of the peer's memory.
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
    /// Where the peer writes long messages.
    pub(super) landing: Option<Landing>,
    /// Where ours leave from.
    pub(super) long: Option<LongSlots>,
    /// The memory that the provider may be reading or writing for reads and writes of the peer's memory.
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

// SAFETY: everything here is used by the owner of the endpoint, by one thread at a time, which is what its domain
// was opened for.
unsafe impl Send for Endpoint {}

impl Endpoint {
    pub(super) fn offer(&self) -> &Offer {
        &self.offer
    }

    pub(super) fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// The address that the peer sends to.
    pub(super) fn name(&self) -> Result<Vec<u8>, FabricFault> {
        let mut bytes = vec![0; NAME_MAX];
        let mut len = bytes.len();
        // SAFETY: the provider writes no more than `len` bytes, and how many there are.
        let got = unsafe {
            let cm = &*(*self.ep.get()).cm;
            (cm.getname)(self.ep.fid(), bytes.as_mut_ptr().cast(), &raw mut len)
        };
        FabricFault::check("fi_getname", got)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Learns where to send to. `name` is the peer's word, as long as any name can be: a provider may read as much as
    /// its own names have, whatever this one's length is.
    pub(super) fn set_peer(&mut self, name: &[u8; NAME_MAX]) -> Result<(), FabricFault> {
        let mut peer = FI_ADDR_UNSPEC;
        // SAFETY: the provider reads one name, which is not longer than this.
        let inserted = unsafe {
            let ops = &*(*self.av.get()).ops;
            (ops.insert)(self.av.get(), name.as_ptr().cast(), 1, &raw mut peer, 0, null_mut())
        };
        FabricFault::check("fi_av_insert", inserted)?;
        if inserted != 1 || peer == FI_ADDR_UNSPEC {
            return Err(FabricFault { call: "fi_av_insert", source: Errno::INVAL });
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
        let len = self.sizes.short_bytes;
        let place = self.pool.window().part(slot * len, len);
        // SAFETY: the provider does not write there until the slot is given to it again, for which `self` is borrowed
        // exclusively.
        unsafe { core::slice::from_raw_parts(place.as_ptr(), place.len()) }
    }

    /// Where the message of a send goes. It must not be under way. Those behind the last are for long messages.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub(super) fn send_slot(&self, slot: usize) -> WindowMut<'_> {
        let Sizes { receives, sends, short_bytes, .. } = self.sizes;
        match &self.long {
            Some(long) if slot >= sends => long.slot(slot - sends),
            _ => self.pool.window_mut().part((receives + slot) * short_bytes, short_bytes),
        }
    }

    fn context(&mut self, operation: Operation) -> *mut c_void {
        let index = match operation {
            Operation::Receive(slot) => slot,
            Operation::Send(slot) => self.sizes.receives + slot,
            Operation::Access(number) => {
                self.sizes.receives + self.sizes.sends + self.sizes.long_sends + number
            }
            Operation::Told(_) => return null_mut(),
        };
        (&raw mut self.contexts[index]).cast()
    }

    fn pool_descriptor(&self) -> *mut c_void {
        self.pool_registration.as_ref().map_or(null_mut(), Registration::descriptor)
    }

    /// Gives a place for the next message. Returns false if the provider takes no more at the moment.
    pub(super) fn receive(&mut self, slot: usize) -> Result<bool, FabricFault> {
        let len = self.sizes.short_bytes;
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
    pub(super) fn send(&mut self, slot: usize, len: usize, has_more: bool) -> Result<bool, FabricFault> {
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

    /// Writes the first `len` bytes of a slot to memory that the peer has for them, and tells it so.
    pub(super) fn write_far(
        &mut self,
        (slot, note): (usize, u32),
        far: Far,
        has_more: bool,
    ) -> Result<bool, FabricFault> {
        let start = self.send_slot(slot).part(0, far.len).as_mut_ptr();
        let flags = FI_COMPLETION | FI_REMOTE_CQ_DATA | if has_more { FI_MORE } else { 0 };
        let long = self.long.as_ref().filter(|_| slot >= self.sizes.sends);
        let descriptor = long.map_or_else(|| self.pool_descriptor(), LongSlots::descriptor);
        let (near, context) = ((start, descriptor), self.context(Operation::Send(slot)));
        // SAFETY: as for a send.
        let posted = unsafe { self.one_sided(near, far, (context, note.into()), Some(flags)) };
        begun("fi_writemsg", posted)
    }

    /// Begins to read what is `far` into `near`, or to write it there.
    ///
    /// # Safety
    /// `near` is `far.len` bytes that stay mapped, with the descriptor of their registration if the provider wants one,
    /// until access `number` has ended or the endpoint is dropped. There are no references to them if they are read into.
    pub(super) unsafe fn access(
        &mut self,
        number: usize,
        near: (*mut u8, *mut c_void),
        far: Far,
        is_write: bool,
    ) -> Result<bool, FabricFault> {
        let context = self.context(Operation::Access(number));
        // The end of a write means that it can be seen, not only that it has left.
        let flags = is_write.then_some(FI_COMPLETION | FI_DELIVERY_COMPLETE);
        // SAFETY: as the caller says.
        let posted = unsafe { self.one_sided(near, far, (context, 0), flags) };
        begun(if is_write { "fi_writemsg" } else { "fi_readmsg" }, posted)
    }

    /// Writes with these flags; without any, reads.
    ///
    /// # Safety
    /// As above, until the operation of this context has ended.
    unsafe fn one_sided(
        &mut self,
        (near, mut descriptor): (*mut u8, *mut c_void),
        far: Far,
        (context, data): (*mut c_void, u64),
        write_flags: Option<u64>,
    ) -> isize {
        let piece = libc::iovec { iov_base: near.cast(), iov_len: far.len };
        let span = RmaIov { addr: far.address, len: far.len, key: far.key };
        let message = MsgRma {
            msg_iov: &raw const piece,
            desc: &raw mut descriptor,
            iov_count: 1,
            addr: self.peer,
            rma_iov: &raw const span,
            rma_iov_count: 1,
            context,
            data,
        };
        // SAFETY: the caller answers for the memory; the message itself is read during the call only.
        unsafe {
            let rma = &*(*self.ep.get()).rma;
            match write_flags {
                Some(flags) => (rma.writemsg)(self.ep.get(), &raw const message, flags),
                None => (rma.readmsg)(self.ep.get(), &raw const message, FI_COMPLETION),
            }
        }
    }

    /// Lets the peer do this with memory of ours.
    ///
    /// # Safety
    /// As for every [registration](Registration::new).
    pub(super) unsafe fn register_far(
        &self,
        place: (NonNull<u8>, usize),
        (may_read, may_write): (bool, bool),
    ) -> Result<Registration, FabricFault> {
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
    ) -> Result<Registration, FabricFault> {
        // SAFETY: as the caller says.
        unsafe { Registration::new((&self.home, &self.ep), place, access) }
    }

    /// Whether memory of this side has to be registered too.
    pub(super) fn wants_registration(&self) -> bool {
        self.home.memory_mode & FI_MR_LOCAL != 0
    }

    /// The descriptor that becomes readable when something has ended or can go on, if the provider has it.
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
fn begun(call: &'static str, result: isize) -> Result<bool, FabricFault> {
    match result {
        0 => Ok(true),
        _ if result == -FI_EAGAIN => Ok(false),
        _ => Err(FabricFault::of(call, result)),
    }
}
