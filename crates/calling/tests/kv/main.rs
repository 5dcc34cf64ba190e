//! The functions of the hash table `apps/kv`, on a region whose accesses take long, overtake each other and are torn into
//! words: every history of gets, puts and deletes is one that a single hash map could have given, also when callers die in
//! the middle of a change.
// Also outside test functions a test fails by panicking, and prints the seed that repeats it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod history;
mod site;

use std::sync::Arc;

use history::{Event, Op, check};
use outboard_calling::{
    Binding, ExecutionOutcome, Executor, ExecutorClient, ExecutorConfig, FunctionImage, PreparedFunction,
    Submitted,
};
use outboard_wire::calling::Call;
use outboard_wire::{Rights, Time};
use site::TornSite;

const OBJECT: &[u8] = include_bytes!("../../../../apps/kv/functions/kv-v3.o");
const SLOT_BYTES: u64 = 64;
const SLOTS: u64 = 96;

/// What functions return.
const DONE: u64 = 0;
const NOT_FOUND: u64 = 1;
const BUSY: u64 = 3;

fn functions() -> [Arc<PreparedFunction>; 3] {
    ["kv_get", "kv_put", "kv_delete"].map(|entry| {
        let image = FunctionImage::from_object(OBJECT, entry).unwrap();
        Arc::new(PreparedFunction::prepare(&image).unwrap())
    })
}

/// A table of so many buckets.
fn table(buckets: u64) -> Vec<u8> {
    let slots_at = 576 + buckets * 128;
    let header = [0x3330_764b_6274_754f, buckets - 1, SLOTS, SLOT_BYTES, slots_at, 0, 0, 0];
    let mut bytes = header.map(u64::to_le_bytes).as_flattened().to_vec();
    bytes.resize((slots_at + SLOTS * SLOT_BYTES) as usize, 0);
    bytes
}

fn arguments(buckets: u64, key: u8, value: Option<u64>) -> Vec<u8> {
    let length = value.map_or(0, |_| 16);
    let mut words =
        vec![1 << 32 | length, SLOT_BYTES << 8 | u64::from(buckets.trailing_zeros()), 0, u64::from(key)];
    // Two words, so that a torn value shows.
    words.extend(value.into_iter().flat_map(|value| [value, !value]));
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Some callers at work on one table.
struct World {
    executor: Executor<()>,
    site: TornSite,
    buckets: u64,
    functions: [Arc<PreparedFunction>; 3],
    callers: Vec<(ExecutorClient, Option<usize>)>,
    events: Vec<Event>,
    now: u64,
    next: u64,
    random: fastrand::Rng,
}

impl World {
    fn new(functions: &[Arc<PreparedFunction>; 3], buckets: u64, callers: usize, seed: u64) -> Self {
        let mut world = Self {
            executor: Executor::new(ExecutorConfig::default()),
            site: TornSite::new(table(buckets)),
            buckets,
            functions: functions.clone(),
            callers: Vec::new(),
            events: Vec::new(),
            now: 0,
            next: 1,
            random: fastrand::Rng::with_seed(seed),
        };
        for _ in 0..callers {
            let client = world.come();
            world.callers.push((client, None));
        }
        world
    }

    fn come(&mut self) -> ExecutorClient {
        let client = self.executor.open(Arc::default());
        for (handle, function) in self.functions.iter().enumerate() {
            let function = Arc::clone(function);
            let binding =
                Binding { function, regions: vec![((), Rights::ALL)], fuel: 100_000, reply_max: 64 };
            self.executor.bind(client, handle as u32, binding);
        }
        client
    }

    fn begin(&mut self, caller: usize, key: u8, op: Op) {
        let (handle, value) = match op {
            Op::Get(_) => (0, None),
            Op::Put(value) => (1, Some(value)),
            Op::Delete(_) => (2, None),
        };
        let bytes = arguments(self.buckets, key, value);
        let call = Call { call: self.next, handle, patience_us: 0 };
        self.next += 1;
        let fill = (bytes.len(), |buffer: &mut [u8]| buffer.copy_from_slice(&bytes));
        let client = self.callers[caller].0;
        assert_eq!(self.executor.submit(Time::ZERO, client, &call, fill), Submitted::Taken);
        self.now += 1;
        self.callers[caller].1 = Some(self.events.len());
        self.events.push(Event { key, op, began: self.now, ended: None, did_nothing: false });
    }

    fn run(&mut self) {
        let (events, callers, now) = (&mut self.events, &mut self.callers, &mut self.now);
        self.executor.run(
            Time::ZERO,
            &mut self.site,
            10_000,
            |ExecutionOutcome { client, result, .. }| {
                let (value, reply) = result.unwrap();
                *now += 1;
                let caller = callers.iter_mut().find(|(other, _)| *other == client).unwrap();
                let event = &mut events[caller.1.take().unwrap()];
                event.ended = Some(*now);
                event.did_nothing = value == BUSY;
                match &mut event.op {
                    _ if value == BUSY => {}
                    Op::Get(found) => *found = (value == DONE).then(|| read(reply)),
                    Op::Put(_) => assert_eq!(value, DONE),
                    Op::Delete(was_there) => *was_there = value == DONE,
                }
                assert!(matches!(value, DONE | NOT_FOUND | BUSY), "{value}");
            },
        );
    }

    /// So many steps, then everything to its end.
    fn play(&mut self, steps: usize, keys: u8, mut deaths: usize) {
        for step in 0..steps {
            let caller = self.random.usize(..self.callers.len());
            match self.random.u8(..) {
                0..40 if self.callers[caller].1.is_none() => {
                    let op = match self.random.u8(..8) {
                        0..3 => Op::Get(None),
                        3..6 => Op::Put(step as u64),
                        _ => Op::Delete(false),
                    };
                    let key = self.random.u8(1..=keys);
                    self.begin(caller, key, op);
                }
                40 if deaths > 0 && self.callers[caller].1.is_some() => {
                    deaths -= 1;
                    self.die(caller);
                }
                _ => {
                    self.site.step(&mut self.random, &mut self.executor);
                    self.run();
                }
            }
        }
        self.finish();
    }

    /// A caller dies. The access that its function has begun still happens, and nothing after it.
    fn die(&mut self, caller: usize) {
        self.executor.close(self.callers[caller].0);
        let client = self.come();
        self.callers[caller] = (client, None);
    }

    fn finish(&mut self) {
        loop {
            self.run();
            if !self.site.step(&mut self.random, &mut self.executor) && self.executor.is_idle() {
                return;
            }
        }
    }
}

fn read(reply: &[u8]) -> u64 {
    let [value, inverse] = [0, 8].map(|at| u64::from_le_bytes(reply[at..at + 8].try_into().unwrap()));
    assert_eq!(value, !inverse, "a value in one piece");
    value
}

/// Few keys, so that all callers meet.
fn play(seeds: std::ops::Range<u64>, callers: usize, deaths: usize) {
    play_with(seeds, callers, deaths, |seed| Size {
        buckets: if seed % 2 == 0 { 1 } else { 4 },
        keys: 1 + (seed % 5) as u8,
        filled: 0,
    });
}

/// How large a table is: its buckets, the keys that are used, and how many of them are there at first.
struct Size {
    buckets: u64,
    keys: u8,
    filled: u8,
}

/// Few die in one history: whether each of them did what it began is tried both ways, at every moment.
fn play_with(seeds: std::ops::Range<u64>, callers: usize, deaths: usize, size: impl Fn(u64) -> Size) {
    let functions = functions();
    let (mut done, mut busy) = (0, 0);
    for seed in seeds {
        let Size { buckets, keys, filled } = size(seed);
        let mut world = World::new(&functions, buckets, callers, seed);
        for key in 1..=filled {
            world.begin(0, key, Op::Put(u64::from(key) << 32));
            world.finish();
        }
        world.play(8000, keys, deaths);
        done += world.events.iter().filter(|event| event.ended.is_some()).count();
        busy += world.events.iter().filter(|event| event.did_nothing).count();
        if let Err(key) = check(&world.events) {
            println!("seed {seed}, key {key}");
            let of_key: Vec<_> = world.events.iter().filter(|event| event.key == key).collect();
            panic!("no hash map could have given {of_key:#?}");
        }
    }
    assert!(done > 200 && busy * 10 < done, "{done} were done, {busy} were not");
}

#[test]
fn one_caller_finds_what_it_put() {
    play(0..40, 1, 0);
}

#[test]
fn several_callers_see_one_table() {
    play(100..200, 5, 0);
}

#[test]
fn callers_that_die_leave_a_table_that_works() {
    play(200..300, 5, 5);
}

/// A get looks at the first half of a bucket, and at the other only if its key is not there.
#[test]
fn both_halves_of_a_bucket_change_while_others_look() {
    play_with(300..350, 4, 3, |_| Size { buckets: 1, keys: 14, filled: 14 });
}

#[test]
fn a_full_table_says_so_and_recovers() {
    let functions = functions();
    let mut world = World::new(&functions, 1, 1, 1);
    let call = |world: &mut World, key: u8, function: u32| {
        let bytes = arguments(1, key, (function == 1).then_some(u64::from(key)));
        let call = Call { call: world.next, handle: function, patience_us: 0 };
        world.next += 1;
        let fill = (bytes.len(), |buffer: &mut [u8]| buffer.copy_from_slice(&bytes));
        let client = world.callers[0].0;
        assert_eq!(world.executor.submit(Time::ZERO, client, &call, fill), Submitted::Taken);
        let mut given = None;
        while given.is_none() {
            world.site.step(&mut world.random, &mut world.executor);
            let tell = |outcome: ExecutionOutcome<'_>| given = Some(outcome.result.unwrap().0);
            world.executor.run(Time::ZERO, &mut world.site, 10_000, tell);
        }
        given.unwrap()
    };
    for key in 1..=15 {
        assert_eq!(call(&mut world, key, 1), DONE);
        // Also when the other half of the bucket is not looked at, or only there.
        for other in 1..=16 {
            let expected = if other <= key { DONE } else { NOT_FOUND };
            assert_eq!(call(&mut world, other, 0), expected, "key {other} of {key}");
        }
    }
    // More often than there are slots: those that are not used come back.
    for _ in 0..2 * SLOTS {
        assert_eq!(call(&mut world, 16, 1), 2, "no place in the bucket");
    }
    assert_eq!(call(&mut world, 3, 2), DONE);
    assert_eq!(call(&mut world, 16, 1), DONE);
    assert_eq!(call(&mut world, 3, 0), NOT_FOUND);
    for round in 0..2 * SLOTS {
        assert_eq!(call(&mut world, 16, 1), DONE, "{round}");
    }
}
