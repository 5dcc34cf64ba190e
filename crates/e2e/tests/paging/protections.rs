//! Ranges that may be read only, or not at all: what may not be done is refused where it is tried, and bytes stay as they are.

use std::os::fd::AsRawFd;
use std::thread;

use outboard::{FarError, FarMapping, FaultAnswer, Mover, PageProtection, Path, RegionOptions};
use outboard_e2e::{Daemon, PATIENCE, Place, Random, seed};

use super::bytes::Bytes;
use super::{connect, options, words};

const PAGE: usize = 4096;
/// Of several pages, so that a chunk has several protections.
const CHUNK: usize = 8 * PAGE;
const THREADS: usize = 4;
/// How many pages each thread has for itself.
const PAGES: usize = 8 * 48;
const STEPS: usize = 1500;
const ALL: [PageProtection; 5] = [
    PageProtection::None,
    PageProtection::Read,
    PageProtection::ReadWrite,
    PageProtection::ReadExecute,
    PageProtection::ReadWriteExecute,
];

/// Asks the kernel what may be done to bytes: it reads and writes them for us, or refuses.
struct Probe {
    from: std::io::PipeReader,
    to: std::io::PipeWriter,
}

impl Probe {
    fn new() -> Self {
        let (from, to) = std::io::pipe().unwrap();
        Self { from, to }
    }

    /// Whether a byte may be read, and which it is.
    fn read(&self, at: *mut u8) -> Option<u8> {
        // SAFETY: the kernel refuses what may not be read.
        match unsafe { libc::write(self.to.as_raw_fd(), at.cast(), 1) } {
            1 => {
                let mut byte = 0u8;
                // SAFETY: a byte of our own.
                assert_eq!(unsafe { libc::read(self.from.as_raw_fd(), (&raw mut byte).cast(), 1) }, 1);
                Some(byte)
            }
            _ => {
                assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
                None
            }
        }
    }

    /// Whether a byte may be written. If it may, it is.
    fn write(&self, at: *mut u8, byte: u8) -> bool {
        // SAFETY: a byte of our own.
        assert_eq!(unsafe { libc::write(self.to.as_raw_fd(), (&raw const byte).cast(), 1) }, 1);
        // SAFETY: the kernel refuses what may not be written; what may be is this thread's.
        let is_written = unsafe { libc::read(self.from.as_raw_fd(), at.cast(), 1) } == 1;
        if !is_written {
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
            let mut rest = 0u8;
            // SAFETY: a byte of our own.
            unsafe { libc::read(self.from.as_raw_fd(), (&raw mut rest).cast(), 1) };
        }
        is_written
    }
}

/// One thread's pages, and what must be in them.
struct Owner<'a> {
    mapping: &'a FarMapping,
    bytes: Bytes,
    /// Where its pages begin.
    first: usize,
    model: Vec<u64>,
    protections: Vec<PageProtection>,
    probe: Option<Probe>,
    random: Random,
}

impl Owner<'_> {
    fn at(&self, page: usize) -> usize {
        self.first + page * PAGE + page % (PAGE / 8) * 8
    }

    fn load(&self, page: usize) {
        let mut word = [0; 8];
        self.bytes.read(self.at(page), &mut word);
        assert_eq!(u64::from_ne_bytes(word), self.model[page], "page {page}, {}", self.protections[page]);
    }

    fn step(&mut self) {
        let page = self.random.below(PAGES as u64) as usize;
        let (at, protection) = (self.at(page), self.protections[page]);
        match self.random.below(8) {
            0 => {
                let end = (page + 1 + self.random.below(20) as usize).min(PAGES);
                let protection = ALL[self.random.below(ALL.len() as u64) as usize];
                let span = self.first + page * PAGE..self.first + end * PAGE - self.random.below(8) as usize;
                self.mapping.protect(span, protection).unwrap();
                self.protections[page..end].fill(protection);
            }
            1..=3 if protection.can_write() => {
                self.model[page] += 1 << 8;
                self.bytes.write(at, &self.model[page].to_ne_bytes());
            }
            4 => {
                let tried = self.mapping.try_read(at, &mut [0; 8], PATIENCE);
                assert_eq!(tried.is_ok(), protection.can_read(), "{tried:?}");
            }
            5 if self.probe.is_some() => {
                let probe = self.probe.as_ref().unwrap();
                let address = self.mapping.as_ptr().as_ptr().wrapping_add(at);
                let expected = protection.can_read().then_some(self.model[page] as u8);
                assert_eq!(probe.read(address), expected, "page {page}, {protection}");
                let is_written = probe.write(address, self.model[page] as u8);
                assert_eq!(is_written, protection.can_write(), "page {page}, {protection}");
            }
            _ if protection.can_read() => self.load(page),
            _ => {}
        }
    }
}

fn play(mapping: &FarMapping, is_probed: bool, seed: u64) {
    let owner = |number: usize| Owner {
        mapping,
        bytes: words(mapping),
        first: number * PAGES * PAGE,
        model: vec![0; PAGES],
        protections: vec![PageProtection::ReadWrite; PAGES],
        probe: is_probed.then(Probe::new),
        random: Random::new(seed + number as u64),
    };
    thread::scope(|scope| {
        let play = |number| {
            let mut owner = owner(number);
            (0..STEPS).for_each(|_| owner.step());
            // Whatever was protected when it left is there when it may be read again.
            let all = owner.first..owner.first + PAGES * PAGE;
            mapping.protect(all, PageProtection::Read).unwrap();
            (0..PAGES).for_each(|page| owner.load(page));
        };
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || play(number))).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            mapping.flush().unwrap();
            thread::yield_now();
        }
    });
}

#[test]
fn bytes_stay_and_rights_hold_while_both_change_and_chunks_move() {
    let seed = seed();
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let cases = [
        (daemon.local(), None, FaultAnswer::Threads),
        (daemon.remote(), None, FaultAnswer::Threads),
        (daemon.local(), Some(Mover::Copy), FaultAnswer::Threads),
        (daemon.local(), None, FaultAnswer::Signal),
    ];
    for (at, mover, faults) in cases {
        let mut settings = options(at, CHUNK, THREADS * PAGES * PAGE / 4);
        (settings.threads, settings.mover, settings.faults) = (Some(2), mover, faults);
        let memory = connect(&settings);
        let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
        let mapping = memory.reserve((THREADS * PAGES * PAGE) as u64, &region).unwrap();
        let is_probed = memory.explain()[0].find("EFAULT").is_none();
        play(&mapping, is_probed, seed);
        assert!(memory.stats().evictions > 0, "nothing has left");
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn what_may_not_be_done_is_told() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let memory = connect(&options(daemon.local(), CHUNK, 32 * CHUNK));
    let region = RegionOptions { chunk: CHUNK, ..Default::default() };
    let mut mapping = memory.reserve((4 * CHUNK) as u64, &region).unwrap();
    words(&mapping).write(CHUNK, &[7; 3 * PAGE]);
    mapping.protect(CHUNK + PAGE..CHUNK + 2 * PAGE, PageProtection::None).unwrap();
    mapping.protect(CHUNK + 2 * PAGE..CHUNK + 3 * PAGE, PageProtection::Read).unwrap();
    let parts = mapping.protections_of(CHUNK..2 * CHUNK).unwrap();
    assert_eq!(parts.len(), 4, "{parts:?}");
    // What is read begins before what may not be, and nothing of it is.
    let read = mapping.try_read(CHUNK, &mut [0; 2 * PAGE], PATIENCE).unwrap_err();
    assert!(read.to_string().contains("not to be accessed"), "{read}");
    let write = mapping.try_write(CHUNK + 2 * PAGE, &[1], PATIENCE).unwrap_err();
    assert!(matches!(write, FarError::Forbidden { protection: PageProtection::Read, .. }), "{write}");
    let pin = mapping.pin(CHUNK..2 * CHUNK).unwrap_err();
    assert!(matches!(pin, FarError::Forbidden { protection: PageProtection::None, .. }), "{pin}");
    mapping.prefault(0..4 * CHUNK).unwrap();
    let unaligned = mapping.protect(8..16, PageProtection::None).unwrap_err();
    assert!(matches!(unaligned, FarError::Unaligned { start: 8, .. }), "{unaligned}");
    let outside = mapping.protect(0..4 * CHUNK + 1, PageProtection::None).unwrap_err();
    assert!(matches!(outside, FarError::OutOfBounds { .. }), "{outside}");
    // What is discarded is zero, and as protected as before: a part of a chunk, and a chunk that has to stay.
    mapping.discard(CHUNK + PAGE / 2..CHUNK + 2 * PAGE + 8).unwrap();
    assert_eq!(mapping.protections_of(CHUNK..2 * CHUNK).unwrap(), parts);
    mapping.protect(0..4 * CHUNK, PageProtection::ReadWrite).unwrap();
    let mut found = vec![0; 3 * PAGE];
    words(&mapping).read(CHUNK, &mut found);
    let is_right =
        |(at, byte): (usize, &u8)| *byte == if (PAGE / 2..2 * PAGE + 8).contains(&at) { 0 } else { 7 };
    assert!(found.iter().enumerate().all(is_right));
    let frozen = mapping.freeze().unwrap();
    let refused = frozen.protect(0..CHUNK, PageProtection::ReadWrite).unwrap_err();
    assert!(matches!(refused, FarError::ReadOnly { .. }), "{refused}");
    frozen.protect(0..CHUNK, PageProtection::None).unwrap();
    assert!(frozen.try_read(0, &mut [0], PATIENCE).is_err());
    frozen.protect(0..CHUNK, PageProtection::Read).unwrap();
    frozen.try_read(0, &mut [0], PATIENCE).unwrap();
    drop(frozen);
    daemon.end();
    place.assert_nothing_left();
}

/// How much memory this process has present, in KiB.
fn present() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_large_reservation_costs_what_is_used_of_it() {
    const RESERVED: usize = 256 << 30;
    const STEP: usize = RESERVED / 512;
    let place = Place::new();
    let at = place.socket();
    let arguments = ["--listen", &at, "--listen", "tcp:127.0.0.1:0", "--capacity", "1TiB"];
    let daemon = Daemon::start(&place, "memory", "large", &arguments);
    let chunk = 64 << 10;
    let memory = connect(&options(daemon.remote(), chunk, 8 << 20));
    let region = RegionOptions { chunk, ..Default::default() };
    let before = present();
    let mut mapping = memory.reserve(RESERVED as u64, &region).unwrap();
    mapping.protect(0..RESERVED, PageProtection::None).unwrap();
    for at in (0..RESERVED).step_by(STEP) {
        mapping.protect(at..at + PAGE, PageProtection::ReadWrite).unwrap();
        words(&mapping).write(at, &at.to_ne_bytes());
    }
    for at in (0..RESERVED).step_by(STEP) {
        let mut word = [0; 8];
        words(&mapping).read(at, &mut word);
        assert_eq!(usize::from_ne_bytes(word), at);
    }
    mapping.discard(0..RESERVED).unwrap();
    mapping.protect(0..RESERVED, PageProtection::None).unwrap();
    let grown = present().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more are present");
    drop(mapping);
    daemon.end();
    place.assert_nothing_left();
}
