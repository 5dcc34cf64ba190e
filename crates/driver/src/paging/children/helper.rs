//! A thread of the child that no library knows of. It holds the child's userfaultfd, throws pages away that the parent has copied in
//! and no thread has written, and answers faults when the parent is gone: with SIGBUS, never with zeros.
//!
//! It is made by the kernel's `clone` alone, with a stack of its own and no storage of its own for thread-local things, so it calls
//! nothing that uses such: system calls by `rustix`, which are the kernel's. It has descriptors of its own: whatever a program does
//! to its, the userfaultfd stays open until the process ends or runs another program. If it were closed before, the kernel would
//! fill absent pages with zeros.

use core::ffi::c_void;
use std::fmt;
use std::ops::Deref;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use outboard_userfaultfd::{KernelFaultCause, KernelMessages, Userfaultfd, Wake};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, Signal, getpid, kill_process, pidfd_getfd, pidfd_open};

use super::super::copying::throw_away;

/// How much stack the thread has, of which it uses a few pages.
const STACK: usize = 256 << 10;
/// A request of the parent, and the answer: where pages to be thrown away begin, and how many bytes they have.
pub(super) const REQUEST: usize = 16;

/// The descriptor of a process that is its standard error.
const STANDARD_ERROR: RawFd = 2;

/// The things that the thread needs to know.
#[derive(Clone, Copy)]
pub(super) struct Post {
    pub(super) userfaultfd: RawFd,
    pub(super) socket: RawFd,
    /// The process that has forked this one.
    pub(super) parent: u32,
    pub(super) can_poison: bool,
}

/// Starts the thread.
pub(super) fn start(post: Post) -> Result<(), Errno> {
    let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let stack = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), STACK, rights, flags)? };
    // SAFETY: the mapping made above. Only this process has the thread that it is for.
    unsafe { rustix::mm::madvise(stack, STACK, Advice::LinuxDontFork)? };
    // SAFETY: the mapping made above, which begins at a page and has room for it below the stack.
    unsafe { stack.cast::<Post>().write(post) };
    let flags =
        libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_SYSVSEM;
    // SAFETY: the stack is the thread's own and is never unmapped, and the thread does what this module says of it.
    let started = unsafe { libc::clone(run, stack.cast::<u8>().add(STACK).cast(), flags, stack) };
    if started < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN));
    }
    Ok(())
}

extern "C" fn run(post: *mut c_void) -> libc::c_int {
    // SAFETY: written by `start`, and never changed.
    let post = unsafe { post.cast::<Post>().read() };
    close_others(&post);
    // SAFETY: open as long as the process lives.
    let socket = unsafe { BorrowedFd::borrow_raw(post.socket) };
    let mut request = [0_u8; REQUEST];
    loop {
        match recv(socket, &mut request[..], RecvFlags::empty()) {
            Ok((REQUEST, _)) => {
                let [start, len] = words(&request);
                // SAFETY: the parent has copied these pages here, they are protected against stores, and it brings them again.
                let _ = unsafe { throw_away(start, len) };
                // A parent that is gone is found by the next receipt.
                let _ = send(socket, &request, SendFlags::NOSIGNAL);
            }
            Err(Errno::INTR) => {}
            // The parent has ended, or its far memory has.
            _ => go_on_alone(&post),
        }
    }
}

fn words(request: &[u8; REQUEST]) -> [usize; 2] {
    let mut words = [[0; 8]; 2];
    for (word, bytes) in words.iter_mut().zip(request.chunks_exact(8)) {
        word.copy_from_slice(bytes);
    }
    words.map(|word| u64::from_ne_bytes(word) as usize)
}

/// Closes this thread's copies of all descriptors but two. Nothing else would close those of pipes when the program does.
fn close_others(post: &Post) {
    let (low, high) = (post.userfaultfd.min(post.socket), post.userfaultfd.max(post.socket));
    let spans = [(0, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)];
    for (first, last) in spans.into_iter().filter(|(first, last)| first <= last) {
        // SAFETY: this thread's own descriptors, which no code knows of.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

/// Answers faults with SIGBUS, or ends the process where the kernel cannot do that.
fn go_on_alone(post: &Post) -> ! {
    // SAFETY: this thread's own, which it keeps until the process ends.
    let userfaultfd = Userfaultfd::from(unsafe { OwnedFd::from_raw_fd(post.userfaultfd) });
    let page = rustix::param::page_size();
    let mut messages = KernelMessages::default();
    let mut has_said = false;
    wake_all(&userfaultfd);
    loop {
        // SAFETY: open as long as the process lives.
        let borrowed = unsafe { BorrowedFd::borrow_raw(post.userfaultfd) };
        let _ = poll(&mut [PollFd::from_borrowed_fd(borrowed, PollFlags::IN)], None);
        if !userfaultfd.read(&mut messages).unwrap_or(false) {
            continue;
        }
        for fault in messages.faults() {
            let at = fault.address & !(page - 1);
            if fault.cause == KernelFaultCause::Protected {
                // SAFETY: the page is the program's; it was protected to find out whether it changes.
                let _ = unsafe { userfaultfd.unprotect(at, page) };
                let _ = userfaultfd.wake(at, page);
                continue;
            }
            if !has_said {
                has_said = true;
                tell(post);
            }
            if !post.can_poison {
                let _ = kill_process(getpid(), Signal::KILL);
            }
            // SAFETY: nothing will bring the page.
            let _ = unsafe { userfaultfd.poison(at, page, Wake::Now) };
            let _ = userfaultfd.wake(at, page);
        }
    }
}

/// Lets all threads try again that wait: the parent may have taken the messages of some, and answered none.
fn wake_all(userfaultfd: &Userfaultfd) {
    /// No kernel maps anything below, so that all addresses from here on can be named.
    const LOWEST: usize = 1 << 16;
    let page = rustix::param::page_size();
    // As many addresses as there are, which is another number on each machine.
    for bits in (38..usize::BITS).rev() {
        if userfaultfd.wake(LOWEST, (1_usize << bits) - page - LOWEST).is_ok() {
            return;
        }
    }
}

fn tell(post: &Post) {
    say_for_the_program(&[
        b"outboard: process ",
        &Digits::of(getpid().as_raw_nonzero().get().cast_unsigned()),
        b" needs far memory of process ",
        &Digits::of(post.parent),
        b", which has forked it and serves it no longer: touching that raises SIGBUS\n",
    ]);
}

/// Says something as the thread, whose standard error is closed: by that of the program, whatever it is now.
fn say_for_the_program(parts: &[&[u8]]) {
    let program = pidfd_open(getpid(), PidfdFlags::empty());
    if let Ok(file) =
        program.and_then(|program| pidfd_getfd(program, STANDARD_ERROR, PidfdGetfdFlags::empty()))
    {
        write_all(&file, parts);
    }
}

/// Says something where people look.
pub(super) fn say(parts: &[&[u8]]) {
    write_all(rustix::stdio::stderr(), parts);
}

/// As one line, however many others write.
fn write_all(to: impl std::os::fd::AsFd, parts: &[&[u8]]) {
    let mut line = [0; 240];
    let mut filled = 0;
    for part in parts {
        let len = part.len().min(line.len() - filled);
        line[filled..filled + len].copy_from_slice(&part[..len]);
        filled += len;
    }
    // There is no caller to tell if this fails.
    let _ = rustix::io::write(to, &line[..filled]);
}

/// A number as people write it.
pub(super) struct Digits {
    digits: [u8; 10],
    from: usize,
}

impl Digits {
    pub(super) fn of(mut number: u32) -> Self {
        let mut all = Self { digits: [b'0'; 10], from: 10 };
        loop {
            all.from -= 1;
            all.digits[all.from] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return all;
            }
        }
    }
}

impl Deref for Digits {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.digits[self.from..]
    }
}

impl fmt::Debug for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_without_an_allocation() {
        for number in [0, 7, 10, 4_194_304, u32::MAX] {
            assert_eq!(&*Digits::of(number), number.to_string().as_bytes());
        }
    }
}
