//! Calls that go on as another function.

use outboard_wire::calling::{Continue, Forwarded};

use super::*;

/// Replies its first word, and goes on as the function that the second names, with the first less one and the others.
const STEP: &str = "
    ldxdw r6, [r1+0]
    ldxdw r7, [r1+8]
    stxdw [r10-8], r7
    mov r8, r6
    add r8, -1
    stxdw [r10-16], r8
    stxdw [r10-24], r6
    mov r1, r10
    add r1, -24
    mov r2, 8
    call reply
    mov r1, 0
    mov r2, 16
    mov r3, 1
    call region_fetch_add
    jeq r6, 0, end
    mov r1, r7
    mov r2, r10
    add r2, -16
    mov r3, 16
    call forward
    end:
    mov r0, r6
    exit";

fn arguments(steps: u64, next: u64) -> Vec<u8> {
    [steps, next].map(u64::to_le_bytes).concat()
}

#[test]
fn a_call_goes_on_as_another_function() {
    for is_far in [false, true] {
        let mut world = World::new();
        world.site.is_far = is_far;
        let client = world.client();
        world.bind(client, 3, STEP);
        world.bind(client, 4, "ldxdw r0, [r1+0]\nadd r0, 100\nexit");
        // Twice itself, then it has counted down.
        let (value, reply) = world.call(client, 3, &arguments(2, 3)).unwrap();
        let words: Vec<u64> = reply.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!((value, words), (0, vec![2, 1, 0]));
        assert_eq!(world.regions[0].borrow()[16], 3);
        let (value, reply) = world.call(client, 3, &arguments(8, 4)).unwrap();
        assert_eq!((value, reply), (107, 8u64.to_le_bytes().to_vec()));
        assert!(world.call(client, 4, &arguments(0, 0)).is_ok(), "calls end once");
        assert!(world.executor.is_idle());
    }
}

#[test]
fn going_on_is_bounded_and_needs_a_function() {
    for is_far in [false, true] {
        let mut world = World::new();
        world.site.is_far = is_far;
        let (client, other) = (world.client(), world.client());
        world.bind(client, 3, STEP);
        world.bind(other, 5, STEP);
        let reason = |given: Given| match given {
            Err(CallFailure::Trapped { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        for next in [4, 5, 4095, 4096, u64::MAX] {
            let at_the_call = CallFailure::Trapped { index: 20, reason: TrapReason::NoForward, address: 0 };
            assert_eq!(world.call(client, 3, &arguments(1, next)), Err(at_the_call), "{next}");
        }
        assert_eq!(reason(world.call(client, 3, &arguments(1000, 3))), TrapReason::ReplyTooLong);
        let endless = "mov r1, 6\nmov r2, r10\nadd r2, -8\nmov r3, 8\nstxdw [r10-8], r3\ncall forward\nexit";
        world.bind(client, 6, endless);
        let given = reason(world.call(client, 6, &[]));
        assert!(matches!(given, TrapReason::OutOfFuel | TrapReason::CopiedTooMuch), "{given:?}");
        assert!(world.call(client, 3, &arguments(0, 0)).is_ok(), "others go on");
    }
}

#[test]
fn whether_a_function_may_go_on_as_another_is_seen_in_its_code() {
    let image = |text| FunctionImage::from_text(text, "main").unwrap();
    assert!(image(STEP).may_forward());
    assert!(!image(COUNT).may_forward());
}

/// Replies its first word, counts, and goes on at the server that the second names, as the function that the third names,
/// with the first less one and the others.
const LEAVE: &str = "
    ldxdw r6, [r1+0]
    ldxdw r7, [r1+8]
    ldxdw r8, [r1+16]
    stxdw [r10-8], r8
    stxdw [r10-16], r7
    stxdw [r10-32], r6
    add r6, -1
    stxdw [r10-24], r6
    mov r1, r10
    add r1, -32
    mov r2, 8
    call reply
    mov r1, r7
    mov r2, r8
    mov r3, r10
    add r3, -24
    mov r4, 24
    call forward_to
    mov r1, 0
    mov r2, 16
    mov r3, 1
    call region_fetch_add
    exit";
/// Where it does.
const LEAVES_AT: u32 = 17;

fn words(words: [u64; 3]) -> Vec<u8> {
    words.map(u64::to_le_bytes).concat()
}

impl World {
    /// Calls what goes on at another server, and returns how.
    fn leave(&mut self, client: ExecutorClient, handle: u32, arguments: &[u8]) -> Vec<u8> {
        self.forwarded.clear();
        assert_eq!(self.submit(client, handle, arguments).1, Submitted::Taken);
        self.finish();
        assert!(self.ended.is_empty() && self.executor.calls() == 0, "{:?}", self.ended);
        std::mem::take(&mut self.forwarded)
    }

    /// A call that comes from another server.
    fn go_on(&mut self, client: ExecutorClient, leaving: &Forwarded<'_>) -> (u64, Submitted) {
        let call = Call { call: self.next, handle: leaving.handle, patience_us: 0 };
        self.next += 1;
        let rest = Continue { call, fuel: leaving.fuel };
        (call.call, self.executor.submit_rest(Time::ZERO, client, &rest, leaving.arguments))
    }
}

#[test]
fn a_call_goes_on_at_another_server_with_what_is_left_of_its_fuel() {
    for is_far in [false, true] {
        let (mut one, mut other) = (World::new(), World::new());
        (one.site.is_far, other.site.is_far) = (is_far, !is_far);
        let (client, there) = (one.client(), other.client());
        one.bind(client, 3, LEAVE);
        other.bind(there, 5, LEAVE);
        let bytes = one.leave(client, 3, &words([7, 255, 5]));
        let leaving = Forwarded::decode(&bytes).unwrap();
        assert_eq!((leaving.server, leaving.handle, leaving.index), (255, 5, LEAVES_AT));
        assert_eq!((leaving.reply, leaving.arguments), (&words([7, 0, 0])[..8], &words([6, 255, 5])[..]));
        assert!((8000..9000).contains(&leaving.fuel), "{}", leaving.fuel);
        assert_eq!(one.regions[0].borrow()[16], 1, "what comes behind is done before");
        // There it has no more than it had left, and so each time.
        let (mut bytes, mut hops) = (bytes.clone(), 1);
        let trapped = loop {
            let (call, submitted) = other.go_on(there, &Forwarded::decode(&bytes).unwrap());
            assert_eq!(submitted, Submitted::Taken);
            other.forwarded.clear();
            other.finish();
            match other.ended.remove(&(there, call)) {
                Some(ended) => break ended,
                None => (bytes, hops) = (std::mem::take(&mut other.forwarded), hops + 1),
            }
        };
        let out_of_fuel =
            CallFailure::Trapped { index: LEAVES_AT, reason: TrapReason::OutOfFuel, address: 0 };
        assert_eq!((trapped, hops), (Err(out_of_fuel), 9));
        assert!(one.executor.is_idle() && other.executor.is_idle());
    }
}

#[test]
fn what_no_caller_would_take_does_not_leave() {
    let mut world = World::new();
    let client = world.client();
    world.bind(client, 3, LEAVE);
    for (server, function, why) in [
        (256, 0, TrapReason::NoServer),
        (u64::MAX, 0, TrapReason::NoServer),
        (1 << 32, 0, TrapReason::NoServer),
        (0, 4096, TrapReason::NoForward),
        (0, 1 << 32, TrapReason::NoForward),
    ] {
        let at_the_call = CallFailure::Trapped { index: LEAVES_AT, reason: why, address: 0 };
        assert_eq!(world.call(client, 3, &words([1, server, function])), Err(at_the_call));
    }
    // More than one frame brings: what is fetched is as long as arguments may be.
    let long = "mov r1, 1\nmov r2, 0\nlddw r3, 16384\nmov r4, 0\ncall region_fetch
        mov r3, r0\nmov r1, 0\nmov r2, 0\nlddw r4, 16384\ncall forward_to\nexit";
    world.regions[1] = Rc::new(RefCell::new(vec![0; 16384]));
    world.bind_with(client, 4, long, 100_000);
    let too_long = CallFailure::Trapped { index: 11, reason: TrapReason::NoForward, address: 0 };
    assert_eq!(world.call(client, 4, &[]), Err(too_long));
}

#[test]
fn the_latest_word_on_how_to_go_on_counts() {
    let mut world = World::new();
    let client = world.client();
    let both = |first: &str, second: &str| {
        let say = |which: &str| match which {
            "here" => "mov r1, 4\nmov r2, r10\nadd r2, -8\nmov r3, 8\ncall forward\n",
            _ => "mov r1, 1\nmov r2, 4\nmov r3, r10\nadd r3, -8\nmov r4, 8\ncall forward_to\n",
        };
        format!("mov r3, 9\nstxdw [r10-8], r3\n{}{}exit", say(first), say(second))
    };
    world.bind(client, 3, &both("there", "here"));
    world.bind(client, 4, "ldxdw r0, [r1+0]\nexit");
    world.bind(client, 5, &both("here", "there"));
    assert_eq!(world.call(client, 3, &[]), Ok((9, vec![])));
    let bytes = world.leave(client, 5, &[]);
    let leaving = Forwarded::decode(&bytes).unwrap();
    assert_eq!((leaving.server, leaving.handle, leaving.arguments), (1, 4, &9u64.to_le_bytes()[..]));
    assert!(FunctionImage::from_text(LEAVE, "main").unwrap().may_forward());
}

#[test]
fn a_call_that_comes_from_another_server_runs_once() {
    let mut world = World::new();
    let client = world.client();
    world.bind(client, 2, COUNT);
    let rest = Continue { call: Call { call: 9, handle: 2, patience_us: 0 }, fuel: 500 };
    let arguments = 3u64.to_le_bytes();
    let submit =
        |world: &mut World, rest: &Continue| world.executor.submit_rest(Time::ZERO, client, rest, &arguments);
    assert_eq!(submit(&mut world, &rest), Submitted::Taken);
    assert_eq!(submit(&mut world, &rest), Submitted::Failed(CallFailure::Repeated));
    let unknown = Continue { call: Call { call: 10, handle: 3, patience_us: 0 }, fuel: 500 };
    assert_eq!(submit(&mut world, &unknown), Submitted::Failed(CallFailure::NoFunction));
    world.finish();
    assert_eq!(world.regions[0].borrow()[16], 3);
}
