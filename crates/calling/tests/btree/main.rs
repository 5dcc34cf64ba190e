//! The functions of the B-tree `apps/btree`: beside an ordered map, and on a region whose accesses take long, overtake each
//! other and are torn into words.
// Also outside test functions a test fails by panicking, and prints the seed that repeats it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../kv/history.rs"]
mod history;
mod near;
#[path = "../kv/site.rs"]
mod site;

use std::collections::BTreeMap;
use std::sync::Arc;

use history::{Event, Op, check};
use near::NearSite;
use outboard_calling::{
    Binding, ExecutionOutcome, Executor, ExecutorClient, ExecutorConfig, FunctionImage, PreparedFunction,
    SiteHost, Submitted,
};
use outboard_wire::calling::Call;
use outboard_wire::{Rights, Time};
use site::TornSite;

const OBJECT: &[u8] = include_bytes!("../../../../apps/btree/functions/btree-v3.o");
const NODE: usize = 1024;

const LOOKUP: u32 = 0;
const SCAN: u32 = 1;
const INSERT: u32 = 2;

/// What functions return.
const DONE: u64 = 0;
const NOT_FOUND: u64 = 1;
const NO_ROOM: u64 = 2;
const BUSY: u64 = 3;
const BAD_ARGUMENTS: u64 = 5;

fn functions() -> [(Arc<PreparedFunction>, Rights); 3] {
    let both = Rights::READ.and(Rights::WRITE);
    [("btree_lookup", Rights::READ), ("btree_scan", Rights::READ), ("btree_insert", both)].map(
        |(entry, rights)| {
            let image = FunctionImage::from_object(OBJECT, entry).unwrap();
            (Arc::new(PreparedFunction::prepare(&image).unwrap()), rights)
        },
    )
}

/// An empty tree with room for so many nodes.
fn tree(nodes: usize) -> Vec<u8> {
    let header = [0x3130_6565_7274_6274, NODE as u64, nodes as u64, 1, 1, 0, 0, 0];
    let leaf = [0, 0, 0, 0, u64::MAX, 0, 0, 0];
    let mut bytes: Vec<u8> = header.into_iter().chain(leaf).flat_map(u64::to_le_bytes).collect();
    bytes.resize(64 + nodes * NODE, 0);
    bytes
}

/// A call that has ended: its number, what was returned and what was replied.
type Given = (u64, u64, Vec<u8>);

/// Callers of one tree.
struct Callers<S> {
    executor: Executor<()>,
    site: S,
    next: u64,
    functions: [(Arc<PreparedFunction>, Rights); 3],
}

impl<S: SiteHost<Region = ()>> Callers<S> {
    fn new(site: S, functions: &[(Arc<PreparedFunction>, Rights); 3]) -> Self {
        let executor = Executor::new(ExecutorConfig::default());
        Self { executor, site, next: 1, functions: functions.clone() }
    }

    fn come(&mut self) -> ExecutorClient {
        let client = self.executor.open(Arc::default());
        for (handle, (function, rights)) in self.functions.iter().enumerate() {
            let (function, regions) = (Arc::clone(function), vec![((), *rights)]);
            let binding = Binding { function, regions, fuel: 1_000_000, reply_max: 16_000 };
            self.executor.bind(client, handle as u32, binding);
        }
        client
    }

    fn begin(&mut self, client: ExecutorClient, handle: u32, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let call = Call { call: self.next, handle, patience_us: 0 };
        self.next += 1;
        let fill = (bytes.len(), |buffer: &mut [u8]| buffer.copy_from_slice(&bytes));
        assert_eq!(self.executor.submit(Time::ZERO, client, &call, fill), Submitted::Taken);
        call.call
    }

    fn run(&mut self) -> Vec<Given> {
        let mut ended = Vec::new();
        self.executor.run(Time::ZERO, &mut self.site, 10_000, |ExecutionOutcome { call, result, .. }| {
            let (value, reply) = result.unwrap();
            ended.push((call, value, reply.to_vec()));
        });
        ended
    }
}

impl Callers<NearSite> {
    /// One call, from its beginning to its end.
    fn call(&mut self, client: ExecutorClient, handle: u32, words: &[u64]) -> (u64, Vec<u8>) {
        let call = self.begin(client, handle, words);
        let mut ended = self.run();
        let (number, value, reply) = ended.pop().unwrap();
        assert_eq!((number, ended.len()), (call, 0));
        (value, reply)
    }
}

fn word(reply: &[u8]) -> u64 {
    u64::from_le_bytes(reply.try_into().unwrap())
}

fn pairs(reply: &[u8]) -> Vec<(u64, u64)> {
    reply.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..]))).collect()
}

/// Inserts keys in this order, and compares with a map all the time.
fn beside_a_map(keys: &[u64], seed: u64) -> Vec<u8> {
    let functions = functions();
    let mut callers = Callers::new(NearSite { region: tree(2 + keys.len() / 8) }, &functions);
    let (client, mut map, mut random) = (callers.come(), BTreeMap::new(), fastrand::Rng::with_seed(seed));
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(callers.call(client, INSERT, &[*key, number as u64]).0, DONE);
        map.insert(*key, number as u64);
        let other = if random.bool() { keys[random.usize(..keys.len())] } else { random.u64(..1 << 40) };
        let (value, reply) = callers.call(client, LOOKUP, &[other]);
        match map.get(&other) {
            Some(expected) => {
                assert_eq!((value, word(&reply)), (DONE, *expected), "seed {seed}, key {other}")
            }
            None => assert_eq!((value, reply.len()), (NOT_FOUND, 0), "seed {seed}, key {other}"),
        }
        let count = random.usize(..if number % 64 == 0 { 1001 } else { 20 });
        let (value, reply) = callers.call(client, SCAN, &[other, count as u64]);
        let expected: Vec<_> = map.range(other..).take(count).map(|(key, value)| (*key, *value)).collect();
        assert_eq!((value, pairs(&reply)), (DONE, expected), "seed {seed}, {count} from {other}");
    }
    // Many at once, which overlap.
    let begun: Vec<(u64, u64)> =
        keys.iter().rev().take(300).map(|key| (callers.begin(client, LOOKUP, &[*key]), *key)).collect();
    let mut ended: BTreeMap<u64, u64> = BTreeMap::new();
    while !callers.executor.is_idle() {
        ended.extend(callers.run().into_iter().map(|(call, _, reply)| (call, word(&reply))));
    }
    assert!(begun.iter().all(|(call, key)| ended[call] == map[key]));
    callers.site.region
}

#[test]
fn a_tree_has_what_an_ordered_map_has() {
    let mut random = fastrand::Rng::with_seed(1);
    let ascending: Vec<u64> = (0..3000).map(|key| key * 7).collect();
    let descending: Vec<u64> = ascending.iter().rev().copied().collect();
    let any: Vec<u64> = (0..6000).map(|_| random.u64(..1 << 40)).collect();
    let few: Vec<u64> = (0..2000).map(|_| random.u64(..500)).collect();
    let ends: Vec<u64> = (0..200).flat_map(|key| [key, u64::MAX - 1 - key]).collect();
    for (seed, keys) in [ascending, descending, any, few, ends].iter().enumerate() {
        beside_a_map(keys, seed as u64);
    }
}

#[test]
fn what_cannot_be_asked_is_refused_and_a_full_tree_says_so() {
    let functions = functions();
    let mut callers = Callers::new(NearSite { region: tree(4) }, &functions);
    let client = callers.come();
    for (handle, words) in [
        (LOOKUP, &[][..]),
        (LOOKUP, &[u64::MAX]),
        (SCAN, &[1]),
        (SCAN, &[1, 1001]),
        (INSERT, &[1]),
        (INSERT, &[u64::MAX, 1]),
    ] {
        assert_eq!(callers.call(client, handle, words).0, BAD_ARGUMENTS, "{handle} {words:?}");
    }
    let fits = (0..).take_while(|key| callers.call(client, INSERT, &[*key, 1]).0 == DONE).count() as u64;
    assert!((60..4 * 59).contains(&fits), "{fits}");
    assert_eq!(callers.call(client, INSERT, &[fits, 1]).0, NO_ROOM);
    for key in 0..fits {
        assert_eq!(callers.call(client, LOOKUP, &[key]).0, DONE, "{key} of {fits}");
    }
    assert_eq!(callers.call(client, INSERT, &[0, 2]).0, DONE, "a key that is there is given another value");
    let mut callers = Callers::new(NearSite { region: vec![0; 4096] }, &functions);
    let client = callers.come();
    assert_eq!(callers.call(client, LOOKUP, &[1]).0, 4, "no tree");
}

/// Inserts, look-ups and scans of several callers, on a tree that has many keys already.
fn play(functions: &[(Arc<PreparedFunction>, Rights); 3], region: &[u8], seed: u64) -> (usize, usize) {
    let mut callers = Callers::new(TornSite::new(region.to_vec()), functions);
    let mut random = fastrand::Rng::with_seed(seed);
    let clients: Vec<ExecutorClient> = (0..6).map(|_| callers.come()).collect();
    let mut under_way: Vec<Option<(u64, usize)>> = vec![None; clients.len()];
    let (mut events, mut now): (Vec<Event>, u64) = (Vec::new(), 0);
    // Keys close together, so that some node is split again and again.
    let of = |key: u8| 20_001 + u64::from(key) * 2;
    let mut left = 20_000;
    while left > 0 || under_way.iter().any(Option::is_some) {
        left = usize::saturating_sub(left, 1);
        let who = random.usize(..clients.len());
        if left > 0 && under_way[who].is_none() && random.u8(..) < 20 {
            let key = random.u8(..);
            let (op, handle, second) = match who {
                // Readers of two kinds, and writers.
                0 | 1 => (Op::Get(None), LOOKUP, 0),
                2 => (Op::Get(None), SCAN, 1 + random.u64(..100)),
                _ => (Op::Put(now), INSERT, now),
            };
            now += 1;
            under_way[who] = Some((callers.begin(clients[who], handle, &[of(key), second]), events.len()));
            events.push(Event { key, op, began: now, ended: None, did_nothing: false });
        }
        for _ in 0..16 {
            callers.site.step(&mut random, &mut callers.executor);
        }
        for (call, value, reply) in callers.run() {
            let who = under_way.iter().position(|call_of| call_of.is_some_and(|(of, _)| of == call)).unwrap();
            let (_, event) = under_way[who].take().unwrap();
            now += 1;
            let event = &mut events[event];
            event.ended = Some(now);
            event.did_nothing = value == BUSY;
            assert!(matches!(value, DONE | NOT_FOUND | BUSY), "{value}, seed {seed}");
            if let (Op::Get(found), false) = (&mut event.op, value == BUSY) {
                let pairs = if who == 2 { pairs(&reply) } else { Vec::new() };
                assert!(pairs.windows(2).all(|pair| pair[0].0 < pair[1].0), "{pairs:?}, seed {seed}");
                *found = match who {
                    2 => pairs.first().filter(|pair| pair.0 == of(event.key)).map(|pair| pair.1),
                    _ => (value == DONE).then(|| word(&reply)),
                };
            }
        }
    }
    if let Err(key) = check(&events) {
        println!("seed {seed}, key {key}");
        let of_key: Vec<_> = events.iter().filter(|event| event.key == key).collect();
        panic!("no map could have given {of_key:#?}");
    }
    (events.len(), events.iter().filter(|event| event.did_nothing).count())
}

#[test]
fn several_callers_see_one_tree_whatever_overtakes_what() {
    let functions = functions();
    // Three levels.
    let keys: Vec<u64> = (0..3000).map(|key| key * 14).collect();
    let region = beside_a_map(&keys, 9);
    let (mut done, mut busy) = (0, 0);
    for seed in 0..12 {
        let (began, was_busy) = play(&functions, &region, seed);
        (done, busy) = (done + began, busy + was_busy);
    }
    assert!(done > 200 && busy * 4 < done, "{done} were begun, {busy} were not done");
}
