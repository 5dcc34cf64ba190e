//! What the kernel says of faults, and of ranges that are taken away.

use std::ops::Range;

use linux_raw_sys::general as raw;

/// Why a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFaultCause {
    /// It read a page that is not there.
    Read,
    /// It wrote to a page that is not there.
    Write,
    /// It wrote to a page that is write-protected.
    Protected,
}

/// A thread waits at an address until its page is there, or it is woken for another reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFault {
    /// The address, exact to the byte or to the page as was agreed.
    pub address: usize,
    /// Why it waits.
    pub cause: KernelFaultCause,
}

/// A registered range was taken away by a system call of this process. The caller of that waited until this was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelChange {
    /// It was unmapped, or something else was mapped in its place.
    Unmapped {
        /// Which addresses.
        range: Range<usize>,
    },
    /// `mremap` moved it.
    Moved {
        /// Which addresses it had.
        range: Range<usize>,
        /// Where it begins now.
        to: usize,
    },
}

/// The size of a message in the kernel's interface.
const MESSAGE: usize = 32;
/// How many faults are taken in one go.
const BATCH: usize = 16;

/// Room for the messages of one read.
pub struct KernelMessages {
    pub(crate) bytes: [u8; MESSAGE * BATCH],
    pub(crate) filled: usize,
}

impl Default for KernelMessages {
    fn default() -> Self {
        Self { bytes: [0; MESSAGE * BATCH], filled: 0 }
    }
}

impl KernelMessages {
    /// Whether the last read brought as many as there is room for, so that there may be more.
    pub fn is_full(&self) -> bool {
        self.filled == self.bytes.len()
    }

    /// The faults that the last read brought, in the kernel's order.
    pub fn faults(&self) -> impl Iterator<Item = KernelFault> {
        self.messages().filter(|message| message.event == raw::UFFD_EVENT_PAGEFAULT).map(|message| {
            let [flags, address, _] = message.words;
            let has = |flag: u32| flags & u64::from(flag) != 0;
            let cause = if has(raw::UFFD_PAGEFAULT_FLAG_WP) {
                KernelFaultCause::Protected
            } else if has(raw::UFFD_PAGEFAULT_FLAG_WRITE) {
                KernelFaultCause::Write
            } else {
                KernelFaultCause::Read
            };
            KernelFault { address: address as usize, cause }
        })
    }

    /// The changes that the last read brought, of those that were agreed upon.
    pub fn changes(&self) -> impl Iterator<Item = KernelChange> {
        self.messages().filter_map(|message| {
            let [first, second, third] = message.words.map(|word| word as usize);
            match message.event {
                raw::UFFD_EVENT_UNMAP => Some(KernelChange::Unmapped { range: first..second }),
                raw::UFFD_EVENT_REMAP => {
                    Some(KernelChange::Moved { range: first..first + third, to: second })
                }
                _ => None,
            }
        })
    }

    fn messages(&self) -> impl Iterator<Item = Message> {
        self.bytes[..self.filled].chunks_exact(MESSAGE).map(|message| {
            let word = |at: usize| {
                let mut word = [0; 8];
                word.copy_from_slice(&message[at..at + 8]);
                u64::from_ne_bytes(word)
            };
            Message { event: message[0].into(), words: [word(8), word(16), word(24)] }
        })
    }
}

/// One message, in the kernel's words.
struct Message {
    event: u32,
    words: [u64; 3],
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::io::Errno;
    use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap_fixed, munmap};

    use super::*;
    use crate::{DescriptorSource, FaultWatch, Features, Userfaultfd};

    const PAGE: usize = 4096;
    const PATIENCE: Duration = Duration::from_secs(20);

    fn map(pages: usize) -> usize {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which no thread touches.
        unsafe {
            mmap_anonymous(core::ptr::null_mut(), pages * PAGE, rights, MapFlags::PRIVATE).unwrap() as usize
        }
    }

    /// The next change that is told.
    fn next_change(userfaultfd: &Userfaultfd) -> KernelChange {
        let (mut messages, until) = (KernelMessages::default(), Instant::now() + PATIENCE);
        loop {
            if userfaultfd.read(&mut messages).unwrap() {
                let [change] = messages.changes().collect::<Vec<_>>().try_into().expect("one change");
                return change;
            }
            assert!(Instant::now() < until, "nothing is told");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_takes_a_range_away_is_told() {
        let userfaultfd = match Userfaultfd::open(DescriptorSource::UserModeOnly) {
            Err(Errno::PERM | Errno::NOSYS) => {
                println!("skipped: userfaultfd is not allowed here");
                return;
            }
            opened => opened.unwrap(),
        };
        let wanted = Features::EVENT_UNMAP.bits() | Features::EVENT_REMAP.bits();
        userfaultfd.agree(Features::from_bits(wanted)).unwrap();
        let (start, target) = (map(8), map(2));
        // SAFETY: memory of this test, which no thread touches.
        unsafe { userfaultfd.register(start, 8 * PAGE, FaultWatch::Missing).unwrap() };
        let page = move |number: usize| start + number * PAGE;
        // SAFETY: as above.
        let caller = std::thread::spawn(move || unsafe { munmap(page(1) as *mut _, PAGE) });
        assert_eq!(next_change(&userfaultfd), KernelChange::Unmapped { range: page(1)..page(2) });
        caller.join().unwrap().unwrap();
        // SAFETY: as above.
        let caller = std::thread::spawn(move || unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            mmap_anonymous(page(2) as *mut _, PAGE, ProtFlags::READ, flags).map(|_| ())
        });
        assert_eq!(next_change(&userfaultfd), KernelChange::Unmapped { range: page(2)..page(3) });
        caller.join().unwrap().unwrap();
        // SAFETY: as above.
        let caller = std::thread::spawn(move || unsafe {
            let flags = MremapFlags::MAYMOVE;
            mremap_fixed(page(4) as *mut _, 2 * PAGE, 2 * PAGE, flags, target as *mut _).map(|_| ())
        });
        assert_eq!(next_change(&userfaultfd), KernelChange::Moved { range: page(4)..page(6), to: target });
        assert_eq!(next_change(&userfaultfd), KernelChange::Unmapped { range: page(4)..page(6) });
        caller.join().unwrap().unwrap();
        // What is not registered any more is taken away without a word, since no handler would read it.
        // SAFETY: as above.
        unsafe {
            userfaultfd.unregister(page(6), 2 * PAGE).unwrap();
            munmap(page(6) as *mut _, 2 * PAGE).unwrap();
        }
        assert!(!userfaultfd.read(&mut KernelMessages::default()).unwrap());
    }
}
