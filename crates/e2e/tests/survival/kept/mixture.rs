//! A server is killed again and again at random moments, under far memory with four threads, a table, a writer and atomics at
//! once: nothing that was acknowledged is lost or old, and what may have happened happens once at most.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use outboard::{Address, AskError, BufferSize, FarOptions, Outboard, RegionOptions};
use outboard_e2e::{Daemon, PATIENCE, Random, await_state, seed};
use outboard_kv::{Kv, KvTable, TableOptions};
use outboard_link::Identity;
use outboard_settings::LinkSettings;
use outboard_wire::{Rights, Role};

use super::Kept;

/// How often a server is killed; `OUTBOARD_KEEP_KILLS` asks for more.
const KILLS: u64 = 3;

const BOTH: Rights = Rights::READ.and(Rights::WRITE);
/// The words of far memory that each thread has.
const WORDS: usize = 1 << 17;
const THREADS: usize = 4;
const KEYS: u64 = 50;

fn kills() -> u64 {
    std::env::var("OUTBOARD_KEEP_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

/// How far each has come, so that a server is not killed again before all go on.
#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    done: [AtomicU64; THREADS + 3],
}

impl Progress {
    fn step(&self, who: usize) -> bool {
        self.done[who].fetch_add(1, Ordering::Relaxed);
        !self.is_over.load(Ordering::Relaxed)
    }

    fn seen(&self) -> [u64; THREADS + 3] {
        std::array::from_fn(|who| self.done[who].load(Ordering::Relaxed))
    }

    /// Waits until everyone has done something since.
    fn await_all(&self, since: [u64; THREADS + 3]) {
        await_state("everyone goes on", || {
            let now = self.seen();
            if now.iter().zip(&since).all(|(now, since)| now > &(since + 1)) {
                Ok(())
            } else {
                Err(format!("{now:?} after {since:?}"))
            }
        });
    }
}

/// How everyone reaches the server.
#[derive(Clone)]
struct Way {
    server: Address,
    agent: Option<Address>,
}

impl Way {
    fn outboard(&self, name: &str) -> Outboard {
        let link = LinkSettings { handshake_timeout: PATIENCE, ..LinkSettings::default() };
        let outboard = Outboard::at(self.server.clone())
            .with_link(link)
            .with_identity(Identity::new(Role::Application, name))
            .with_deadline(PATIENCE);
        self.agent.iter().cloned().fold(outboard, Outboard::with_agent)
    }
}

/// Tries until it works: the server is away for a while.
fn until<T, E: std::fmt::Display>(what: &str, mut attempt: impl FnMut() -> Result<T, E>) -> T {
    await_state(what, || attempt().map_err(|error| error.to_string()))
}

/// Far memory of which a quarter is here: what is read is what was written last, whoever had it in the meantime.
fn far(way: &Way, progress: &Progress, seed: u64) -> Vec<u64> {
    let buffer = BufferSize::Bytes(THREADS * WORDS * 8 / 4);
    let options = FarOptions::default().with_buffer(buffer).with_grace(PATIENCE);
    let far = way.outboard("far").far_with(options).unwrap();
    let named = RegionOptions { name: Some("far".to_owned()), ..RegionOptions::default() };
    let mut words = far.allocate_with::<u64>(THREADS * WORDS, &named).unwrap();
    let mut shadow = vec![0; THREADS * WORDS];
    thread::scope(|scope| {
        let parts = words.chunks_mut(WORDS).zip(shadow.chunks_mut(WORDS));
        for (number, (words, shadow)) in parts.enumerate() {
            scope.spawn(move || {
                let mut random = Random::new(seed + number as u64);
                while progress.step(number) {
                    for _ in 0..64 {
                        let at = random.below(WORDS as u64) as usize;
                        assert_eq!(words[at], shadow[at], "word {at} of thread {number}");
                        words[at] = random.next();
                        shadow[at] = words[at];
                    }
                }
            });
        }
    });
    words.flush().unwrap();
    shadow
}

/// Adds one again and again. Every sum is greater than the last, so nothing is added twice and nothing is taken back.
fn add(way: &Way, progress: &Progress, who: usize) -> (u64, u64) {
    let mut memory = way.outboard("adder").memory().unwrap();
    let count = memory.reserve_shared(4096, "count").unwrap();
    let (mut certain, mut doubtful, mut next) = (0, 0, 0);
    loop {
        match memory.fetch_add(&count, 8, 1) {
            Ok(before) => {
                assert!(before >= next && before <= certain + doubtful, "{before}, {certain}, {doubtful}");
                (certain, next) = (certain + 1, before + 1);
                if !progress.step(who) {
                    return (certain, doubtful);
                }
            }
            Err(AskError::Lost(_)) => {
                doubtful += 1;
                thread::park_timeout(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// What may be there of something that was changed again and again.
#[derive(Clone, Copy, Default)]
struct Version {
    certain: u64,
    tried: u64,
}

impl Version {
    #[track_caller]
    fn check(self, found: u64) {
        let Self { certain, tried } = self;
        assert!((certain..=tried).contains(&found), "{found} is not from {certain} to {tried}");
    }
}

/// Puts into a table, and gets what it has put.
fn put(way: &Way, progress: &Progress, who: usize, seed: u64) {
    let options = TableOptions { keys: 4 * KEYS, ..TableOptions::default() };
    KvTable::create(&mut way.outboard("table").memory().unwrap(), "kv", &options).unwrap();
    let mut versions = [Version::default(); KEYS as usize];
    let mut random = Random::new(seed);
    loop {
        let mut kv = until("a table", || {
            let outboard = way.outboard("table");
            let mut memory = outboard.memory().map_err(|error| error.to_string())?;
            let table = KvTable::open(&mut memory, "kv").map_err(|error| error.to_string())?;
            let caller = outboard.caller().map_err(|error| error.to_string())?;
            Kv::new(caller, &table).map_err(|error| error.to_string())
        });
        loop {
            let key = random.below(KEYS);
            let (name, version) = (key.to_le_bytes(), &mut versions[key as usize]);
            let Ok(found) = kv.get(&name) else { break };
            version.check(found.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap())));
            version.tried += 1;
            match kv.put(&name, &version.tried.to_le_bytes()) {
                Ok(()) => version.certain = version.tried,
                Err(_) => break,
            }
            if !progress.step(who) {
                return;
            }
        }
    }
}

/// Writes by a writer. What it has flushed is there.
fn write(way: &Way, progress: &Progress, who: usize) {
    const PLACES: u64 = 64;
    let mut memory = way.outboard("writer").memory().unwrap();
    memory.reserve_shared(PLACES * 8, "written").unwrap();
    let mut versions = [Version::default(); PLACES as usize];
    let mut round = 0;
    loop {
        let (mut writer, target) = until("a writer", || {
            let outboard = way.outboard("writer");
            let region = memory.open_shared("written", BOTH).map_err(|error| error.to_string())?;
            for (place, version) in versions.iter().enumerate() {
                let mut bytes = [0; 8];
                memory.read(&region, place as u64 * 8, &mut bytes).map_err(|error| error.to_string())?;
                version.check(u64::from_le_bytes(bytes));
            }
            let mut writer = outboard.writer().map_err(|error| error.to_string())?;
            let target = writer.open(&region).map_err(|error| error.to_string())?;
            Ok::<_, String>((writer, target))
        });
        loop {
            round += 1;
            let begun = (0..PLACES).try_for_each(|place| {
                versions[place as usize].tried = round;
                writer.write(target, place * 8, &round.to_le_bytes())
            });
            if begun.and_then(|()| writer.flush()).is_err() {
                break;
            }
            versions.iter_mut().for_each(|version| version.certain = round);
            if !progress.step(who) {
                return;
            }
        }
    }
}

fn killed_again_and_again(by_tcp: bool, by_agent: bool, seed: u64) {
    let kept = Kept::new();
    let server = kept.start(&[]);
    let at = kept.door(by_tcp);
    let agent = by_agent.then(|| Daemon::agent(&kept.place, &kept.place.socket(), &at.to_string(), &[]));
    let way = Way { server: at, agent: agent.as_ref().map(|agent| agent.local().clone()) };
    let progress = Progress::default();
    let mut random = Random::new(seed);
    let (server, shadow, (certain, doubtful)) = thread::scope(|scope| {
        let mut server = server;
        let (way, progress) = (&way, &progress);
        let far = scope.spawn(move || far(way, progress, seed));
        let add = scope.spawn(move || add(way, progress, THREADS));
        let others = [
            scope.spawn(move || put(way, progress, THREADS + 1, seed)),
            scope.spawn(move || write(way, progress, THREADS + 2)),
        ];
        for _ in 0..kills() {
            progress.await_all(progress.seen());
            // A random moment in the middle of whatever they do.
            thread::park_timeout(Duration::from_micros(random.below(200_000)));
            server.process.kill();
            server = kept.start(&[]);
        }
        progress.await_all(progress.seen());
        progress.is_over.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().unwrap());
        (server, far.join().unwrap(), add.join().unwrap())
    });
    // Once more, when all is flushed.
    server.process.kill();
    let server = kept.start(&[]);
    let mut memory = way.outboard("reader").memory().unwrap();
    let far = memory.open("far", Rights::READ).unwrap();
    let mut bytes = vec![0; shadow.len() * 8];
    memory.read(&far, 0, &mut bytes).unwrap();
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    assert!(words.eq(shadow), "what was flushed is there");
    let count = memory.open_shared("count", BOTH).unwrap();
    let sum = memory.fetch_add(&count, 8, 0).unwrap();
    assert!((certain..=certain + doubtful).contains(&sum), "{sum} of {certain} and perhaps {doubtful}");
    drop(memory);
    drop(agent.map(Daemon::end));
    server.end();
    kept.end();
}

#[test]
fn a_server_that_is_killed_under_everything_at_once_loses_nothing_by_shared_memory() {
    killed_again_and_again(false, false, seed());
}

#[test]
fn a_server_that_is_killed_under_everything_at_once_loses_nothing_by_tcp() {
    killed_again_and_again(true, false, seed());
}

#[test]
fn a_server_that_is_killed_under_everything_at_once_loses_nothing_by_an_agent() {
    killed_again_and_again(true, true, seed());
}
