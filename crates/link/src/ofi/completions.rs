//! The ends of an endpoint's operations.

use core::ffi::c_void;
use core::ptr::null_mut;

use rustix::io::Errno;

use super::endpoint::{BATCH, Ended, Endpoint, Operation, Sizes};
use super::library::FabricFault;
use super::sys::{Context, CqDataEntry, CqErrEntry, FI_EAGAIN, FI_EAVAIL, FI_REMOTE_WRITE};

/// Part of the names of providers that keep a connection for each peer.
const CONNECTED: &str = "ofi_rxm";

const EMPTY: CqDataEntry = CqDataEntry { op_context: null_mut(), flags: 0, len: 0, buf: null_mut(), data: 0 };

impl Endpoint {
    /// The operation whose context this is.
    fn operation(&self, context: *mut c_void) -> Option<Operation> {
        let distance = (context as usize).checked_sub(self.contexts.as_ptr() as usize)?;
        let (index, Sizes { receives, sends, long_sends, .. }) =
            (distance / size_of::<Context>(), self.sizes);
        let sends = sends + long_sends;
        match index {
            _ if index >= self.contexts.len() => None,
            _ if index < receives => Some(Operation::Receive(index)),
            _ if index < receives + sends => Some(Operation::Send(index - receives)),
            _ => Some(Operation::Access(index - receives - sends)),
        }
    }

    /// Lets the provider work, and takes what has ended. An operation that failed is an end like others.
    pub(super) fn poll(&mut self, ended: &mut Vec<Ended>) -> Result<(), FabricFault> {
        let mut entries = [EMPTY; BATCH];
        // SAFETY: there is room for this many entries of the format that the queue was opened with.
        let count = unsafe {
            let ops = &*(*self.cq.get()).ops;
            (ops.read)(self.cq.get(), entries.as_mut_ptr().cast(), entries.len())
        };
        match usize::try_from(count) {
            Ok(count) => {
                for entry in &entries[..count.min(BATCH)] {
                    match entry.flags & FI_REMOTE_WRITE {
                        0 => self.note(entry.op_context, Ok(entry.len), ended),
                        // Its context is that of no operation here, or the peer's.
                        _ => {
                            ended.push(Ended { operation: Operation::Told(entry.data as u32), result: Ok(0) })
                        }
                    }
                }
                Ok(())
            }
            Err(_) if count == -FI_EAGAIN => Ok(()),
            Err(_) if count == -FI_EAVAIL => self.take_error(ended),
            Err(_) => Err(FabricFault::of("fi_cq_read", count)),
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
    fn take_error(&mut self, ended: &mut Vec<Ended>) -> Result<(), FabricFault> {
        // SAFETY: plain data, of which zero means that there is no room for details.
        let mut entry: CqErrEntry = unsafe { core::mem::zeroed() };
        // SAFETY: there is room for one entry.
        let count = unsafe { ((*(*self.cq.get()).ops).readerr)(self.cq.get(), &raw mut entry, 0) };
        if count < 0 && count != -FI_EAGAIN {
            return Err(FabricFault::of("fi_cq_readerr", count));
        }
        if count > 0 {
            let source = FabricFault::of("", entry.err as isize).source;
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
}
