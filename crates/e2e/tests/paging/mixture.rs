//! Many threads add to shared words, store to words of their own, copy long ranges and discard some, over regions three times
//! the buffer. In the end everything is as in plain memory where the same was done.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use outboard::{
    Address, CacheMode, FarError, FarMapping, FarMemory, FaultAnswer, Mover, Path, RegionOptions,
};
use outboard_e2e::{Daemon, Place, Random, await_state, seed};
use outboard_wire::Rights;

use super::bytes::Bytes;
use super::{FarSetup, connect, options};

/// How many threads of the application there are, unless a run says otherwise. Beside them, readers get in the way of a flush.
const THREADS: usize = 4;
const READERS: usize = 2;

/// What one run looks like.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The sizes of chunks, one for each region.
    pub(super) chunks: Vec<usize>,
    /// How many chunks of the largest size the buffer has room for.
    pub(super) seats: usize,
    /// How many threads use the memory, and how many answer faults.
    pub(super) threads: usize,
    pub(super) pagers: usize,
    pub(super) steps: usize,
    pub(super) path: Path,
    pub(super) cache: CacheMode,
}

impl Run {
    pub(super) fn new(chunk: usize, pagers: usize) -> Self {
        let (seats, steps) = match chunk {
            4096 => (64, 300),
            65_536 => (32, 40),
            _ => (8, 5),
        };
        let (path, cache) = (Path::Direct, CacheMode::Off);
        Self { chunks: vec![chunk], seats, threads: THREADS, pagers, steps, path, cache }
    }

    pub(super) fn largest(&self) -> usize {
        self.chunks.iter().copied().max().unwrap()
    }

    fn is_large(&self) -> bool {
        self.largest() > 1 << 16
    }

    pub(super) fn buffer(&self) -> usize {
        self.largest() * self.seats
    }
}

/// A region, and plain memory that is to hold the same.
struct Pair {
    mapping: FarMapping,
    name: String,
    model: Vec<u64>,
    /// Every range belongs to one thread, or to all who add to its words.
    range: usize,
    threads: usize,
}

/// What threads see of a [`Pair`].
#[derive(Clone, Copy)]
struct View {
    far: Bytes,
    near: Bytes,
    range: usize,
    threads: usize,
}

impl Pair {
    fn reserve(memory: &FarMemory, name: String, bytes: usize, chunk: usize, run: &Run) -> Self {
        let (path, cache) = (run.path, run.cache);
        let options = RegionOptions { chunk, path, cache, name: Some(name.clone()), ..Default::default() };
        let mapping = memory.reserve(bytes as u64, &options).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(mapping.len(), bytes);
        let model = vec![0; bytes / 8];
        // Longer than a chunk, and with ends in the middle of one.
        Self { mapping, name, model, range: chunk + chunk / 2 + 8, threads: run.threads }
    }

    fn view(&mut self) -> View {
        let (len, near) = (self.mapping.len(), self.model.as_mut_ptr().cast());
        // SAFETY: both live until the threads have ended, and are used through views alone until then.
        let (far, near) = unsafe { (Bytes::new(self.mapping.as_ptr().as_ptr(), len), Bytes::new(near, len)) };
        View { far, near, range: self.range, threads: self.threads }
    }

    fn expected(&self) -> Vec<u8> {
        self.model.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

impl View {
    /// A range of a thread's, or with their number for the owner one of all threads': where it begins, and how long it is.
    fn range(self, owner: usize, random: &mut Random) -> (usize, usize) {
        let all = self.far.len().div_ceil(self.range);
        let mine = (all - owner).div_ceil(self.threads + 1) as u64;
        // Half of all accesses go to a few ranges, so that chunks come back soon after they went.
        let which = if random.once_in(2) { random.below(mine.min(3)) } else { random.below(mine) };
        let start = (owner + which as usize * (self.threads + 1)) * self.range;
        (start, self.range.min(self.far.len() - start))
    }

    /// A span inside a range of a thread's.
    fn span(self, owner: usize, most: usize, random: &mut Random) -> (usize, usize) {
        let (start, len) = self.range(owner, random);
        let at = random.below(len as u64) as usize;
        let most = most.min(len - at).max(1);
        (start + at, 1 + random.below(most as u64) as usize)
    }
}

fn work(views: &[View], mappings: &[Mutex<&mut FarMapping>], me: usize, steps: usize, random: &mut Random) {
    for _ in 0..steps {
        let which = random.below(views.len() as u64) as usize;
        let view = views[which];
        if random.once_in(24) {
            // It may begin and end in the middle of a chunk, which belongs to others too.
            let (at, len) = view.span(me, view.range, random);
            mappings[which].lock().unwrap().discard(at..at + len).unwrap_or_else(|error| panic!("{error}"));
            view.near.write(at, &vec![0; len]);
            continue;
        }
        match random.below(10) {
            0..4 => {
                let (start, len) = view.range(view.threads, random);
                let at = start + random.below(len as u64 / 8) as usize * 8;
                let addend = random.next();
                view.far.add(at, addend);
                view.near.add(at, addend);
            }
            4..6 => {
                let (at, len) = view.span(me, 16, random);
                let bytes = random.bytes(len);
                view.far.write(at, &bytes);
                view.near.write(at, &bytes);
            }
            6..8 => {
                let (at, len) = view.span(me, 64, random);
                let (mut far, mut near) = (vec![0; len], vec![0; len]);
                view.far.read(at, &mut far);
                view.near.read(at, &mut near);
                assert_eq!(far, near, "{len} bytes at {at} of thread {me}");
            }
            _ => {
                let to = views[random.below(views.len() as u64) as usize];
                let (from, len) = view.span(me, view.range, random);
                let (at, room) = to.range(me, random);
                let len = len.min(room);
                let at = at + random.below((room - len) as u64 + 1) as usize;
                view.far.copy(from, to.far, at, len);
                view.near.copy(from, to.near, at, len);
            }
        }
    }
}

/// Touches bytes everywhere until told to stop.
fn read_about(views: &[View], must_stop: &AtomicBool, random: &mut Random) {
    while !must_stop.load(Ordering::Relaxed) {
        let view = views[random.below(views.len() as u64) as usize];
        view.far.touch(random.below(view.far.len() as u64) as usize);
    }
}

/// Compares what is far with what is near, and what the server has with both.
fn compare(pairs: &mut [Pair], options: &FarSetup) {
    for pair in pairs {
        let (view, expected) = (pair.view(), pair.expected());
        let mut bytes = vec![0; expected.len()];
        view.far.read(0, &mut bytes);
        assert_same(&bytes, &expected, "here", pair);
        // A server that has been hard on its links may have given up this one too.
        await_state("what the server has", || {
            read_at_server(&pair.name, &mut bytes, options).map_err(|error| error.to_string())
        });
        assert_same(&bytes, &expected, "at the server", pair);
    }
}

/// Reads an object by connections of its own, as the same process: a stripe from each server, by turns.
fn read_at_server(name: &str, bytes: &mut [u8], options: &FarSetup) -> Result<(), FarError> {
    let places = options.places();
    let (count, stripe) = (places.len(), options.stripe);
    let mut parts = Vec::new();
    for (number, address) in (1..).zip(places) {
        let mut server = options.memory(address)?;
        let name = match count {
            1 => name.to_owned(),
            _ => format!("{name} {number} of {count} by {stripe}"),
        };
        let region = server.open(&name, Rights::READ)?;
        parts.push((server, region));
    }
    let stripe = if count == 1 { bytes.len() } else { stripe };
    for (number, bytes) in bytes.chunks_mut(stripe).enumerate() {
        let (server, region) = &mut parts[number % count];
        server.read(region, (number / count * stripe) as u64, bytes)?;
    }
    Ok(())
}

fn assert_same(bytes: &[u8], expected: &[u8], place: &str, pair: &Pair) {
    if let Some(at) = bytes.iter().zip(expected).position(|(byte, expected)| byte != expected) {
        let wrong = bytes.iter().zip(expected).filter(|(byte, expected)| byte != expected).count();
        let chunk = pair.mapping.chunk();
        panic!(
            "{wrong} bytes of {} are not as expected {place}, the first at {at}: chunk {} of {chunk} bytes, thread {}",
            pair.name,
            at / chunk,
            at / pair.range % (pair.threads + 1)
        );
    }
}

/// How often everything is compared: a few times, or as often as `PROOF_ROUNDS` says, for who hunts.
fn rounds(run: &Run) -> u64 {
    let given = std::env::var("PROOF_ROUNDS").ok().and_then(|text| text.parse().ok());
    given.unwrap_or(if run.is_large() { 1 } else { 2 })
}

/// Whether all threads of a run have done their work.
pub(super) type IsDone<'a> = &'a dyn Fn() -> bool;

/// Plays a run. While threads work, `disturb` may do what it likes.
pub(super) fn play(options: &FarSetup, run: &Run, seed: u64, mut disturb: impl FnMut(IsDone<'_>)) {
    let mut random = Random::new(seed);
    let memory = connect(options);
    let bytes = 3 * run.buffer() / run.chunks.len() + 12_344;
    let reserve = |(number, &chunk)| {
        Pair::reserve(&memory, format!("mixture-{seed:x}-{number}-{chunk}"), bytes, chunk, run)
    };
    let mut pairs: Vec<Pair> = run.chunks.iter().enumerate().map(reserve).collect();
    for _ in 0..rounds(run) {
        let views: Vec<View> = pairs.iter_mut().map(Pair::view).collect();
        let mappings: Vec<_> = pairs.iter_mut().map(|pair| Mutex::new(&mut pair.mapping)).collect();
        let seeds: Vec<u64> = (0..run.threads + READERS).map(|_| random.next()).collect();
        let must_stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (views, mappings, must_stop) = (&views, &mappings, &must_stop);
            let workers: Vec<_> = (0..run.threads)
                .map(|me| {
                    let mut random = Random::new(seeds[me]);
                    scope.spawn(move || work(views, mappings, me, run.steps, &mut random))
                })
                .collect();
            disturb(&|| workers.iter().all(thread::ScopedJoinHandle::is_finished));
            let results: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            // Nobody writes any more; those who read must not make a flush miss anything.
            for seed in &seeds[run.threads..] {
                let mut random = Random::new(*seed);
                scope.spawn(move || read_about(views, must_stop, &mut random));
            }
            let flushed: Vec<_> = mappings.iter().map(|mapping| mapping.lock().unwrap().flush()).collect();
            must_stop.store(true, Ordering::Relaxed);
            results.into_iter().for_each(|result| result.unwrap());
            flushed.into_iter().for_each(|result| result.unwrap());
        });
        drop(mappings);
        compare(&mut pairs, options);
    }
    let stats = memory.stats();
    assert!(stats.saves > 0 && stats.evictions > 0, "{stats:?}");
    // Large chunks take few steps, in which it is a matter of luck whether one that leaves is wanted.
    assert!(run.is_large() || stats.faults_rescued > 0, "{stats:?}");
    assert!(stats.buffer_used <= run.buffer() as u64, "{stats:?}");
    for pair in pairs {
        pair.mapping.free().unwrap();
    }
}

pub(super) fn play_all(runs: &[Run], adapt: impl Fn(&mut FarSetup)) {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let seed = seed();
    for (number, run) in (0..).zip(runs) {
        for (way, at) in (0..).zip([daemon.local(), daemon.remote()]) {
            if run.is_large() && way != number % 2 {
                // Large chunks take their time; each number of threads is tried by one way.
                continue;
            }
            let seed = seed + 2 * number + way;
            println!("{run:?} at {at}, seed {seed}");
            let at: &Address = at;
            let mut options = options(at, run.largest(), run.buffer());
            options.threads = Some(run.pagers);
            adapt(&mut options);
            play(&options, run, seed, |_| {});
        }
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn small_chunks_keep_everything() {
    play_all(&[1, 2, 4].map(|pagers| Run::new(4096, pagers)), |_| {});
}

#[test]
fn one_thread_and_eight_keep_everything() {
    let run = |chunk, threads| Run { threads, ..Run::new(chunk, 2) };
    play_all(&[run(4096, 1), run(4096, 8), run(65_536, 8)], |options| options.faults = FaultAnswer::Threads);
}

#[test]
fn usual_chunks_keep_everything() {
    play_all(&[1, 2, 4].map(|pagers| Run::new(65_536, pagers)), |_| {});
}

#[test]
fn large_chunks_keep_everything() {
    play_all(&[1, 2, 4].map(|pagers| Run::new(1 << 20, pagers)), |_| {});
}

/// As on kernels that cannot move pages.
#[test]
fn pages_that_are_copied_keep_everything() {
    let runs = [Run::new(4096, 2), Run::new(65_536, 1), Run::new(1 << 20, 2)];
    play_all(&runs, |options| options.mover = Some(Mover::Copy));
}

#[test]
fn chunks_of_two_sizes_share_a_buffer_and_keep_everything() {
    let run = |chunks: [usize; 2], pagers| Run { chunks: chunks.to_vec(), ..Run::new(chunks[0], pagers) };
    play_all(&[run([65_536, 4096], 2), run([1 << 20, 65_536], 4), run([65_536, 4096], 1)], |_| {});
}
