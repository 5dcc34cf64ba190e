//! What processes do that use far memory in odd ways.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use outboard::{Advice, FarMapping, FarMemory, Path, RegionOptions};
use outboard_e2e::PATIENCE;
use rustix::fd::AsFd;
use rustix::io::Errno;

use super::user::{CHUNK, CHUNKS, EXPECTED, SURVIVED, hear, say, tell_of};
use super::words;

/// The region that a test has made for them.
pub(super) const NAME: &str = "common";
/// How often the process forks.
const FORKS: u64 = 20;
const THREADS: usize = 3;

fn direct() -> RegionOptions {
    RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() }
}

/// Stores to a chunk of a read-only region: at first here, then not here.
pub(super) fn store(memory: &FarMemory, has_handler: bool) -> i32 {
    let slice = memory.open::<u64>(NAME, &direct()).expect("the region is there");
    let mapping = slice.mapping();
    assert!(!mapping.is_writable());
    (0..CHUNKS).for_each(|chunk| words(mapping).touch(chunk * CHUNK));
    if has_handler {
        tell_of(libc::SIGSEGV, mapping);
        // Not here any more, for there is room for a few.
        words(mapping).write(3 * CHUNK + 100, &[1]);
    } else {
        words(mapping).touch(7 * CHUNK);
        words(mapping).write(7 * CHUNK, &[1]);
    }
    say("survived");
    SURVIVED
}

/// One of its threads gets SIGSEGV at a page of a chunk that is not here, and another one SIGBUS at the same chunk once
/// the server is gone.
pub(super) fn store_and_lose(memory: &FarMemory) -> i32 {
    let region = RegionOptions { chunk: 4 * CHUNK, ..direct() };
    let slice = memory.open::<u64>(NAME, &region).expect("the region is there");
    let mapping = slice.mapping();
    EXPECTED.store(2, Ordering::Relaxed);
    tell_of(libc::SIGSEGV, mapping);
    tell_of(libc::SIGBUS, mapping);
    thread::scope(|scope| {
        scope.spawn(|| words(mapping).write(5 * CHUNK, &[1]));
        say("working");
        hear();
        words(mapping).touch(6 * CHUNK);
        say("survived");
        SURVIVED
    })
}

/// Where the region of a process begins whose handler touches it, and how often it has.
static TOUCHED: AtomicUsize = AtomicUsize::new(0);
static TOUCHES: AtomicUsize = AtomicUsize::new(0);

extern "C" fn touch_in_handler(_: libc::c_int) {
    let chunk = TOUCHES.fetch_add(1, Ordering::Relaxed) * 7 % CHUNKS;
    // SAFETY: the region is mapped until no more signals are sent.
    unsafe { ((TOUCHED.load(Ordering::Relaxed) + chunk * CHUNK) as *const u8).read_volatile() };
}

/// Calls everything that can be called while signals come whose handler touches far memory.
pub(super) fn handle(memory: &FarMemory) -> i32 {
    let mut mapping = memory.reserve((CHUNKS * CHUNK) as u64, &direct()).expect("the server has room");
    TOUCHED.store(mapping.as_ptr().as_ptr() as usize, Ordering::Relaxed);
    // SAFETY: the handler makes no calls; `signal` and `pthread_self` have no conditions.
    let me = unsafe {
        libc::signal(libc::SIGUSR1, touch_in_handler as *const () as libc::sighandler_t);
        libc::pthread_self()
    };
    let must_stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !must_stop.load(Ordering::Relaxed) {
                // SAFETY: the thread lives longer than this one.
                unsafe { libc::pthread_kill(me, libc::SIGUSR1) };
                thread::yield_now();
            }
        });
        let until = Instant::now() + PATIENCE;
        for turn in 0.. {
            // However few signals come on a busy machine, some do at last.
            let is_enough = turn >= 300 && TOUCHES.load(Ordering::Relaxed) > 100;
            if is_enough || Instant::now() >= until {
                break;
            }
            let span = turn % 60 * CHUNK..(turn % 60 + 2) * CHUNK;
            words(&mapping).write(span.start, &[1]);
            mapping.advise(span.clone(), Advice::DontNeed).expect("it is inside");
            mapping.advise(span.clone(), Advice::WillNeed).expect("it is inside");
            mapping.pin(span).expect("there is room");
            mapping.flush().expect("the server is there");
            mapping.unpin();
            assert!(memory.stats().saves > 0);
            drop(memory.reserve(1, &direct()).expect("the server has room"));
        }
        must_stop.store(true, Ordering::Relaxed);
    });
    assert!(TOUCHES.load(Ordering::Relaxed) > 100);
    say("handlers and calls got along");
    SURVIVED
}

/// Forks while threads add to words of far memory; no child may touch it, and no addition may be lost.
pub(super) fn fork(memory: &FarMemory) -> i32 {
    let mapping = memory.reserve((CHUNKS * CHUNK) as u64, &direct()).expect("the server has room");
    let must_stop = AtomicBool::new(false);
    let rounds: u64 = thread::scope(|scope| {
        let (mapping, must_stop) = (&mapping, &must_stop);
        let threads: Vec<_> =
            (0..THREADS).map(|_| scope.spawn(move || add_all(mapping, must_stop))).collect();
        for turn in 0..FORKS {
            fork_once(mapping, turn % 2 == 0);
        }
        must_stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("it adds")).sum()
    });
    mapping.flush().expect("the server is there");
    for chunk in 0..CHUNKS {
        let mut word = [0; 8];
        words(&mapping).read(chunk * CHUNK, &mut word);
        assert_eq!(u64::from_ne_bytes(word), rounds, "chunk {chunk}");
    }
    // Another program is nothing special either.
    let status = std::process::Command::new("true").status().expect("there is such a program");
    assert!(status.success());
    words(&mapping).touch(5 * CHUNK);
    say("forked and kept everything");
    SURVIVED
}

/// Adds one to a word of every chunk, again and again. Returns how often.
fn add_all(mapping: &FarMapping, must_stop: &AtomicBool) -> u64 {
    let mut rounds = 0;
    while !must_stop.load(Ordering::Relaxed) {
        (0..CHUNKS).for_each(|chunk| words(mapping).add(chunk * CHUNK, 1));
        rounds += 1;
    }
    rounds
}

/// The child does nothing, or touches far memory, which it does not have.
fn fork_once(mapping: &FarMapping, touches: bool) {
    let bytes = words(mapping);
    // SAFETY: the child makes no call that a child of many threads must not make.
    let child = unsafe { libc::fork() };
    if child == 0 {
        if touches {
            // SAFETY: sets what any program begins with.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            bytes.touch(0);
        }
        // SAFETY: ends the child without a word to anybody.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0, "no more processes");
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if touches {
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:x}");
    } else {
        assert_eq!(status, 0);
    }
}

/// System calls on far memory that is not here fail, and work once it is pinned.
pub(super) fn unprivileged(memory: &FarMemory) -> i32 {
    let explained = memory.explain().join("\n");
    if !explained.contains("EFAULT") {
        // Somebody has allowed everybody to have kernel faults handled.
        say(&format!("privileged: {explained}"));
        return SURVIVED;
    }
    let mut mapping = memory.reserve((CHUNKS * CHUNK) as u64, &direct()).expect("the server has room");
    let zeros = std::fs::File::open("/dev/zero").expect("there are zeros");
    let read = |mapping: &FarMapping, chunk: usize| {
        let start = mapping.as_ptr().as_ptr() as usize + chunk * CHUNK;
        // SAFETY: inside the region, and nobody else uses it.
        let bytes = unsafe { core::slice::from_raw_parts_mut(start as *mut u8, CHUNK) };
        rustix::io::read(zeros.as_fd(), bytes)
    };
    assert_eq!(read(&mapping, 9), Err(Errno::FAULT));
    words(&mapping).write(9 * CHUNK, &[7]);
    mapping.prefault(9 * CHUNK..10 * CHUNK).expect("it is inside");
    assert_eq!(read(&mapping, 9), Ok(CHUNK));
    let mut byte = [1];
    words(&mapping).read(9 * CHUNK, &mut byte);
    assert_eq!(byte, [0]);
    // What is pinned stays, whatever else is used.
    mapping.pin(10 * CHUNK..12 * CHUNK).expect("there is room");
    (0..CHUNKS).for_each(|chunk| words(&mapping).write(chunk * CHUNK, &[7]));
    assert_eq!([read(&mapping, 10), read(&mapping, 11)], [Ok(CHUNK); 2]);
    mapping.flush().expect("the server is there");
    assert_eq!([read(&mapping, 10), read(&mapping, 11)], [Ok(CHUNK); 2]);
    say("system calls failed and worked");
    SURVIVED
}
