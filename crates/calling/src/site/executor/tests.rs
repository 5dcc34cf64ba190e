mod fairness;
mod forward;
mod moving;
mod site;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use outboard_wire::Rights;
use outboard_wire::calling::TrapReason;
use proptest::prelude::*;

use super::*;
use crate::{FunctionImage, PreparedFunction};
use site::{Here, Words, word};

/// What one call gave.
type Given = Result<(u64, Vec<u8>), CallFailure>;

/// An executor with its site, and what became of calls.
struct World {
    executor: Executor<Words>,
    site: Here,
    regions: Vec<Words>,
    ended: HashMap<(ExecutorClient, u64), Given>,
    /// The call that went on at another server last, as it travels.
    forwarded: Vec<u8>,
    order: Vec<ExecutorClient>,
    next: u64,
}

impl World {
    fn new() -> Self {
        let regions = vec![Rc::new(RefCell::new(vec![0; 256])), Rc::new(RefCell::new(vec![0; 64]))];
        let (executor, site) = (Executor::new(ExecutorConfig::default()), Here::default());
        Self {
            executor,
            site,
            regions,
            ended: HashMap::new(),
            forwarded: Vec::new(),
            order: Vec::new(),
            next: 1,
        }
    }

    fn client(&mut self) -> ExecutorClient {
        self.executor.open(Arc::default())
    }

    /// Binds a function that may do anything with the first region, and read the second.
    fn bind(&mut self, client: ExecutorClient, handle: u32, text: &str) {
        self.bind_with(client, handle, text, 10_000);
    }

    fn bind_with(&mut self, client: ExecutorClient, handle: u32, text: &str, fuel: u64) {
        let function =
            Arc::new(PreparedFunction::prepare(&FunctionImage::from_text(text, "main").unwrap()).unwrap());
        let rights = [Rights::ALL, Rights::READ];
        let regions = self.regions.iter().cloned().zip(rights).collect();
        let dropped = self.executor.bind(client, handle, Binding { function, regions, fuel, reply_max: 32 });
        assert_eq!(dropped, [0; 0]);
    }

    fn submit(&mut self, client: ExecutorClient, handle: u32, arguments: &[u8]) -> (u64, Submitted) {
        let call = Call { call: self.next, handle, patience_us: 0 };
        self.next += 1;
        let fill = (arguments.len(), |buffer: &mut [u8]| buffer.copy_from_slice(arguments));
        (call.call, self.executor.submit(Time::ZERO, client, &call, fill))
    }

    fn run(&mut self, now: Time, fuel: u64) {
        let Self { ended, order, forwarded, .. } = self;
        self.executor.run(now, &mut self.site, fuel, |ExecutionOutcome { client, call, result }| {
            order.push(client);
            let result = match result {
                Ok((value, reply)) => Ok((value, reply.to_vec())),
                Err(NoReply::Failed(failure)) => Err(failure),
                Err(NoReply::Forwarded(leaving)) => {
                    forwarded.clear();
                    return leaving.encode(forwarded);
                }
            };
            assert_eq!(ended.insert((client, call), result), None, "told twice");
        });
    }

    /// Everything that waits, to its end.
    fn finish(&mut self) {
        loop {
            self.run(Time::ZERO, 1_000_000);
            if !self.site.end_one(&mut self.executor) && self.executor.is_idle() {
                return;
            }
        }
    }

    fn call(&mut self, client: ExecutorClient, handle: u32, arguments: &[u8]) -> Given {
        let (call, submitted) = self.submit(client, handle, arguments);
        match submitted {
            Submitted::Failed(failure) => return Err(failure),
            Submitted::Taken => self.finish(),
            Submitted::Full => panic!("nothing else is under way"),
        }
        self.ended.remove(&(client, call)).expect("it ended")
    }
}

/// Adds the argument to a word, and replies what is in the second region beside it.
const COUNT: &str = "
    ldxdw r3, [r1+0]
    mov r1, 0
    mov r2, 16
    call region_fetch_add
    mov r6, r0
    mov r1, 1
    mov r2, 8
    mov r3, r10
    add r3, -8
    mov r4, 8
    call region_read
    mov r1, r10
    add r1, -8
    mov r2, 8
    call reply
    mov r0, r6
    exit";

#[test]
fn a_function_reads_writes_and_replies() {
    for is_far in [false, true] {
        let mut world = World::new();
        world.site.is_far = is_far;
        world.regions[1].borrow_mut()[8..16].copy_from_slice(b"constant");
        let client = world.client();
        world.bind(client, 3, COUNT);
        for number in 0..5u64 {
            let given = world.call(client, 3, &2u64.to_le_bytes());
            assert_eq!(given, Ok((2 * number, b"constant".to_vec())));
        }
        assert_eq!(world.regions[0].borrow()[16], 10);
    }
}

#[test]
fn what_is_fetched_stays_until_its_buffer_is_used_again() {
    let text = "
        mov r1, 1
        mov r2, 8
        mov r3, 8
        mov r4, 0
        call region_fetch
        mov r6, r0
        mov r1, 0
        mov r2, 0
        mov r3, 16
        mov r4, 10
        call region_fetch
        ldxdw r7, [r0+8]
        mov r1, r6
        mov r2, 8
        call reply
        mov r0, r7
        exit";
    for is_far in [false, true] {
        let mut world = World::new();
        world.site.is_far = is_far;
        world.regions[1].borrow_mut()[8..16].copy_from_slice(b"constant");
        world.regions[0].borrow_mut()[8] = 5;
        let client = world.client();
        world.bind(client, 0, text);
        assert_eq!(world.call(client, 0, &[]), Ok((5, b"constant".to_vec())));
    }
    let beyond = "mov r1, 0\nmov r2, 250\nmov r3, 8\nmov r4, 0\ncall region_fetch\nexit";
    assert_eq!(trapped(beyond, 1000), (4, TrapReason::OutOfBounds));
    let no_buffer = "mov r1, 0\nmov r2, 0\nmov r3, 8\nmov r4, 11\ncall region_fetch\nexit";
    assert_eq!(trapped(no_buffer, 1000), (4, TrapReason::Memory));
    let too_long = "mov r1, 0\nmov r2, 0\nmov r3, 100000\nmov r4, 0\ncall region_fetch\nexit";
    assert_eq!(trapped(too_long, 100_000), (4, TrapReason::Memory));
}

/// Fetches the word that its argument names, and the one that this names.
const FOLLOW: &str = "
    ldxdw r2, [r1+0]
    mov r1, 0
    mov r3, 8
    mov r4, 0
    call region_fetch
    ldxdw r2, [r0+0]
    mov r1, 0
    mov r3, 8
    mov r4, 1
    call region_fetch
    ldxdw r0, [r0+0]
    exit";

#[test]
fn functions_that_only_read_make_room_for_others_while_bytes_come_nearer() {
    for (is_far, rights, at_once) in
        [(false, Rights::READ, NEAR_MAX), (true, Rights::READ, NEAR_MAX), (false, Rights::ALL, 0)]
    {
        let mut world = World::new();
        (world.site.approaches, world.site.is_far) = (true, is_far);
        for index in 0..32u64 {
            // The word at 8 * index names the one at 8 * (31 - index).
            let at = 8 * index as usize;
            world.regions[0].borrow_mut()[at..at + 8].copy_from_slice(&(8 * (31 - index)).to_le_bytes());
        }
        let client = world.client();
        let image = FunctionImage::from_text(FOLLOW, "main").unwrap();
        let function = Arc::new(PreparedFunction::prepare(&image).unwrap());
        let regions = vec![(world.regions[0].clone(), rights)];
        world.executor.bind(client, 0, Binding { function, regions, fuel: 1000, reply_max: 0 });
        let calls: Vec<u64> =
            (0..33u64).map(|index| world.submit(client, 0, &(8 * index).to_le_bytes()).0).collect();
        world.finish();
        for (index, call) in (0..32).zip(&calls) {
            assert_eq!(world.ended[&(client, *call)], Ok((8 * index, vec![])));
        }
        let beyond = world.ended[&(client, calls[32])].clone().unwrap_err();
        assert!(
            matches!(beyond, CallFailure::Trapped { index: 4, reason: TrapReason::OutOfBounds, .. }),
            "{beyond:?}"
        );
        assert_eq!(world.site.announced_most, at_once);
        assert!(world.executor.is_idle() && world.executor.runs.near.is_empty());
    }
}

fn trapped(text: &str, fuel: u64) -> (u32, TrapReason) {
    let mut both = Vec::new();
    for is_far in [false, true] {
        let mut world = World::new();
        world.site.is_far = is_far;
        let client = world.client();
        world.bind_with(client, 0, text, fuel);
        match world.call(client, 0, &[0; 16]) {
            Err(CallFailure::Trapped { index, reason, .. }) => both.push((index, reason)),
            other => panic!("{other:?}"),
        }
        world.bind(client, 1, COUNT);
        assert!(world.call(client, 1, &[0; 8]).is_ok(), "others go on");
    }
    assert_eq!(both[0], both[1], "the same at every site");
    both[0]
}

#[test]
fn what_a_function_must_not_do_ends_it_at_the_instruction() {
    assert_eq!(trapped("again:\nja again", 1000), (0, TrapReason::OutOfFuel));
    assert_eq!(trapped("ldxdw r0, [r1+100]\nexit", 1000), (0, TrapReason::Memory));
    let access = |region: u64, offset: u64, helper: &str, third: &str| {
        let text = format!("mov r1, {region}\nmov r2, {offset}\n{third}\nmov r4, 8\ncall {helper}\nexit");
        trapped(&text, 1000)
    };
    let stack = "mov r3, r10\nadd r3, -8";
    assert_eq!(access(2, 0, "region_read", stack), (5, TrapReason::NoRegion));
    assert_eq!(access(1, 0, "region_write", stack), (5, TrapReason::NoRight));
    assert_eq!(access(1, 0, "region_fetch_add", "mov r3, 1"), (4, TrapReason::NoRight));
    assert_eq!(access(1, 0, "region_compare_swap", "mov r3, 1"), (4, TrapReason::NoRight));
    assert_eq!(access(0, 250, "region_read", stack), (5, TrapReason::OutOfBounds));
    assert_eq!(access(0, 250, "region_write", stack), (5, TrapReason::OutOfBounds));
    assert_eq!(access(0, 4, "region_fetch_add", "mov r3, 1"), (4, TrapReason::Misaligned));
    assert_eq!(access(0, 0, "region_read", "mov r3, 7"), (4, TrapReason::Memory));
    assert_eq!(access(0, 0, "region_read", "mov r3, r10"), (4, TrapReason::Memory));
}

#[test]
fn replies_and_copies_are_bounded() {
    let long = "mov r6, 5\nagain:\nmov r1, r10\nadd r1, -8\nmov r2, 8\ncall reply\nadd r6, -1\njne r6, 0, again\nexit";
    assert_eq!(trapped(long, 1000), (4, TrapReason::ReplyTooLong));
    // Each copy is cheap to ask for: what it costs counts as well.
    let greedy =
        "again:\nmov r1, 0\nmov r2, 0\nmov r3, r10\nadd r3, -256\nmov r4, 256\ncall region_read\nja again";
    let mut world = World::new();
    let client = world.client();
    world.bind_with(client, 0, greedy, 10_000);
    let given = world.call(client, 0, &[]);
    assert!(
        matches!(given, Err(CallFailure::Trapped { index: 5, reason: TrapReason::CopiedTooMuch, .. })),
        "{given:?}"
    );
}

#[test]
fn a_call_runs_at_most_once_and_only_what_is_registered() {
    let mut world = World::new();
    let window = Arc::default();
    let client = world.executor.open(Arc::clone(&window));
    world.bind(client, 0, COUNT);
    assert_eq!(world.call(client, 1, &[0; 8]), Err(CallFailure::NoFunction));
    assert_eq!(world.call(client, 4000, &[0; 8]), Err(CallFailure::NoFunction));
    let max = world.executor.config().arguments_max;
    let too_long = Err(CallFailure::ArgumentsTooLong { max: max as u32 });
    assert_eq!(world.call(client, 0, &vec![0; max + 1]), too_long);
    assert!(world.call(client, 0, &1u64.to_le_bytes()).is_ok());
    world.next -= 1;
    assert_eq!(world.call(client, 0, &1u64.to_le_bytes()), Err(CallFailure::Repeated));
    // By another link it is the same caller.
    let again = world.executor.open(window);
    world.bind(again, 5, COUNT);
    world.next -= 1;
    assert_eq!(world.call(again, 5, &1u64.to_le_bytes()), Err(CallFailure::Repeated));
    assert!(world.call(again, 5, &1u64.to_le_bytes()).is_ok());
    assert_eq!(world.regions[0].borrow()[16], 2);
}

#[test]
fn what_changes_nothing_may_begin_by_any_number_and_what_goes_on_as_another_may_not() {
    let mut world = World::new();
    let client = world.client();
    let forwards = "mov r6, r1\nmov r1, 9\nmov r2, r6\nmov r3, 0\ncall forward\nexit";
    for (handle, text) in [(0, "mov r0, 5\nexit"), (1, forwards)] {
        let function =
            Arc::new(PreparedFunction::prepare(&FunctionImage::from_text(text, "main").unwrap()).unwrap());
        let regions = vec![(Rc::clone(&world.regions[0]), Rights::READ)];
        world.executor.bind(client, handle, Binding { function, regions, fuel: 100, reply_max: 0 });
    }
    world.bind(client, 2, COUNT);
    world.next = 3 * crate::WINDOW;
    assert!(world.call(client, 2, &1u64.to_le_bytes()).is_ok());
    for (handle, is_known) in [(0, true), (1, false), (2, false)] {
        world.next = 7;
        let given = world.call(client, handle, &1u64.to_le_bytes());
        assert_eq!(given != Err(CallFailure::Repeated), is_known, "{handle}: {given:?}");
    }
}

#[test]
fn a_call_without_patience_does_not_run_late() {
    let mut world = World::new();
    let client = world.client();
    world.bind(client, 0, COUNT);
    for (number, patience_us) in [(1, 100), (2, 0), (3, 300)] {
        let call = Call { call: number, handle: 0, patience_us };
        let fill = (8, |buffer: &mut [u8]| buffer[0] = 1);
        assert_eq!(world.executor.submit(Time::ZERO, client, &call, fill), Submitted::Taken);
    }
    world.run(Time::ZERO + Duration::from_micros(200), 1_000_000);
    assert_eq!(world.ended[&(client, 1)], Err(CallFailure::Expired));
    assert!(world.ended[&(client, 2)].is_ok() && world.ended[&(client, 3)].is_ok());
    assert_eq!(world.regions[0].borrow()[16], 2);
}

#[test]
fn a_client_has_so_many_calls_under_way_and_no_more() {
    for is_far in [false, true] {
        let mut world = World::new();
        world.site.is_far = is_far;
        let (client, other) = (world.client(), world.client());
        world.bind(client, 0, COUNT);
        world.bind(other, 0, COUNT);
        let most = world.executor.config().calls_per_client;
        for _ in 0..most {
            assert_eq!(world.submit(client, 0, &[0; 8]).1, Submitted::Taken);
        }
        if is_far {
            // Suspended ones count too.
            world.run(Time::ZERO, 1_000_000);
            assert_eq!(world.site.begun.len(), most);
        }
        assert_eq!(world.submit(client, 0, &[0; 8]).1, Submitted::Full);
        assert_eq!(world.submit(other, 0, &[0; 8]).1, Submitted::Taken);
        world.finish();
        assert_eq!(world.ended.len(), most + 1);
        assert_eq!(world.submit(client, 0, &[0; 8]).1, Submitted::Taken);
    }
}

#[test]
fn what_a_client_leaves_behind_disturbs_no_other() {
    for is_far in [false, true] {
        let mut world = World::new();
        world.site.is_far = is_far;
        let client = world.client();
        world.bind(client, 0, COUNT);
        for _ in 0..10 {
            world.submit(client, 0, &1u64.to_le_bytes());
        }
        if is_far {
            world.run(Time::ZERO, 60);
        }
        world.executor.close(client);
        let next = world.client();
        assert_eq!(next, client, "numbers are used again");
        world.bind(next, 0, COUNT);
        assert!(world.call(next, 0, &0u64.to_le_bytes()).is_ok());
        world.finish();
        assert_eq!(world.ended.len(), 0, "nothing is told of calls of a client that has gone");
        assert_eq!(world.submit(client, 0, &[0; 8]).1, Submitted::Taken);
    }
}

#[test]
fn when_regions_are_out_of_reach_every_call_ends_and_says_whether_it_ran() {
    let mut world = World::new();
    world.site.is_far = true;
    let (one, other) = (world.client(), world.client());
    world.bind(one, 0, COUNT);
    world.bind(other, 0, COUNT);
    let suspended = world.submit(one, 0, &1u64.to_le_bytes()).0;
    world.run(Time::ZERO, 1_000_000);
    let waiting = world.submit(other, 0, &1u64.to_le_bytes()).0;
    let mut ended = Vec::new();
    world.executor.abandon(|ExecutionOutcome { client, call, result }| match result {
        Err(NoReply::Failed(failure)) => ended.push((client, call, failure)),
        other => panic!("{other:?}"),
    });
    ended.sort_by_key(|(client, ..)| client.index());
    assert_eq!(ended[1], (other, waiting, CallFailure::NoFunction));
    let unreached = CallFailure::Trapped { index: 3, reason: TrapReason::NotReached, address: 0 };
    assert_eq!(ended[0], (one, suspended, unreached));
    world.finish();
    assert!(world.ended.is_empty() && world.executor.is_idle(), "late answers are dropped");
    world.site.is_far = false;
    assert!(world.call(one, 0, &1u64.to_le_bytes()).is_ok());
    assert!(world.call(other, 0, &1u64.to_le_bytes()).is_ok());
}

#[test]
fn a_number_with_a_new_meaning_forgets_its_calls() {
    let mut world = World::new();
    let client = world.client();
    world.bind(client, 0, COUNT);
    let (first, _) = world.submit(client, 0, &[0; 8]);
    let function =
        PreparedFunction::prepare(&FunctionImage::from_text("mov r0, 9\nexit", "main").unwrap()).unwrap();
    let binding = Binding { function: Arc::new(function), regions: vec![], fuel: 100, reply_max: 0 };
    assert_eq!(world.executor.bind(client, 0, binding), [first]);
    assert_eq!(world.call(client, 0, &[]), Ok((9, vec![])));
    assert_eq!(world.order.len(), 1);
}

proptest! {
    /// Whatever is near or far, and in whatever order things end: every call ends once, with what it alone would give.
    #[test]
    fn every_call_ends_once(steps in proptest::collection::vec((0u8..6, 0usize..3, 1u64..9), 1..120)) {
        let mut world = World::new();
        let clients = [world.client(), world.client(), world.client()];
        for client in clients {
            world.bind(client, 0, COUNT);
            world.bind(client, 1, fairness::SPEND);
        }
        let (mut taken, mut sum) = (0, 0u64);
        for (what, client, number) in steps {
            match what {
                0 => world.site.is_far = !world.site.is_far,
                1 => world.run(Time::ZERO, number * 20),
                2 => { world.site.end_one(&mut world.executor); }
                3 => {
                    world.submit(clients[client], 1, &(number * 100).to_le_bytes());
                    taken += 1;
                }
                _ => {
                    world.submit(clients[client], 0, &number.to_le_bytes());
                    (taken, sum) = (taken + 1, sum + number);
                }
            }
        }
        world.finish();
        prop_assert_eq!(world.ended.len(), taken);
        prop_assert!(world.ended.values().all(Result::is_ok));
        prop_assert_eq!(word(&world.regions[0].borrow(), 16).unwrap(), sum);
    }
}

#[test]
fn time_random_and_log_are_the_sites() {
    let mut world = World::new();
    let client = world.client();
    let text = "
        stb [r10-2], 104
        stb [r10-1], 105
        mov r1, r10
        add r1, -2
        mov r2, 2
        call outboard_log
        call outboard_time
        mov r6, r0
        call outboard_random
        add r0, r6
        exit";
    world.bind(client, 0, text);
    assert_eq!(world.call(client, 0, &[]), Ok((46, vec![])));
    assert_eq!(world.site.logged, ["hi"]);
}
