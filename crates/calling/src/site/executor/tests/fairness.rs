//! A client that takes much keeps no other waiting.

use super::*;

/// Spends about as much fuel as its argument says.
pub(super) const SPEND: &str = "
    ldxdw r2, [r1+0]
    again:
    add r2, -2
    jsgt r2, 0, again
    mov r0, 0
    exit";

#[test]
fn a_greedy_client_does_not_keep_others_waiting() {
    let mut world = World::new();
    let (greedy, modest) = (world.client(), world.client());
    // Many functions that take long, against one that does not.
    for handle in 0..8 {
        world.bind_with(greedy, handle, SPEND, 1_000_000);
    }
    world.bind_with(modest, 0, SPEND, 1_000_000);
    for number in 0..400 {
        world.submit(greedy, number % 8, &100_000u64.to_le_bytes());
    }
    for _ in 0..400 {
        world.submit(modest, 0, &1000u64.to_le_bytes());
    }
    while world.order.iter().filter(|client| **client == modest).count() < 400 {
        world.run(Time::ZERO, 10_000);
    }
    let calls = world.order.iter().filter(|client| **client == greedy).count();
    // Both have got about 400,000 of fuel.
    assert!((3..=6).contains(&calls), "{calls} long calls were served meanwhile");
}

#[test]
fn a_greedy_client_does_not_run_whenever_others_calls_are_still_in_their_link() {
    let mut world = World::new();
    let (greedy, modest) = (world.client(), world.client());
    for client in [greedy, modest] {
        world.bind_with(client, 0, SPEND, 1_000_000);
    }
    for _ in 0..300 {
        world.submit(greedy, 0, &100_000u64.to_le_bytes());
    }
    const ROUNDS: usize = 240;
    for _ in 0..ROUNDS {
        // As few as a link brings in one turn.
        for _ in 0..4 {
            world.submit(modest, 0, &1000u64.to_le_bytes());
        }
        world.run(Time::ZERO, 50_000);
    }
    let served = |who| world.order.iter().filter(|client| **client == who).count();
    let (calls, modest_calls) = (served(greedy), served(modest));
    assert_eq!(modest_calls, 4 * ROUNDS, "no client that asks for little waits");
    // One or two quanta of 8192 for every turn of the others.
    assert!((17..=40).contains(&calls), "{calls} long calls were served meanwhile");
    let before = world.order.len();
    world.run(Time::ZERO, 150_000);
    assert!(world.order.len() > before, "alone, it runs at once");
}

#[test]
fn a_paused_queue_keeps_its_debt() {
    let mut world = World::new();
    let (greedy, modest) = (world.client(), world.client());
    for client in [greedy, modest] {
        world.bind_with(client, 0, SPEND, 1_000_000);
    }
    world.submit(greedy, 0, &900_000u64.to_le_bytes());
    let (second, _) = world.submit(greedy, 0, &900_000u64.to_le_bytes());
    world.run(Time::ZERO, 10_000);
    assert_eq!(world.order, [greedy]);
    world.executor.pause(greedy, true);
    // None of its calls waits any more.
    world.executor.recall(greedy, &[second], |_| ());
    world.executor.pause(greedy, false);
    world.submit(greedy, 0, &900_000u64.to_le_bytes());
    for _ in 0..200 {
        world.submit(modest, 0, &1000u64.to_le_bytes());
    }
    while world.order.iter().filter(|client| **client == modest).count() < 200 {
        world.run(Time::ZERO, 10_000);
    }
    assert_eq!(world.order.iter().filter(|client| **client == greedy).count(), 1, "it waits for its rounds");
}

/// Reads a word of a region, then spends about as much fuel as its argument says.
const READ_AND_SPEND: &str = "
    ldxdw r6, [r1+0]
    mov r1, 0
    mov r2, 16
    mov r3, r10
    add r3, -8
    mov r4, 8
    call region_read
    again:
    add r6, -2
    jsgt r6, 0, again
    mov r0, 0
    exit";

#[test]
fn a_greedy_client_does_not_keep_others_waiting_whose_regions_are_far() {
    let mut world = World::new();
    world.site.is_far = true;
    let (greedy, modest) = (world.client(), world.client());
    for client in [greedy, modest] {
        world.bind_with(client, 0, READ_AND_SPEND, 1_000_000);
    }
    for _ in 0..400 {
        world.submit(greedy, 0, &900_000u64.to_le_bytes());
    }
    world.run(Time::ZERO, 1_000_000);
    world.submit(modest, 0, &10u64.to_le_bytes());
    while !world.order.contains(&modest) {
        while world.site.end_one(&mut world.executor) {}
        world.run(Time::ZERO, 50_000);
    }
    let calls = world.order.iter().filter(|client| **client == greedy).count();
    assert!(calls <= 4, "{calls} long calls were served meanwhile");
}

#[test]
fn a_greedy_function_does_not_keep_others_of_its_client_waiting() {
    let mut world = World::new();
    let client = world.client();
    world.bind_with(client, 0, SPEND, 1_000_000);
    world.bind_with(client, 1, SPEND, 1_000_000);
    let long: Vec<u64> = (0..100).map(|_| world.submit(client, 0, &100_000u64.to_le_bytes()).0).collect();
    let short: Vec<u64> = (0..100).map(|_| world.submit(client, 1, &1000u64.to_le_bytes()).0).collect();
    while !short.iter().all(|call| world.ended.contains_key(&(client, *call))) {
        world.run(Time::ZERO, 10_000);
    }
    let calls = long.iter().filter(|call| world.ended.contains_key(&(client, **call))).count();
    assert!((1..=3).contains(&calls), "{calls} long calls were served meanwhile");
}

#[test]
fn a_function_with_many_calls_leaves_room_for_others_of_its_client() {
    let mut world = World::new();
    world.executor = Executor::new(ExecutorConfig { calls_per_function: 2, ..ExecutorConfig::default() });
    let client = world.client();
    world.bind(client, 0, COUNT);
    world.bind(client, 1, COUNT);
    let submit = |world: &mut World, handle| world.submit(client, handle, &1u64.to_le_bytes()).1;
    assert_eq!(
        [0; 3].map(|handle| submit(&mut world, handle)),
        [Submitted::Taken, Submitted::Taken, Submitted::Full]
    );
    assert_eq!(submit(&mut world, 1), Submitted::Taken);
    world.finish();
    assert_eq!(submit(&mut world, 0), Submitted::Taken);
}

#[test]
fn a_client_that_is_paused_waits_and_one_with_long_arguments_is_not_taken_without_end() {
    let mut world = World::new();
    let (quiet, other) = (world.client(), world.client());
    world.bind(quiet, 0, COUNT);
    world.bind(other, 0, COUNT);
    let one = 1u64.to_le_bytes();
    let (first, _) = world.submit(quiet, 0, &one);
    world.executor.pause(quiet, true);
    world.executor.pause(quiet, true);
    let (second, _) = world.submit(quiet, 0, &one);
    let (of_other, _) = world.submit(other, 0, &one);
    world.finish();
    assert!(world.ended.contains_key(&(other, of_other)) && world.ended.len() == 1, "{:?}", world.ended);
    world.executor.pause(quiet, false);
    world.finish();
    assert!([first, second].iter().all(|call| world.ended.contains_key(&(quiet, *call))));
    let long = vec![0; world.executor.config().arguments_max];
    let taken =
        |world: &mut World| (0..).take_while(|_| world.submit(quiet, 0, &long).1 == Submitted::Taken).count();
    assert_eq!(taken(&mut world), (1 << 20) / long.len());
    world.finish();
    assert_eq!(taken(&mut world), (1 << 20) / long.len(), "as many as before");
}

#[test]
fn functions_whose_calls_were_taken_back_have_no_turns_left_over() {
    const SPIN: &str = "mov r2, 1000\nagain:\nadd r2, -2\njsgt r2, 0, again\nmov r0, 0\nexit";
    let mut world = World::new();
    let client = world.client();
    world.bind(client, 1, SPIN);
    world.bind(client, 2, SPIN);
    for _ in 0..20 {
        let (call, _) = world.submit(client, 1, &[]);
        world.executor.recall(client, &[call], |_| ());
    }
    let mut function_of = HashMap::new();
    for handle in [1usize, 2] {
        for _ in 0..200 {
            let (call, taken) = world.submit(client, handle as u32, &[]);
            assert_eq!(taken, Submitted::Taken);
            function_of.insert(call, handle);
        }
    }
    world.run(Time::ZERO, 150_000);
    let mut ended = [0; 3];
    world.ended.keys().for_each(|(_, call)| ended[function_of[call]] += 1);
    assert!(ended[1] < 2 * ended[2] && ended[2] < 2 * ended[1], "{ended:?}");
}

#[test]
fn rooms_keep_nothing_alive_of_a_client_that_has_gone() {
    let mut world = World::new();
    world.site.is_far = true;
    let (client, other) = (world.client(), world.client());
    world.bind(client, 1, COUNT);
    world.bind(other, 1, COUNT);
    let before = Rc::strong_count(&world.regions[0]);
    world.submit(client, 1, &1u64.to_le_bytes());
    world.run(Time::ZERO, 1_000_000);
    world.executor.close(client);
    while world.site.end_one(&mut world.executor) {
        world.run(Time::ZERO, 1_000_000);
    }
    assert!(Rc::strong_count(&world.regions[0]) < before, "a client that has gone holds its regions");
}

/// Functions that ask for as many bytes as their argument says, by every helper that moves bytes.
const GREEDY: [&str; 7] = [
    "ldxdw r4, [r1+0]\nmov r1, 0\nmov r2, 0\nmov r3, r10\nadd r3, -8\ncall region_read\nexit",
    "ldxdw r3, [r1+0]\nmov r1, 0\nmov r2, 0\nmov r4, 0\ncall region_fetch\nmov r0, 0\nexit",
    "ldxdw r4, [r1+0]\nstxdw [r10-8], r4\nmov r1, 0\nmov r2, 0\nmov r3, r10\nadd r3, -8\ncall region_write\nexit",
    "ldxdw r2, [r1+0]\nstxdw [r10-8], r2\nmov r1, r10\nadd r1, -8\ncall reply\nexit",
    "ldxdw r2, [r1+0]\nstxdw [r10-8], r2\nmov r1, r10\nadd r1, -8\ncall outboard_log\nexit",
    "ldxdw r3, [r1+0]\nstxdw [r10-8], r3\nmov r1, 1\nmov r2, r10\nadd r2, -8\ncall forward\nexit",
    "ldxdw r4, [r1+0]\nstxdw [r10-8], r4\nmov r1, 1\nmov r2, 1\nmov r3, r10\nadd r3, -8\ncall forward_to\nexit",
];

#[test]
fn a_length_that_is_refused_is_not_paid_for() {
    for text in GREEDY {
        let mut world = World::new();
        let (greedy, honest) = (world.client(), world.client());
        world.bind(greedy, 0, text);
        world.bind(honest, 0, "mov r0, 7\nexit");
        // The second call is the one that would have waited for the debt of the first.
        for _ in 0..3 {
            let (call, submitted) = world.submit(greedy, 0, &u64::MAX.to_le_bytes());
            assert_eq!(submitted, Submitted::Taken, "{text}");
            let spent = world.executor.run(Time::ZERO, &mut world.site, 1_000_000, |outcome| {
                assert_eq!((outcome.client, outcome.call), (greedy, call), "{text}");
                assert!(
                    matches!(outcome.result, Err(NoReply::Failed(CallFailure::Trapped { .. }))),
                    "{text}"
                );
            });
            assert!(spent <= 2 * 10_000, "{text}: {spent} of fuel for a call that may spend 10000");
            assert_eq!(world.call(honest, 0, &[]), Ok((7, Vec::new())), "{text}");
        }
    }
}
