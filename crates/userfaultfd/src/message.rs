//! What the kernel says of faults.

use linux_raw_sys::general as raw;

/// Why a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It read a page that is not there.
    Read,
    /// It wrote to a page that is not there.
    Write,
    /// It wrote to a page that is write-protected.
    Protected,
}

/// A thread waits at an address until its page is there, or it is woken for another reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address, exact to the byte or to the page as was agreed.
    pub address: usize,
    /// Why it waits.
    pub cause: Cause,
}

/// The size of a message in the kernel's interface.
const MESSAGE: usize = 32;
/// How many faults are taken in one go.
const BATCH: usize = 16;

/// Room for the messages of one read.
pub struct Messages {
    pub(crate) bytes: [u8; MESSAGE * BATCH],
    pub(crate) filled: usize,
}

impl Default for Messages {
    fn default() -> Self {
        Self { bytes: [0; MESSAGE * BATCH], filled: 0 }
    }
}

impl Messages {
    /// Whether the last read brought as many as there is room for, so that there may be more.
    pub fn is_full(&self) -> bool {
        self.filled == self.bytes.len()
    }

    /// The faults that the last read brought, in the kernel's order.
    pub fn faults(&self) -> impl Iterator<Item = Fault> {
        self.bytes[..self.filled].chunks_exact(MESSAGE).filter_map(|message| {
            let word = |at: usize| {
                let mut word = [0; 8];
                word.copy_from_slice(&message[at..at + 8]);
                u64::from_ne_bytes(word)
            };
            let (flags, address) = (word(8), word(16) as usize);
            let has = |flag: u32| flags & u64::from(flag) != 0;
            let cause = if has(raw::UFFD_PAGEFAULT_FLAG_WP) {
                Cause::Protected
            } else if has(raw::UFFD_PAGEFAULT_FLAG_WRITE) {
                Cause::Write
            } else {
                Cause::Read
            };
            // No other event was asked for.
            (u32::from(message[0]) == raw::UFFD_EVENT_PAGEFAULT).then_some(Fault { address, cause })
        })
    }
}
