//! Calls that leave a site in the middle of their run, and go on at another.

use outboard_wire::calling::Moving;

use super::*;
use crate::Recalled;

const KV: &[u8] = include_bytes!("../../../../../../apps/kv/functions/kv-v3.o");
const BTREE: &[u8] = include_bytes!("../../../../../../apps/btree/functions/btree-v3.o");
const FUEL: u64 = 500_000;

/// A call as it travels.
#[derive(Clone)]
struct Travelling {
    call: u64,
    handle: u32,
    spent: u64,
    reply: Vec<u8>,
    state: Vec<u8>,
}

impl Travelling {
    fn moving(&self) -> Moving<'_> {
        let Self { call, handle, spent, reply, state } = self;
        Moving { call: *call, handle: *handle, patience_us: 0, spent: *spent, reply, state }
    }
}

fn functions(object: &[u8], entries: [&str; 3]) -> Vec<Arc<PreparedFunction>> {
    let image = |entry| FunctionImage::from_object(object, entry).unwrap();
    entries.map(|entry| Arc::new(PreparedFunction::prepare(&image(entry)).unwrap())).to_vec()
}

fn kv() -> Vec<Arc<PreparedFunction>> {
    functions(KV, ["kv_get", "kv_put", "kv_delete"])
}

const BUCKETS_LOG2: u64 = 2;
const SLOT_BYTES: u64 = 64;

/// An empty table.
fn table() -> Vec<u8> {
    let (buckets, slots) = (1u64 << BUCKETS_LOG2, 96u64);
    let slots_at = 576 + buckets * 128;
    let header = [0x3330_764b_6274_754f, buckets - 1, slots, SLOT_BYTES, slots_at, 0, 0, 0];
    let mut bytes = header.map(u64::to_le_bytes).as_flattened().to_vec();
    bytes.resize((slots_at + slots * SLOT_BYTES) as usize, 0);
    bytes
}

fn arguments(key: u64, value: Option<u64>) -> Vec<u8> {
    let length = value.map_or(0, |_| 8);
    let words = [1 << 32 | length, SLOT_BYTES << 8 | BUCKETS_LOG2, 0, key].into_iter().chain(value);
    words.flat_map(u64::to_le_bytes).collect()
}

/// A site on the same memory as others, with the same functions.
fn site(memory: &Words, functions: &[Arc<PreparedFunction>], is_far: bool) -> (World, ExecutorClient) {
    let mut world = World::new();
    world.site.is_far = is_far;
    world.regions = vec![Rc::clone(memory)];
    let client = world.client();
    for (handle, function) in functions.iter().enumerate() {
        let regions = vec![(Rc::clone(memory), Rights::ALL)];
        let binding = Binding { function: Arc::clone(function), regions, fuel: FUEL, reply_max: 1024 };
        world.executor.bind(client, handle as u32, binding);
    }
    (world, client)
}

/// Takes the only call of a site back, if it waits for a read.
fn take_back(world: &mut World, client: ExecutorClient, call: u64) -> Option<Travelling> {
    let mut taken = None;
    world.executor.recall(client, &[call], |recalled| match recalled {
        Recalled::Suspended(Moving { call, handle, spent, reply, state, .. }) => {
            let (reply, state) = (reply.to_vec(), state.to_vec());
            taken = Some(Travelling { call, handle, spent, reply, state });
        }
        Recalled::Waiting(_) => panic!("it has begun"),
    });
    taken
}

/// What a call gives that moves to a new site before it has ended `stay` accesses, again and again; and how often it did.
fn wander(
    memory: &Words,
    functions: &[Arc<PreparedFunction>],
    (handle, arguments): (u32, &[u8]),
    plan: &[(usize, bool)],
) -> (Given, usize) {
    let (mut world, client) = site(memory, functions, true);
    let (call, submitted) = world.submit(client, handle, arguments);
    assert_eq!(submitted, Submitted::Taken);
    let mut moves = 0;
    for (stay, next_is_far) in plan {
        world.run(Time::ZERO, FUEL);
        for _ in 0..*stay {
            world.site.end_one(&mut world.executor);
            world.run(Time::ZERO, FUEL);
        }
        let Some(travelling) = take_back(&mut world, client, call) else { continue };
        moves += 1;
        // The old answer comes, and is dropped.
        world.finish();
        assert!(world.ended.is_empty() && world.executor.is_idle(), "it is gone from here");
        let (mut next, next_client) = site(memory, functions, *next_is_far);
        assert_eq!(next_client, client);
        let mut admit = || next.executor.admit(Time::ZERO, client, &travelling.moving());
        assert_eq!((admit(), admit()), (Submitted::Taken, Submitted::Failed(CallFailure::Repeated)));
        world = next;
    }
    world.finish();
    (world.ended.remove(&(client, call)).expect("it ended"), moves)
}

/// The calls of a history, some of which find, replace and remove what others have put.
fn history() -> Vec<(u32, Vec<u8>)> {
    let (get, put, delete) = (0, 1, 2);
    let mut calls = Vec::new();
    for key in 0..6 {
        calls.push((put, arguments(key, Some(100 + key))));
    }
    for key in 0..7 {
        calls.push((get, arguments(key, None)));
        calls.push((put, arguments(key, Some(200 + key))));
        calls.push((delete, arguments(key / 2, None)));
        calls.push((get, arguments(key, None)));
    }
    calls
}

/// Runs the calls of a history at home, and those that `is_moved` names with a move at every suspension as well.
fn moved_everywhere(
    functions: &[Arc<PreparedFunction>],
    empty: Vec<u8>,
    history: Vec<(u32, Vec<u8>)>,
    is_moved: impl Fn(usize) -> bool,
) {
    let mut moved = 0;
    let reference: Words = Rc::new(RefCell::new(empty));
    let (mut at_home, client) = site(&reference, functions, false);
    for (number, (handle, arguments)) in history.into_iter().enumerate() {
        let before = reference.borrow().clone();
        let given = at_home.call(client, handle, &arguments);
        assert!(given.is_ok(), "{given:?}");
        if !is_moved(number) {
            continue;
        }
        for stay in 0..40 {
            for next_is_far in [false, true] {
                let memory = Rc::new(RefCell::new(before.clone()));
                let plan = [(stay, next_is_far)];
                let (there, moves) = wander(&memory, functions, (handle, &arguments), &plan);
                assert_eq!(there, given, "call {number} moved after {stay} accesses");
                assert!(*memory.borrow() == *reference.borrow(), "call {number} moved after {stay} accesses");
                moved += moves;
            }
        }
        // From site to site, at every read.
        let memory = Rc::new(RefCell::new(before.clone()));
        let plan: Vec<(usize, bool)> = (0..200).map(|step| (step % 2, true)).collect();
        let (there, moves) = wander(&memory, functions, (handle, &arguments), &plan);
        assert_eq!(there, given, "call {number} moved at every read");
        assert!(*memory.borrow() == *reference.borrow(), "call {number} moved at every read");
        assert!(moves > 0, "there is a read");
    }
    assert!(moved > 200, "only {moved} moves");
}

#[test]
fn a_call_gives_the_same_wherever_and_whenever_it_moves() {
    moved_everywhere(&kv(), table(), history(), |_| true);
}

#[test]
fn so_does_one_of_a_tree() {
    let functions = functions(BTREE, ["btree_lookup", "btree_scan", "btree_insert"]);
    let (lookup, scan, insert) = (0, 1, 2);
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let nodes = 16;
    let header = [0x3130_6565_7274_6274, 1024, nodes, 1, 1, 0, 0, 0];
    let leaf = [0, 0, 0, 0, u64::MAX, 0, 0, 0];
    let mut empty = words(&[header, leaf].concat());
    empty.resize(64 + nodes as usize * 1024, 0);
    let mut calls: Vec<(u32, Vec<u8>)> =
        (0..130).map(|number| (insert, words(&[number * 37 % 131, number]))).collect();
    for key in [0, 5, 64, 130, 900] {
        calls.push((lookup, words(&[key])));
        calls.push((scan, words(&[key, 40])));
        calls.push((insert, words(&[key, 7])));
    }
    // Leaves become full about here.
    moved_everywhere(&functions, empty, calls, |number| {
        number % 20 == 0 || (56..64).contains(&number) || number >= 130
    });
}

#[test]
fn calls_with_changes_under_way_and_calls_of_others_stay() {
    let mut world = World::new();
    world.site.is_far = true;
    let (one, other) = (world.client(), world.client());
    for client in [one, other] {
        world.bind(client, 0, COUNT);
    }
    let (changing, _) = world.submit(one, 0, &[0; 8]);
    world.run(Time::ZERO, FUEL);
    let (waiting, _) = world.submit(one, 0, &[0; 8]);
    let (others, _) = world.submit(other, 0, &[0; 8]);
    let mut recalled = Vec::new();
    world.executor.recall(one, &[changing, waiting, others, 99], |what| match what {
        Recalled::Waiting(call) => recalled.push(call),
        Recalled::Suspended(_) => panic!("a fetch-add is under way"),
    });
    assert_eq!(recalled, [waiting]);
    world.finish();
    let ended: Vec<_> = [(one, changing), (other, others)].map(|call| world.ended[&call].is_ok()).to_vec();
    assert_eq!((ended, world.ended.len()), (vec![true; 2], 2));
    // There is room for as many as before.
    let most = world.executor.config().calls_per_client;
    (0..most).for_each(|_| assert_eq!(world.submit(one, 0, &[0; 8]).1, Submitted::Taken));
    assert_eq!(world.submit(one, 0, &[0; 8]).1, Submitted::Full);
}

#[test]
fn what_a_stranger_sends_is_looked_at() {
    let functions = kv();
    let memory: Words = Rc::new(RefCell::new(table()));
    let (mut world, client) = site(&memory, &functions, true);
    let (call, _) = world.submit(client, 0, &arguments(1, None));
    world.run(Time::ZERO, FUEL);
    let good = take_back(&mut world, client, call).unwrap();
    let refused = |change: &dyn Fn(&mut Travelling)| {
        let (mut world, client) = site(&memory, &functions, false);
        let mut bad = good.clone();
        change(&mut bad);
        let admitted = world.executor.admit(Time::ZERO, client, &bad.moving());
        assert_eq!(admitted, Submitted::Failed(CallFailure::NotResumed));
        assert!(world.executor.is_idle());
    };
    refused(&|bad| bad.handle = 7);
    refused(&|bad| bad.spent = FUEL + 1);
    refused(&|bad| bad.reply = vec![0; 1025]);
    refused(&|bad| bad.state.truncate(100));
    refused(&|bad| bad.state.clear());
    // A write under way: the helper's number comes behind magic, hash and fuel.
    refused(&|bad| bad.state[44..48].copy_from_slice(&17u32.to_le_bytes()));
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..2000 {
        let (mut world, client) = site(&memory, &functions, random.bool());
        let mut bad = good.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bad.state.len());
            bad.state[at] ^= 1 << random.u8(..8);
        }
        // Whatever it does, it ends.
        if world.executor.admit(Time::ZERO, client, &bad.moving()) == Submitted::Taken {
            world.finish();
            assert_eq!(world.ended.len(), 1);
        }
    }
}

#[test]
fn a_call_that_comes_too_late_does_not_go_on() {
    let memory: Words = Rc::new(RefCell::new(table()));
    let (mut world, client) = site(&memory, &kv(), true);
    let (call, _) = world.submit(client, 1, &arguments(7, Some(70)));
    world.run(Time::ZERO, FUEL);
    let travelling = take_back(&mut world, client, call).expect("it waits for a read");
    let late = Time::ZERO + std::time::Duration::from_micros(11);
    for (patience_us, is_late) in [(10, true), (12, false), (0, false)] {
        let (mut next, client) = site(&memory, &kv(), false);
        let moving = Moving { patience_us, ..travelling.moving() };
        assert_eq!(next.executor.admit(Time::ZERO, client, &moving), Submitted::Taken);
        next.run(late, FUEL);
        next.finish();
        let given = next.ended.remove(&(client, call)).expect("it ended");
        assert_eq!(given == Err(CallFailure::Expired), is_late, "{given:?}");
    }
}
