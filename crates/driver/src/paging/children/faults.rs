//! The faults of a child, as its parent answers them.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use outboard_paging::application::{Cause, Change, Fault, ProcessAddress, Span};
use outboard_userfaultfd::{
    Features, KernelChange, KernelFault, KernelFaultCause, KernelMessages, Stopped, Userfaultfd, Wake,
};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};

use super::helper::REQUEST;

/// The news of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildNews {
    /// Nothing.
    Nothing,
    /// Its faults come here from now on.
    Began,
    /// It has thrown away the pages of the oldest request.
    ThrewAway,
    /// It has ended, or runs another program.
    Ended,
}

/// Why pages could not be given to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillError {
    /// The child has ended.
    Gone,
    /// The child is changing its mappings: read its faults, and try again.
    Later,
    /// Something is wrong.
    Failed(Errno),
}

impl From<Errno> for FillError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::SRCH => Self::Gone,
            Errno::AGAIN => Self::Later,
            errno => Self::Failed(errno),
        }
    }
}

/// The link between a child and its parent: the child's userfaultfd, and a socket to its helper thread. All addresses are the child's.
pub struct ChildFaults {
    socket: OwnedFd,
    /// Once the child has sent it.
    userfaultfd: Option<Userfaultfd>,
    can: Features,
}

impl ChildFaults {
    /// The child at the other end of a socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, userfaultfd: None, can: Features::NONE }
    }

    /// The socket, which is readable when there is news.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The descriptor that is readable when a thread of the child waits.
    pub fn faults(&self) -> Option<BorrowedFd<'_>> {
        self.userfaultfd.as_ref().map(AsFd::as_fd)
    }

    /// Whether pages can be watched, so that it is known which of them the child has written.
    pub fn can_watch(&self) -> bool {
        self.can.contains(Features::PAGEFAULT_FLAG_WP)
    }

    /// Takes the next news.
    pub fn hear(&mut self) -> ChildNews {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut bytes = [0; REQUEST];
        let received = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags);
        let received = match received {
            Ok(received) => received.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return ChildNews::Nothing,
            Err(_) => return ChildNews::Ended,
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.userfaultfd = descriptors.map(Userfaultfd::from).next();
                let mut features = [0; 8];
                features.copy_from_slice(&bytes[..8]);
                self.can = Features::from_bits(u64::from_ne_bytes(features));
                return ChildNews::Began;
            }
        }
        if received == 0 { ChildNews::Ended } else { ChildNews::ThrewAway }
    }

    /// Takes what the kernel has to tell of the child.
    pub fn read(&self, faults: &mut Vec<Fault>, changes: &mut Vec<Change>) -> Result<bool, FillError> {
        let Some(userfaultfd) = &self.userfaultfd else { return Ok(false) };
        let mut messages = KernelMessages::default();
        if !userfaultfd.read(&mut messages)? {
            return Ok(false);
        }
        faults.extend(messages.faults().map(|KernelFault { address, cause }| {
            let cause = match cause {
                KernelFaultCause::Read => Cause::Read,
                KernelFaultCause::Write => Cause::Write,
                KernelFaultCause::Protected => Cause::Protected,
            };
            Fault { address: ProcessAddress::new(address), cause }
        }));
        changes.extend(messages.changes().map(|change| {
            let (range, moved_to) = match change {
                KernelChange::Unmapped { range } => (range, None),
                KernelChange::Moved { range, to } => (range, Some(ProcessAddress::new(to))),
            };
            Change { span: Span { start: ProcessAddress::new(range.start), len: range.len() }, moved_to }
        }));
        Ok(true)
    }

    /// Copies bytes to those pages of the child that are absent, and tells of each run of them. They are watched if that was
    /// asked for and can be: a store to them is a fault. Those who wait there wait on.
    pub fn fill(
        &self,
        at: ProcessAddress,
        bytes: &[u8],
        is_watched: bool,
        filled: impl FnMut(Span),
    ) -> Result<(), FillError> {
        let Some(userfaultfd) = &self.userfaultfd else { return Err(FillError::Gone) };
        let (from, is_watched) = (bytes.as_ptr() as usize, is_watched && self.can_watch());
        let copy = |done, len| {
            // SAFETY: `bytes` are read; what is written is memory of another process, where a page that is there is refused.
            unsafe { userfaultfd.copy(from + done, at.plus(done).get(), len, is_watched, Wake::Later) }
        };
        runs(at, bytes.len(), copy, filled)
    }

    /// Makes those pages of the child zero that are absent. Those who wait there wait on.
    pub fn zero(&self, span: Span) -> Result<(), FillError> {
        let Some(userfaultfd) = &self.userfaultfd else { return Err(FillError::Gone) };
        let zero = |done, len| {
            // SAFETY: memory of another process, where a page that is there is refused.
            unsafe { userfaultfd.zero(span.start.plus(done).get(), len, Wake::Later) }
        };
        runs(span.start, span.len, zero, |_| {})
    }

    /// Lets the child store to pages from now on.
    pub fn allow(&self, span: Span) {
        if let Some(userfaultfd) = &self.userfaultfd {
            // SAFETY: memory of another process; that it changes is noted by those who call this.
            let _ = unsafe { userfaultfd.unprotect(span.start.get(), span.len) };
        }
    }

    /// Lets those who wait there try again.
    pub fn wake(&self, span: Span) {
        if let Some(userfaultfd) = &self.userfaultfd {
            let _ = userfaultfd.wake(span.start.get(), span.len);
        }
    }

    /// Makes absent pages of the child raise SIGBUS where they are touched. Returns false if that cannot be.
    pub fn poison(&self, span: Span) -> bool {
        let Some(userfaultfd) = &self.userfaultfd else { return false };
        // SAFETY: memory of another process, whose absent pages will not be brought.
        let poisoned = unsafe { userfaultfd.poison(span.start.get(), span.len, Wake::Now) };
        self.wake(span);
        matches!(poisoned, Ok(()) | Err(Stopped { errno: Errno::EXIST, .. }))
    }

    /// Has the child throw pages away, which it tells when it has. Returns false if it is too busy to be told.
    pub fn throw_away(&self, span: Span) -> bool {
        let mut request = [0; REQUEST];
        request[..8].copy_from_slice(&(span.start.get() as u64).to_ne_bytes());
        request[8..].copy_from_slice(&(span.len as u64).to_ne_bytes());
        send(&self.socket, &request, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
    }
}

/// Does something to all absent pages of a span, run by run.
fn runs(
    at: ProcessAddress,
    len: usize,
    step: impl Fn(usize, usize) -> Result<(), Stopped>,
    mut did: impl FnMut(Span),
) -> Result<(), FillError> {
    let page = rustix::param::page_size();
    let (mut done, mut part) = (0, len);
    let mut tell = |from: usize, len: usize| {
        if len > 0 {
            did(Span { start: at.plus(from), len });
        }
    };
    while done < len {
        let now = part.min(len - done);
        match step(done, now) {
            Ok(()) => {
                tell(done, now);
                done += now;
            }
            Err(Stopped { done: more, errno }) => {
                tell(done, more);
                done += more;
                match errno {
                    // The page is there.
                    Errno::EXIST => done += page,
                    _ if more > 0 => {}
                    // No mapping has all of it, or there is none.
                    Errno::NOENT if now > page => part = (now / 2).next_multiple_of(page),
                    Errno::NOENT => done += page,
                    errno => return Err(errno.into()),
                }
            }
        }
    }
    Ok(())
}
