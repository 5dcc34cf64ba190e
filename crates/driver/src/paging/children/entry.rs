//! The first moments of a child: it takes over the faults of its far memory, and hands them to its parent.
//!
//! It runs in the only thread of a process whose other threads are gone, with the locks that they held. So it allocates nothing, takes
//! no lock, and says what it has to say by a system call.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};

use outboard_userfaultfd::{DescriptorSource, FaultWatch, Features, Userfaultfd};
use rustix::io::Errno;
use rustix::mm::{Advice, MprotectFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::helper::{self, Post};

/// A range of addresses that the child has.
pub(super) struct PlannedRange {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) is_writable: bool,
}

/// All that a child has to know, made by its parent.
pub(super) struct Plan {
    /// How the parent got its userfaultfd.
    pub(super) route: DescriptorSource,
    /// The process that forks.
    pub(super) parent: u32,
    /// The child's end of the socket.
    pub(super) socket: OwnedFd,
    /// The parent's end, which the child has too.
    pub(super) others: RawFd,
    pub(super) ranges: Vec<PlannedRange>,
}

/// The first message of a child to its parent: what its kernel can do.
pub(super) fn abilities(features: Features) -> [u8; 8] {
    features.bits().to_ne_bytes()
}

/// Makes far memory of the child, or keeps it from being taken for zeros.
pub(super) fn enter(plan: &Plan) {
    close(plan.others);
    if let Err(errno) = take_over(plan) {
        for range in &plan.ranges {
            // SAFETY: the child's copy of a range; threads that touch it get SIGSEGV, where they would read zeros.
            let _ = unsafe { rustix::mm::mprotect(range.start as *mut _, range.len, MprotectFlags::empty()) };
        }
        helper::say(&[
            b"outboard: this child (process ",
            &helper::Digits::of(rustix::process::getpid().as_raw_nonzero().get().cast_unsigned()),
            b") has no far memory, touching it raises SIGSEGV: system error ",
            &helper::Digits::of(errno.raw_os_error().cast_unsigned()),
            b"\n",
        ]);
    }
    // The helper has its own; a program that looks at its descriptors finds none of these.
    close(plan.socket.as_raw_fd());
}

fn take_over(plan: &Plan) -> Result<(), Errno> {
    let (userfaultfd, there) = open(plan.route)?;
    let can_protect = there.contains(Features::PAGEFAULT_FLAG_WP);
    let watch = if can_protect { FaultWatch::MissingAndProtected } else { FaultWatch::Missing };
    for range in &plan.ranges {
        // SAFETY: the child's copy of a range of far memory, which no thread has touched: there is one, and it is here.
        unsafe { userfaultfd.register(range.start, range.len, watch)? };
        if !range.is_writable {
            // SAFETY: as above. Stores raise SIGSEGV, as they do in the parent.
            unsafe { rustix::mm::mprotect(range.start as *mut _, range.len, MprotectFlags::READ)? };
        }
        // SAFETY: as above; it changes nothing in this process. Its own children would read zeros.
        unsafe { rustix::mm::madvise(range.start as *mut _, range.len, Advice::LinuxDontFork)? };
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [userfaultfd.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let message = abilities(there);
    sendmsg(&plan.socket, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL)?;
    let descriptor = OwnedFd::from(userfaultfd).into_raw_fd();
    let post = Post {
        userfaultfd: descriptor,
        socket: plan.socket.as_raw_fd(),
        parent: plan.parent,
        can_poison: there.contains(Features::POISON),
    };
    let started = helper::start(post);
    close(descriptor);
    started
}

/// A userfaultfd like the parent's, or one for faults of the program alone if the process may not have that any more.
fn open(route: DescriptorSource) -> Result<(Userfaultfd, Features), Errno> {
    let try_open = |route| {
        let probe = Userfaultfd::open(route)?;
        let there = probe.agree(Features::NONE)?;
        drop(probe);
        let userfaultfd = Userfaultfd::open(route)?;
        let wanted =
            [Features::PAGEFAULT_FLAG_WP, Features::POISON, Features::EVENT_UNMAP, Features::EVENT_REMAP];
        let bits = wanted.map(Features::bits).iter().fold(0, |all, bit| all | bit) & there.bits();
        let agreed = Features::from_bits(bits);
        userfaultfd.agree(agreed)?;
        Ok((userfaultfd, agreed))
    };
    try_open(route).or_else(|_: Errno| try_open(DescriptorSource::UserModeOnly))
}

/// Closes a descriptor of which others have copies.
fn close(descriptor: RawFd) {
    // SAFETY: the child's copy of a descriptor whose owner is in memory that the child never drops.
    unsafe { rustix::io::close(descriptor) };
}
