//! What processes do that fork, and what their children do.

use std::io::BufRead;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use outboard::{FarError, FarMapping, FarMemory, Path, RegionOptions};
use outboard_e2e::{Random, await_state, seed};
use rustix::fd::AsFd;
use rustix::pipe::pipe;

use super::super::bytes::Bytes;
use super::super::user::say;
use super::super::words;
use super::part::{CHUNK, ForkedChild, reserve};

const CHUNKS: usize = 96;
pub(super) const BYTES: usize = CHUNKS * CHUNK;
const WORDS: usize = BYTES / 8;
const THREADS: usize = 3;
/// How often a process forks.
const FORKS: usize = 16;
/// How many children live at once.
const LIVING_MAX: usize = 3;

fn word(bytes: Bytes, index: usize) -> u64 {
    let mut word = [0; 8];
    bytes.read(index * 8, &mut word);
    u64::from_ne_bytes(word)
}

fn put(bytes: Bytes, index: usize, value: u64) {
    bytes.write(index * 8, &value.to_ne_bytes());
}

/// Far memory, and plain memory that has what it should have.
struct Pair {
    far: Bytes,
    near: Vec<AtomicU64>,
}

impl Pair {
    fn new(mapping: &FarMapping) -> Self {
        let far = words(mapping);
        Self { far, near: (0..far.len() / 8).map(|_| AtomicU64::new(0)).collect() }
    }

    fn put(&self, index: usize, value: u64) {
        put(self.far, index, value);
        self.near[index].store(value, Ordering::Relaxed);
    }

    /// Compares words of far memory with those of plain memory.
    fn check(&self, indices: impl Iterator<Item = usize>) {
        for index in indices {
            let (far, near) = (word(self.far, index), self.near[index].load(Ordering::Relaxed));
            assert_eq!(far, near, "word {index}, in chunk {}", index * 8 / CHUNK);
        }
    }
}

/// What a thread writes: some words of its own here and there, or all that it has of a chunk.
fn write_some(pair: &Pair, thread: usize, random: &mut Random) {
    let own = |index: usize| index / THREADS * THREADS + thread;
    if random.once_in(4) {
        let chunk = random.below(CHUNKS as u64) as usize * CHUNK / 8;
        let value = random.next();
        (chunk..chunk + CHUNK / 8 - THREADS)
            .step_by(THREADS)
            .for_each(|index| pair.put(own(index), value ^ index as u64));
    } else {
        for _ in 0..20 {
            pair.put(own(random.below((WORDS - THREADS) as u64) as usize), random.next());
        }
    }
}

/// What a child does with what it sees, by turns.
fn look(pair: &Pair, turn: usize, random: &mut Random) {
    match turn % 4 {
        0 => pair.check(0..WORDS),
        1 => pair.check((0..WORDS).rev()),
        2 => {
            // It writes, which no other process sees, and finds both.
            for _ in 0..300 {
                pair.put(random.below(WORDS as u64) as usize, random.next());
            }
            pair.check(0..WORDS);
            pair.check((0..WORDS).step_by(7));
        }
        _ => {
            (0..2000).for_each(|_| pair.check(std::iter::once(random.below(WORDS as u64) as usize)));
            pair.check(0..WORDS);
        }
    }
}

/// Has threads stop, also if the test has failed.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn churn(memory: &FarMemory, has_agent: bool) {
    let path = if has_agent { Path::Agent } else { Path::Direct };
    let region = RegionOptions { chunk: CHUNK, path, ..Default::default() };
    let mut mapping = memory.reserve((CHUNKS * CHUNK) as u64, &region).expect("the server has room");
    let (pair, lock, must_stop) = (Pair::new(&mapping), RwLock::new(()), AtomicBool::new(false));
    let seed = seed();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pair, lock, must_stop) = (&pair, &lock, &must_stop);
            scope.spawn(move || {
                let mut random = Random::new(seed + thread as u64);
                while !must_stop.load(Ordering::Relaxed) {
                    let _goes = lock.read();
                    write_some(pair, thread, &mut random);
                }
            });
        }
        let _stop = Stop(&must_stop);
        let mut random = Random::new(seed + 100);
        let mut living = Vec::new();
        for turn in 0..FORKS {
            if turn == 2 {
                say("forking");
            }
            if living.len() == LIVING_MAX {
                let child: ForkedChild = living.swap_remove(random.below(LIVING_MAX as u64) as usize);
                child.succeeded();
            }
            let stands = lock.write();
            if random.once_in(2) {
                discard(&mut mapping, &pair, &mut random);
            }
            living.push(ForkedChild::of(|| look(&pair, turn, &mut Random::new(seed + turn as u64))));
            drop(stands);
        }
        living.into_iter().for_each(ForkedChild::succeeded);
    });
    pair.check(0..WORDS);
    assert!(memory.stats().saves > 0, "nothing was written back");
    say("every child saw what was there");
}

fn discard(mapping: &mut FarMapping, pair: &Pair, random: &mut Random) {
    let first = random.below(CHUNKS as u64 - 8) as usize;
    let chunks = first..first + 1 + random.below(8) as usize;
    mapping.discard(chunks.start * CHUNK..chunks.end * CHUNK).expect("the server is there");
    pair.near[chunks.start * CHUNK / 8..chunks.end * CHUNK / 8]
        .iter()
        .for_each(|word| word.store(0, Ordering::Relaxed));
}

pub(super) fn count(memory: &FarMemory) {
    let mapping = reserve(memory, CHUNKS);
    let far = words(&mapping);
    let must_stop = AtomicBool::new(false);
    // How many passes each thread has begun, and ended.
    let [begun, ended] = [(); 2].map(|()| [const { AtomicU64::new(0) }; THREADS]);
    let of_thread = |thread: usize| (thread..WORDS).step_by(64 * THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (begun, ended, must_stop) = (&begun[thread], &ended[thread], &must_stop);
            scope.spawn(move || {
                for pass in 1.. {
                    if must_stop.load(Ordering::Relaxed) {
                        break;
                    }
                    begun.store(pass, Ordering::SeqCst);
                    of_thread(thread).for_each(|index| far.add(index * 8, 1));
                    ended.store(pass, Ordering::SeqCst);
                }
            });
        }
        let _stop = Stop(&must_stop);
        for _ in 0..FORKS / 2 {
            let least: Vec<u64> = ended.iter().map(|ended| ended.load(Ordering::SeqCst)).collect();
            let (from, to) = pipe().expect("there are pipes");
            let child = ForkedChild::of(|| {
                for (thread, least) in least.iter().enumerate() {
                    let seen: Vec<u64> = of_thread(thread).map(|index| word(far, index)).collect();
                    assert!(seen.iter().all(|word| word >= least), "less than {least}: {seen:?}");
                    // Not in order, so that what has come back is looked at too.
                    for (at, index) in of_thread(thread).enumerate().collect::<Vec<_>>().into_iter().rev() {
                        assert_eq!(word(far, index), seen[at], "word {index}");
                    }
                    let most = seen.iter().max().copied().unwrap_or(0);
                    rustix::io::write(&to, &most.to_ne_bytes()).expect("the parent reads");
                }
            });
            let most: Vec<u64> = begun.iter().map(|begun| begun.load(Ordering::SeqCst)).collect();
            child.succeeded();
            for most in most {
                let mut seen = [0; 8];
                assert_eq!(rustix::io::read(&from, &mut seen), Ok(8));
                assert!(u64::from_ne_bytes(seen) <= most, "{} of {most}", u64::from_ne_bytes(seen));
            }
        }
    });
    say("every child saw words that stood still");
}

/// How many bytes of memory of its own a process has, in KiB.
fn own_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is /proc");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("the kernel tells");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

pub(super) fn read_all(memory: &FarMemory) {
    const MANY: usize = 2048;
    let mapping = reserve(memory, MANY);
    let far = words(&mapping);
    let indices = || (0..MANY * CHUNK / 8).step_by(512);
    indices().for_each(|index| put(far, index, index as u64 + 1));
    ForkedChild::of(|| {
        let before = own_memory();
        for _ in 0..2 {
            indices().for_each(|index| assert_eq!(word(far, index), index as u64 + 1));
            let more = own_memory().saturating_sub(before);
            assert!(more < 8 << 10, "{more} KiB of {} are in the child", (MANY * CHUNK) >> 10);
        }
        // What it writes is its own, and stays.
        indices().for_each(|index| put(far, index, 7));
        indices().for_each(|index| assert_eq!(word(far, index), 7));
    })
    .succeeded();
    indices().for_each(|index| assert_eq!(word(far, index), index as u64 + 1));
    say("the child had little of it at a time");
}

pub(super) fn exec(memory: &FarMemory) {
    let mapping = reserve(memory, CHUNKS);
    let far = words(&mapping);
    let fill = |value: u64| (0..WORDS).step_by(64).for_each(|index| put(far, index, value));
    for turn in 1..6 {
        fill(turn);
        // SAFETY: a program with arguments that end.
        let child = ForkedChild::of(|| unsafe {
            let program = c"/bin/true".as_ptr();
            libc::execv(program, [program, std::ptr::null()].as_ptr());
            panic!("there is no such program");
        });
        fill(turn + 1);
        child.succeeded();
        let status = Command::new("true").status().expect("there is such a program");
        assert!(status.success());
        // SAFETY: a command that ends.
        assert_eq!(unsafe { libc::system(c"exit 3".as_ptr()) }, 3 << 8);
    }
    (0..WORDS).step_by(64).for_each(|index| assert_eq!(word(far, index), 6));
    mapping.flush().expect("the server is there");
    say("programs were started");
}

pub(super) fn refused(memory: &FarMemory) {
    let mapping = reserve(memory, CHUNKS);
    let far = words(&mapping);
    (0..WORDS).for_each(|index| put(far, index, index as u64));
    let mut kept = Some(mapping);
    let child = ForkedChild::of(|| {
        let mapping = kept.as_mut().expect("it is there");
        let region = RegionOptions::default();
        let is_parents = |error: FarError| {
            assert!(matches!(error, FarError::OfParent { process, .. } if process == parent()), "{error}");
        };
        is_parents(memory.reserve(1, &region).err().expect("it takes threads"));
        is_parents(mapping.flush().expect_err("it takes threads"));
        is_parents(mapping.discard(0..CHUNK).expect_err("it takes threads"));
        is_parents(mapping.prefault(0..CHUNK).expect_err("it takes threads"));
        is_parents(mapping.try_read(0, &mut [0], Duration::ZERO).expect_err("it takes threads"));
        assert!(memory.explain()[0].contains("forked"), "{:?}", memory.explain());
        // Its own children have none of it, and start programs as ever.
        ForkedChild::of(|| far.touch(0)).killed_by(libc::SIGSEGV);
        assert!(Command::new("true").status().expect("there is such a program").success());
        // What it drops is its parent's.
        drop(kept.take());
        (0..WORDS).for_each(|index| assert_eq!(word(far, index), index as u64));
    });
    child.succeeded();
    drop(kept);
    say("the child got errors");
}

fn parent() -> u32 {
    rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get().cast_unsigned())
}

/// Does something to a part of the child's addresses.
fn remap_part(far: Bytes, part: Range<usize>) {
    let start = far.address(part.start);
    let len = part.len();
    // SAFETY: addresses of this child, which no other code of it uses meanwhile; what is mapped in their place is its own.
    unsafe {
        let moved = libc::mremap(start, len, len, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, elsewhere(len));
        assert_ne!(moved, libc::MAP_FAILED);
        let bytes = Bytes::new(moved.cast(), len);
        for index in 0..len / 8 {
            assert_eq!(word(bytes, index), (part.start / 8 + index) as u64);
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        assert_eq!(libc::mmap(start, len, rights, flags, -1, 0), start);
    }
    for index in part.start / 8..part.end / 8 {
        assert_eq!(word(far, index), 0);
        put(far, index, 5);
    }
}

/// Where nothing is mapped that is of use.
fn elsewhere(len: usize) -> *mut libc::c_void {
    // SAFETY: a new mapping.
    unsafe {
        libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }
}

pub(super) fn remap(memory: &FarMemory) {
    let mapping = reserve(memory, CHUNKS);
    let far = words(&mapping);
    (0..WORDS).for_each(|index| put(far, index, index as u64));
    let part = 30 * CHUNK..50 * CHUNK;
    let inside = |index: &usize| part.contains(&(index * 8));
    ForkedChild::of(|| {
        (20 * CHUNK / 8..40 * CHUNK / 8).for_each(|index| assert_eq!(word(far, index), index as u64));
        remap_part(far, part.clone());
        // What lies there now is not thrown away when something else is read.
        for _ in 0..3 {
            (0..WORDS)
                .filter(|index| !inside(index))
                .for_each(|index| assert_eq!(word(far, index), index as u64));
            (0..WORDS).filter(inside).for_each(|index| assert_eq!(word(far, index), 5));
        }
        // A system call waits for what is not here, or says so.
        let (from, to) = pipe().expect("there are pipes");
        let mut bytes = [0; 64];
        // SAFETY: inside the child's far memory, which nothing writes.
        let source = unsafe { core::slice::from_raw_parts(far.address(8).cast::<u8>(), 64) };
        match rustix::io::write(to.as_fd(), source) {
            Ok(len) => {
                assert_eq!((len, rustix::io::read(from.as_fd(), &mut bytes)), (64, Ok(64)));
                assert_eq!(bytes[..8], 1u64.to_ne_bytes());
            }
            Err(errno) => assert_eq!(errno, rustix::io::Errno::FAULT),
        }
    })
    .succeeded();
    say("the child moved and unmapped");
}

pub(super) fn free(memory: &FarMemory) {
    let mapping = reserve(memory, CHUNKS);
    let far = words(&mapping);
    (0..WORDS).for_each(|index| put(far, index, index as u64));
    let (from, to) = pipe().expect("there are pipes");
    let child = ForkedChild::of(|| {
        assert_eq!(rustix::io::read(&from, &mut [0]), Ok(1));
        (0..WORDS).for_each(|index| assert_eq!(word(far, index), index as u64));
    });
    drop(mapping);
    // At the same addresses, perhaps.
    let other = reserve(memory, CHUNKS);
    (0..WORDS).for_each(|index| put(words(&other), index, 3));
    assert_eq!(rustix::io::write(&to, &[1]), Ok(1));
    child.succeeded();
    other.free().expect("the server is there");
    say("the child saw what was freed");
}

extern "C" fn on_bus_error(_: libc::c_int) {
    let _ = rustix::io::write(rustix::stdio::stdout(), b"\nthe child has got SIGBUS\n");
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(9) };
}

pub(super) fn fill(memory: &FarMemory) {
    let mapping = reserve(memory, CHUNKS);
    let far = words(&mapping);
    let fill = |value: usize| (0..WORDS).for_each(|index| put(far, index, (value + index) as u64));
    fill(0);
    mapping.flush().expect("there is room");
    let (from, to) = pipe().expect("there are pipes");
    let child = ForkedChild::of(|| {
        // SAFETY: the handler uses nothing that a handler must not use.
        unsafe { libc::signal(libc::SIGBUS, on_bus_error as *const () as libc::sighandler_t) };
        assert_eq!(rustix::io::read(&from, &mut [0]), Ok(1));
        (0..WORDS).for_each(|index| assert_eq!(word(far, index), index as u64));
    });
    fill(1);
    await_state("room at the server", || mapping.flush().map_err(|error| error.to_string()));
    assert_eq!(rustix::io::write(&to, &[1]), Ok(1));
    assert_eq!(child.status(), 9 << 8);
    (0..WORDS).for_each(|index| assert_eq!(word(far, index), index as u64 + 1));
}

pub(super) fn wait(memory: &FarMemory) {
    let mapping = reserve(memory, CHUNKS);
    let far = words(&mapping);
    (0..WORDS).for_each(|index| put(far, index, index as u64));
    mapping.flush().expect("the server is there");
    let (from, to) = pipe().expect("there are pipes");
    let parent = rustix::process::getpid();
    let child = ForkedChild::of(|| {
        // SAFETY: the child's copy, which nothing else of it uses.
        unsafe { rustix::io::close(to.as_raw_fd()) };
        // SAFETY: the handler uses nothing that a handler must not use.
        unsafe { libc::signal(libc::SIGBUS, on_bus_error as *const () as libc::sighandler_t) };
        // What it has seen it has.
        let last = WORDS - 1;
        assert_eq!(word(far, last), last as u64);
        say("the child waits");
        // The parent says so, or ends.
        let was_told = rustix::io::read(&from, &mut [0]) == Ok(1);
        if !was_told {
            await_state("the end of the parent", || match rustix::process::getppid() {
                Some(other) if other == parent => Err("it lives".to_owned()),
                _ => Ok(()),
            });
        }
        assert_eq!(word(far, last), last as u64);
        say("the child touches");
        (0..WORDS).for_each(|index| assert_eq!(word(far, index), index as u64));
    });
    std::io::stdin().lock().read_line(&mut String::new()).expect("the test says something, or ends it");
    assert_eq!(rustix::io::write(&to, &[1]), Ok(1));
    let status = child.status();
    assert!(status == 0 || status == 9 << 8, "{status:#x}");
}
