//! Many things of any size in one reservation of far memory.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use allocator_api2::boxed::Box as BoxIn;
use allocator_api2::vec::Vec as VecIn;
use outboard::{FarAllocator, FarArena, FarBox, FarError, FarVec, Path, RegionOptions};
use outboard_e2e::{Daemon, PATIENCE, Place, Random, seed};

use super::bytes::Bytes;
use super::discards::memory_of;
use super::growing::roomy;
use super::{connect, options};

const CHUNK: usize = 4096;
const SEATS: usize = 32;

fn region() -> RegionOptions {
    RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() }
}

/// A block that a thread has, and what is in it.
struct Held {
    start: NonNull<u8>,
    layout: Layout,
    pattern: u8,
}

impl Held {
    fn bytes(&self) -> Bytes {
        // SAFETY: a block of an arena, which is there as long as this.
        unsafe { Bytes::new(self.start.as_ptr(), self.layout.size()) }
    }

    fn fill(&self) {
        self.bytes().write(0, &vec![self.pattern; self.layout.size()]);
    }

    /// The first bytes are what they were.
    fn check(&self, len: usize) {
        let mut found = vec![0; len.min(self.layout.size())];
        self.bytes().read(0, &mut found);
        assert!(found.iter().all(|byte| *byte == self.pattern), "{:?} with {}", self.layout, self.pattern);
    }
}

fn some_layout(random: &mut Random) -> Layout {
    let longest = [64, 500, 5000, 40_000][random.below(4) as usize];
    Layout::from_size_align(1 + random.below(longest) as usize, 1 << random.below(13)).unwrap()
}

/// Takes blocks, makes them longer and shorter, and gives them back, at random. None has what another thread writes.
fn use_at_random(arena: &FarArena, seed: u64) {
    let mut random = Random::new(seed);
    let mut held: Vec<Held> = Vec::new();
    for _ in 0..1500 {
        match random.below(8) {
            0..=3 if held.len() < 60 => {
                let (layout, pattern) = (some_layout(&mut random), random.next() as u8);
                let start = if random.once_in(2) {
                    arena.alloc(layout)
                } else {
                    arena
                        .alloc_zeroed(layout)
                        .inspect(|start| Held { start: *start, layout, pattern: 0 }.check(usize::MAX))
                };
                let start = start.unwrap();
                assert!(
                    start.as_ptr().addr().is_multiple_of(layout.align())
                        && arena.room(layout) >= layout.size()
                );
                let block = Held { start, layout, pattern };
                block.fill();
                held.push(block);
            }
            4 | 5 if !held.is_empty() => {
                let at = random.below(held.len() as u64) as usize;
                let block = &mut held[at];
                block.check(usize::MAX);
                let (before, layout) = (block.layout, some_layout(&mut random));
                // SAFETY: the block is this thread's, and has this layout.
                block.start = unsafe { arena.realloc(block.start, before, layout) }.unwrap();
                block.layout = layout;
                assert!(block.start.as_ptr().addr().is_multiple_of(layout.align()));
                block.check(before.size());
                block.fill();
            }
            _ if !held.is_empty() => {
                let block = held.swap_remove(random.below(held.len() as u64) as usize);
                block.check(usize::MAX);
                // SAFETY: the block is this thread's, and has this layout.
                unsafe { arena.dealloc(block.start, block.layout) };
            }
            _ => {}
        }
    }
    for block in held {
        block.check(usize::MAX);
        // SAFETY: as above.
        unsafe { arena.dealloc(block.start, block.layout) };
    }
}

#[test]
fn threads_share_an_arena_and_none_has_a_byte_of_another() {
    let place = Place::new();
    let [one, other] = [0, 1].map(|_| Daemon::memory(&place, &place.socket(), &[]));
    let seed = seed();
    for by_tcp in [false, true] {
        let door = |daemon: &Daemon| if by_tcp { daemon.remote().clone() } else { daemon.local().clone() };
        // Striped: its chunks are at both servers.
        let mut setup = options(&door(&one), CHUNK, SEATS * CHUNK).with_others(vec![door(&other)]);
        setup.stripe = 4 * CHUNK;
        let far = connect(&setup);
        let arena = far.arena(64 << 20, &region()).unwrap();
        thread::scope(|scope| {
            for thread in 0..4 {
                let arena = &arena;
                scope.spawn(move || use_at_random(arena, seed + thread));
            }
        });
        assert_eq!(arena.allocated(), 0);
        assert!(arena.traffic().saved > 0, "all of it was here");
        arena.trim().unwrap();
    }
    one.end();
    other.end();
    place.assert_nothing_left();
}

#[test]
fn freeing_touches_nothing_and_gives_memory_back() {
    let place = Place::new();
    let daemon = roomy(&place);
    for address in [daemon.local(), daemon.remote()] {
        let far = connect(&options(address, CHUNK, SEATS * CHUNK).with(|options| options.ahead = 0));
        let before = memory_of(&daemon);
        let arena = far.arena(512 << 30, &region()).unwrap();
        let records = |from: u64| -> Vec<FarBox<[u64; 100]>> {
            (from..from + 2000).map(|number| FarBox::new_in([number; 100], &arena).unwrap()).collect()
        };
        let [first, second] = [records(0), records(2000)];
        let mut long = FarVec::new_in(&arena);
        (0..300_000u64).for_each(|number| long.push(number).unwrap());
        assert!(arena.allocated() >= 2 * 2000 * 800 + 300_000 * 8);
        // Most of it is at the server, and right.
        assert!(far.stats().buffer_used <= (SEATS * CHUNK) as u64);
        for (number, record) in (0..).zip(first.iter().chain(&second)) {
            assert_eq!(**record, [number; 100]);
        }
        assert!(long.iter().copied().eq(0..300_000));
        let faults = || {
            let stats = far.stats();
            stats.faults_fetched + stats.faults_joined + stats.faults_rescued + stats.chunks_blank
        };
        let faults_before = faults();
        drop((first, long));
        assert_eq!(faults(), faults_before);
        assert!(memory_of(&daemon) - before < 3 << 20, "some of it was given back on the way");
        for (number, record) in (2000..).zip(second) {
            assert_eq!(record.into_inner(), [number; 100]);
        }
        arena.trim().unwrap();
        assert_eq!((arena.allocated(), memory_of(&daemon)), (0, before));
        // What was given back is known to be zero, and not fetched.
        let fetches = far.fetches();
        let again = FarBox::<[u64; 10_000]>::zeroed_in(&arena).unwrap();
        assert!(again.iter().all(|word| *word == 0) && far.fetches() == fetches);
        let lines = arena.explain();
        assert!(
            lines.last().is_some_and(|line| line.contains("80 KiB of 512 GiB are in blocks")),
            "{lines:?}"
        );
    }
    daemon.end();
    place.assert_nothing_left();
}

/// A value that is counted while it lives.
struct Counted(Arc<AtomicUsize>, String);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Node {
    value: Counted,
    next: Option<BoxIn<Node, FarAllocator>>,
}

#[test]
fn containers_of_other_crates_hold_values_of_any_type() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let far = connect(&options(daemon.local(), CHUNK, SEATS * CHUNK));
    let arena = far.arena(128 << 20, &region()).unwrap();
    // SAFETY: the memory server is this test's own.
    let allocator = unsafe { arena.allocator() };
    let alive = Arc::new(AtomicUsize::new(0));
    let count = |number: u64| {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(&alive), number.to_string())
    };
    let mut strings = VecIn::new_in(allocator.clone());
    let mut list: Option<BoxIn<Node, FarAllocator>> = None;
    for number in 0..20_000 {
        strings.push(count(number));
        let next = list.take();
        list = Some(BoxIn::new_in(Node { value: count(number), next }, allocator.clone()));
    }
    assert!(strings.iter().enumerate().all(|(number, held)| held.1 == number.to_string()));
    strings.truncate(3000);
    strings.shrink_to_fit();
    assert_eq!(alive.load(Ordering::Relaxed), 23_000);
    // Any thread may have it, and take it apart.
    let apart = thread::spawn(move || {
        let mut numbers = (0..20_000u64).rev();
        while let Some(node) = list {
            let node = BoxIn::into_inner(node);
            assert_eq!(node.value.1, numbers.next().unwrap().to_string());
            list = node.next;
        }
    });
    apart.join().unwrap();
    assert!(strings.iter().enumerate().all(|(number, held)| held.1 == number.to_string()));
    let mut zeros = VecIn::<u64, _>::with_capacity_in(10, allocator);
    zeros.resize(100_000, 7);
    assert!(zeros.iter().all(|word| *word == 7));
    assert_eq!(alive.load(Ordering::Relaxed), 3000);
    drop((strings, zeros));
    assert_eq!((alive.load(Ordering::Relaxed), arena.allocated()), (0, 0));
    drop((arena, far));
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn what_an_arena_cannot_do_is_refused() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let far = connect(&options(daemon.local(), CHUNK, SEATS * CHUNK));
    let named = RegionOptions { name: Some("arena".to_owned()), ..region() };
    let error = far.arena(1 << 20, &named).unwrap_err();
    assert!(matches!(&error, FarError::NamedArena { name } if name == "arena"), "{error}");
    let error = far.arena(u64::MAX, &region()).unwrap_err();
    assert!(matches!(error, FarError::TooLong { .. }), "{error}");
    let arena = far.arena(10 * CHUNK as u64 - 5, &region()).unwrap();
    assert_eq!(arena.reserved(), 10 * CHUNK as u64);
    let error = arena.alloc(Layout::from_size_align(1, 8192).unwrap()).unwrap_err();
    assert!(matches!(error, FarError::TooAligned { align: 8192, .. }), "{error}");
    let error = FarBox::<[u8; 11 * CHUNK]>::zeroed_in(&arena).unwrap_err();
    let FarError::ArenaFull { asked, reserved, free, longest } = error else { panic!("{error}") };
    let all = arena.reserved();
    assert_eq!((asked, reserved, free, longest), (11 * CHUNK, all, all, all));
    // All of it can be taken; an array that finds no room for twice as much takes what it needs, and one that fails is as it was.
    let mut long = FarVec::with_capacity_in(4 * CHUNK, &arena).unwrap();
    long.resize(4 * CHUNK, 1u8).unwrap();
    long.extend_from_slice(&[2; CHUNK]).unwrap();
    let boxes: Vec<_> = std::iter::from_fn(|| FarBox::new_in([3u8; CHUNK], &arena).ok()).collect();
    let error = long.extend_from_slice(&[4; 7 * CHUNK]).unwrap_err();
    assert!(error.to_string().contains("reserve a larger one"), "{error}");
    assert!(
        long.len() == 5 * CHUNK
            && long[..4 * CHUNK].iter().all(|byte| *byte == 1)
            && long[5 * CHUNK - 1] == 2
    );
    assert!(!boxes.is_empty() && boxes.iter().all(|one| one.iter().all(|byte| *byte == 3)));
    let nothing = FarBox::new_in((), &arena).unwrap();
    assert_eq!(nothing.into_inner(), ());
    drop((long, boxes));
    assert_eq!(arena.allocated(), 0);
    drop((arena, far));
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn freeing_ends_when_the_server_is_gone() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let far = connect(
        &options(daemon.local(), CHUNK, SEATS * CHUNK)
            .with(|options| options.grace = Duration::from_millis(200)),
    );
    let arena = far.arena(128 << 20, &region()).unwrap();
    let boxes: Vec<_> = (0..1000u64).map(|number| FarBox::new_in([number; 300], &arena).unwrap()).collect();
    let mut losses = far.losses().unwrap();
    daemon.process.kill();
    losses.wait(PATIENCE).expect("it is told of");
    let begun = Instant::now();
    drop(boxes);
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!(arena.allocated(), 0);
    assert!(arena.trim().is_err());
    drop((arena, losses, far));
    place.assert_nothing_left();
}

/// A thread that gives blocks back discards them, and nothing is saved meanwhile: a fault of another thread that finds no room then has
/// to be answered when there is some again, also where no thread asks for anything more.
#[test]
fn threads_that_wait_for_room_go_on_when_others_have_given_theirs_back() {
    const WIDE: usize = 64 << 10;
    const BLOCK: usize = 61 * WIDE + 100;
    const ROUNDS: usize = 40;
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let far = connect(&options(daemon.local(), WIDE, 64 * WIDE));
    let arena = far.arena(1 << 40, &RegionOptions { chunk: WIDE, ..region() }).unwrap();
    let (ended, ends) = std::sync::mpsc::channel();
    let together = Arc::new(std::sync::Barrier::new(2));
    let threads: Vec<_> = (0..2u8)
        .map(|pattern| {
            let (arena, ended, together) = (arena.clone(), ended.clone(), Arc::clone(&together));
            thread::spawn(move || {
                let layout = Layout::from_size_align(BLOCK, 64).unwrap();
                for _ in 0..ROUNDS {
                    // The thread that is done first does nothing until the other one is.
                    together.wait();
                    let held = Held { start: arena.alloc(layout).unwrap(), layout, pattern };
                    held.fill();
                    // SAFETY: taken above for this layout, and used no more.
                    unsafe { arena.dealloc(held.start, layout) };
                }
                ended.send(()).unwrap();
            })
        })
        .collect();
    for _ in &threads {
        ends.recv_timeout(PATIENCE).expect("both threads go on");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
