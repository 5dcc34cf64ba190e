//! Functions that are called at real memory servers, over every kind of link: what they give, what they must not do, and
//! what becomes of calls when somebody vanishes.
// Also outside test functions a test fails by panicking, and children tell their test what they do.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod agents;
mod btree;
mod fabric;
mod flapping;
mod futures;
mod greedy;
mod hanging;
mod killed;
mod kv;
mod linear;
mod long;
mod moving;
mod refused;
mod servers;
mod sites;
mod steering;
mod stopped;
mod world;

outboard_child::instead_of_tests!(killed::play);

use std::time::Duration;

use outboard::{
    CallError, CallId, CallSite, CallerOptions, FunctionImage, FunctionOptions, Rights, TrapReason,
};
use outboard_e2e::PATIENCE;
use world::{COUNT, Daemons, SPEND, caller, caller_with, image, memory};

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

#[test]
fn a_function_counts_in_a_region_over_shm_and_tcp() {
    let daemons = Daemons::start();
    for address in [daemons.shm(), daemons.tcp()] {
        let mut memory = memory(&address);
        let region = memory.reserve(4096, None).unwrap();
        let mut caller = caller(&address);
        let options = FunctionOptions::default().with_region(&region, Rights::ALL);
        let count = caller.register(&image(COUNT), options).unwrap();
        for step in 0..10 {
            let reply = caller.call(count, &3u64.to_le_bytes()).unwrap();
            assert_eq!((reply.value, number(&reply.bytes)), (3 * step, 3 * step + 3));
        }
        let mut word = [0; 8];
        memory.read(&region, 16, &mut word).unwrap();
        assert_eq!(number(&word), 30, "what a function writes is seen one-sidedly");
    }
}

#[test]
fn batches_end_in_order_and_every_call_once() {
    let daemons = Daemons::start();
    for address in [daemons.shm(), daemons.tcp()] {
        let mut memory = memory(&address);
        let region = memory.reserve(4096, None).unwrap();
        let mut caller = caller(&address);
        let options = FunctionOptions::default().with_region(&region, Rights::ALL);
        let count = caller.register(&image(COUNT), options).unwrap();
        let mut expected = 0;
        let mut check = |id: CallId, result: Result<(u64, &[u8]), CallError>| {
            let (value, reply) = result.unwrap();
            assert_eq!((value, number(reply)), (expected, expected + 1), "{id:?}");
            expected += 1;
        };
        // Far more than can be under way.
        for _ in 0..5000 {
            caller.begin(count, &1u64.to_le_bytes()).unwrap();
            if caller.under_way() >= 200 {
                caller.drain(&mut check);
            }
        }
        while caller.under_way() > 0 {
            caller.drain(&mut check);
        }
        assert_eq!(expected, 5000);
        // The same by a queue.
        let ids: Vec<CallId> = (0..100).map(|_| caller.begin(count, &0u64.to_le_bytes()).unwrap()).collect();
        let single = caller.call(count, &0u64.to_le_bytes()).unwrap();
        assert_eq!(single.value, 5000, "a call that is waited for disturbs no others");
        for id in ids {
            let completion = caller.wait(PATIENCE).expect("it ends");
            assert_eq!((completion.id, completion.result.unwrap().value), (id, 5000));
        }
        assert!(caller.wait(PATIENCE).is_none(), "nothing is under way");
    }
}

#[test]
fn traps_name_the_instruction_and_others_go_on() {
    let daemons = Daemons::start();
    let address = daemons.shm();
    let mut memory = memory(&address);
    let region = memory.reserve(4096, None).unwrap();
    let mut caller = caller(&address);
    let read = |offset: &str| {
        format!(
            "lddw r2, {offset}\nmov r1, 0\nmov r3, r10\nadd r3, -8\nmov r4, 8\ncall region_read\nmov r0, 0\nexit"
        )
    };
    let cases = [
        ("again:\nja again".to_owned(), 0, TrapReason::OutOfFuel),
        ("ldxdw r0, [r1+64]\nexit".to_owned(), 0, TrapReason::Memory),
        (read("4089"), 6, TrapReason::OutOfBounds),
        (read("0xfffffffffffffff8"), 6, TrapReason::OutOfBounds),
        ("mov r1, 1\nmov r2, 0\nmov r3, 1\ncall region_fetch_add\nexit".to_owned(), 3, TrapReason::NoRegion),
        ("mov r1, 0\nmov r2, 4\nmov r3, 1\ncall region_fetch_add\nexit".to_owned(), 3, TrapReason::NoRight),
        ("mov r1, r10\nadd r1, -64\nmov r2, 64\ncall reply\nexit".to_owned(), 3, TrapReason::ReplyTooLong),
    ];
    for (text, at, why) in cases {
        let options = FunctionOptions::default().with_reply_max(32);
        let function = caller.register(&image(&text), options.with_region(&region, Rights::READ)).unwrap();
        match caller.call(function, &[0; 8]) {
            Err(CallError::Trapped { index, reason, .. }) => assert_eq!((index, reason), (at, why), "{text}"),
            other => panic!("{other:?} of {text}"),
        }
    }
    let count = FunctionOptions::default().with_region(&region, Rights::ALL);
    let count = caller.register(&image(COUNT), count).unwrap();
    assert_eq!(caller.call(count, &1u64.to_le_bytes()).unwrap().value, 0);
}

#[test]
fn a_region_that_is_freed_is_gone_for_functions_too() {
    let daemons = Daemons::start();
    let address = daemons.shm();
    let mut memory = memory(&address);
    let region = memory.reserve(4096, None).unwrap();
    let mut caller = caller(&address);
    let options = FunctionOptions::default().with_region(&region, Rights::ALL);
    let count = caller.register(&image(COUNT), options).unwrap();
    caller.call(count, &1u64.to_le_bytes()).unwrap();
    memory.free(region).unwrap();
    let error = caller.call(count, &1u64.to_le_bytes()).unwrap_err();
    assert!(matches!(error, CallError::Trapped { reason: TrapReason::RegionGone, .. }), "{error}");
}

#[test]
fn calls_without_an_answer_say_whether_they_may_have_run() {
    let daemons = Daemons::start();
    for address in [daemons.shm(), daemons.tcp()] {
        let mut caller = caller(&address);
        let options = FunctionOptions::default().with_fuel(1_000_000);
        let spend = caller.register(&image(SPEND), options).unwrap();
        // Far more work than there is time for: those that did not begin do not run.
        for _ in 0..200 {
            caller.begin(spend, &900_000u64.to_le_bytes()).unwrap();
        }
        let error = caller.call_within(spend, &0u64.to_le_bytes(), Duration::from_micros(1)).unwrap_err();
        assert!(matches!(error, CallError::Deadline { .. }), "{error}");
        for _ in 0..200 {
            assert!(caller.wait(PATIENCE).expect("it ends").result.is_ok());
        }
    }
}

#[test]
fn a_site_that_is_killed_ends_every_call() {
    for over_tcp in [false, true] {
        let daemons = Daemons::start();
        let address = if over_tcp { daemons.tcp() } else { daemons.shm() };
        let mut caller = caller(&address);
        let options = FunctionOptions::default().with_fuel(1_000_000);
        let spend = caller.register(&image(SPEND), options).unwrap();
        // Nothing is done from here on.
        daemons.stop();
        for _ in 0..200 {
            caller.begin(spend, &900_000u64.to_le_bytes()).unwrap();
        }
        caller.flush();
        drop(daemons);
        let mut lost = 0;
        while caller.under_way() > 0 {
            match caller.wait(PATIENCE).expect("every call ends").result {
                Err(error @ CallError::Lost { .. }) => {
                    assert!(error.may_have_run());
                    lost += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(lost, 200);
        let error = caller.call(spend, &[0; 8]).unwrap_err();
        assert!(matches!(error, CallError::Lost { may_have_run: false, .. }), "{error}");
    }
}

#[test]
fn a_client_that_vanishes_with_calls_under_way_disturbs_nobody() {
    let daemons = Daemons::start();
    let address = daemons.shm();
    let mut memory = memory(&address);
    let region = memory.reserve_shared(4096, "shared").unwrap();
    let mut stays = caller(&address);
    let options = FunctionOptions::default().with_region(&region, Rights::ALL);
    let count = stays.register(&image(COUNT), options).unwrap();
    for round in 0..10 {
        let mut goes = caller(&address);
        let long = FunctionOptions::default().with_fuel(1_000_000);
        let spend = goes.register(&image(SPEND), long).unwrap();
        for _ in 0..100 {
            goes.begin(spend, &900_000u64.to_le_bytes()).unwrap();
        }
        goes.flush();
        assert_eq!(stays.call(count, &1u64.to_le_bytes()).unwrap().value, 2 * round);
        drop(goes);
        assert_eq!(stays.call(count, &1u64.to_le_bytes()).unwrap().value, 2 * round + 1);
    }
}

#[test]
fn a_client_that_listens_late_gets_all_its_answers_and_others_do_not_wait_for_it() {
    let long = "mov r1, 0\nmov r2, 0\nmov r3, 16384\ncall region_fetch\nmov r1, r0\nmov r2, 16384\ncall reply\nmov r0, 5\nexit";
    let daemons = Daemons::start();
    for address in [daemons.shm(), daemons.tcp()] {
        let mut memory = memory(&address);
        let region = memory.reserve(16 << 10, None).unwrap();
        memory.write(&region, 8, &9u64.to_le_bytes()).unwrap();
        let options = FunctionOptions::default().with_region(&region, Rights::READ).with_reply_max(16 << 10);
        // More than there is room for on the way back.
        let mut late = caller_with(
            &address,
            CallerOptions { under_way_max: 512, ..CallerOptions::default().with_placement(CallSite::Server) },
        );
        let function = late.register(&image(long), options.clone()).unwrap();
        for _ in 0..512 {
            late.begin(function, &[]).unwrap();
        }
        late.flush();
        let mut other = caller(&address);
        let function = other.register(&image(long), options).unwrap();
        for _ in 0..200 {
            assert_eq!(other.call(function, &[]).unwrap().value, 5);
        }
        for _ in 0..512 {
            let reply = late.wait(PATIENCE).expect("it ends").result.unwrap();
            assert_eq!((reply.value, number(&reply.bytes[8..16]), reply.bytes.len()), (5, 9, 16 << 10));
        }
    }
}

#[test]
fn many_functions_and_a_long_one_travel() {
    let daemons = Daemons::start();
    for address in [daemons.shm(), daemons.tcp()] {
        let mut caller = caller(&address);
        // Longer than one frame brings.
        let long = format!("{}exit", "add r0, 1\n".repeat(30_000));
        let function = caller.register(&image(&long), FunctionOptions::default()).unwrap();
        assert_eq!(caller.call(function, &[]).unwrap().value, 30_000);
        let handles: Vec<_> = (0..20)
            .map(|n| {
                caller.register(&image(&format!("mov r0, {n}\nexit")), FunctionOptions::default()).unwrap()
            })
            .collect();
        for (n, handle) in handles.into_iter().enumerate() {
            assert_eq!(caller.call(handle, &[]).unwrap().value, n as u64);
        }
    }
}

#[test]
fn images_are_named_by_their_code() {
    let (one, same) = (image(COUNT), FunctionImage::from_text(COUNT, "main").unwrap());
    assert_eq!(one.name(), same.name());
    assert_ne!(one.name(), image(SPEND).name());
}
