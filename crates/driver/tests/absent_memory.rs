//! Bytes are read over TCP into memory that another thread provides when it is touched, and that the kernel does not
//! wait for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::ptr::NonNull;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use outboard_link::memory::{Buffer, Segment};
use outboard_link::tcp::{TcpConfig, TcpLink, TcpListener, connect};
use outboard_link::{AccessOutcome, Exports, Identity, RemoteMemory, Token, Waiter};
use outboard_userfaultfd::{DescriptorSource, FaultWatch, Features, KernelMessages, Userfaultfd, Wake};
use outboard_wire::{Generation, RegionId, RegionKey, Rights, Role};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Long enough for a loaded machine; nothing waits so long when all is well.
const PATIENCE: Duration = Duration::from_secs(20);
const LEN: usize = 1 << 16;
const PAGE: usize = 4096;

/// Memory without pages, which are to be provided; `None` where that is not allowed.
fn absent() -> Option<(Buffer, Userfaultfd)> {
    let userfaultfd = match Userfaultfd::open(DescriptorSource::UserModeOnly) {
        Err(Errno::PERM | Errno::NOSYS) => return None,
        opened => opened.unwrap(),
    };
    userfaultfd.agree(Features::NONE).unwrap();
    let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping, which is never taken away; it is touched by windows alone, and its faults are answered.
    let buffer = unsafe {
        let start = mmap_anonymous(core::ptr::null_mut(), LEN, flags.0, flags.1).unwrap();
        userfaultfd.register(start as usize, LEN, FaultWatch::Missing).unwrap();
        Buffer::from_raw(NonNull::new(start.cast()).unwrap(), LEN, Box::new(()))
    };
    Some((buffer, userfaultfd))
}

/// Ends the other threads with the test, however it ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Gives a page to each thread that waits for one, until told to stop. Counts them.
fn provide(userfaultfd: &Userfaultfd, is_over: &AtomicBool, provided: &AtomicUsize) {
    let page = Buffer::allocate(PAGE).unwrap();
    let from = page.window().as_ptr() as usize;
    let mut messages = KernelMessages::default();
    while !is_over.load(Ordering::Acquire) {
        if !userfaultfd.read(&mut messages).unwrap() {
            std::thread::yield_now();
            continue;
        }
        for fault in messages.faults() {
            // Before the thread that waits goes on.
            provided.fetch_add(1, Ordering::Release);
            // SAFETY: a page of ours, to where a thread waits for one.
            unsafe { userfaultfd.copy(from, fault.address & !(PAGE - 1), PAGE, false, Wake::Now) }.unwrap();
        }
    }
}

/// Serves one link until it is closed.
fn serve(listener: &TcpListener) {
    let waiter = Waiter::new();
    let mut accepting = loop {
        if let Some(accepting) = listener.accept(waiter.clock.now()).unwrap() {
            break accepting;
        }
        std::thread::yield_now();
    };
    let mut link = loop {
        if let Some(link) = accepting.poll(waiter.clock.now()).unwrap() {
            break link;
        }
        std::thread::yield_now();
    };
    let _ = waiter.until(&mut link, PATIENCE, "the end", |_| Ok(None::<()>));
}

fn ended(waiter: &Waiter, link: &mut TcpLink) -> AccessOutcome {
    let outcome = waiter.until(link, PATIENCE, "an operation", |link| {
        let mut outcome = None;
        link.completions(|completion| outcome = Some(completion.result.unwrap()));
        Ok(outcome)
    });
    outcome.unwrap()
}

#[test]
fn a_read_into_memory_that_the_kernel_does_not_wait_for_brings_its_bytes() {
    let memory = Arc::new(Segment::create(c"test", LEN).unwrap());
    let bytes: Vec<u8> = (0..LEN).map(|at| (at * 7 + at / 251) as u8).collect();
    memory.window_mut(0, LEN).write(0, &bytes);
    memory.set_quiet(true);
    let keys = vec![(RegionKey([1; 16]), Rights::READ)];
    let export = outboard_link::Export { region: RegionId(1), generation: Generation(0), memory, keys };
    let grant = export.grant(0).unwrap();
    let exports = Exports::new();
    exports.add(export);
    let identity = |name| Identity::new(Role::Tool, name);
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(anywhere, identity("owner"), exports, TcpConfig::default()).unwrap();
    let Some((buffer, userfaultfd)) = absent() else {
        println!("skipped: userfaultfd is not allowed here");
        return;
    };
    let (is_over, provided) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener));
        scope.spawn(|| provide(&userfaultfd, &is_over, &provided));
        let (waiter, exports) = (Waiter::new(), Exports::new());
        let _over = Over(&is_over);
        let mut link =
            connect(listener.address(), identity("reader"), exports, TcpConfig::default()).unwrap();
        link.open(&grant, Rights::READ, Token(0)).unwrap();
        let AccessOutcome::Opened(region) = ended(&waiter, &mut link) else { panic!("not open") };
        link.read(region, 0, &buffer, 0, LEN, Token(1)).unwrap();
        assert_eq!(ended(&waiter, &mut link), AccessOutcome::Read);
        assert!(buffer.window().to_vec() == bytes);
        assert_eq!(provided.load(Ordering::Acquire), LEN / PAGE);
    });
}
