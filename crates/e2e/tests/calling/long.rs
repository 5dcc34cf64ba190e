//! Functions that take a site seconds to look at: other callers are served meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use outboard::{CallError, FunctionOptions, RegisterError, RegisterRefusal, Rights};

use crate::world::{COUNT, Daemons, caller, image, memory};
use outboard_e2e::PATIENCE;

/// A function of so many branches that all go to the next instruction.
fn branches(number: usize, count: usize) -> String {
    format!("mov r0, {number}\n{}exit", "jeq r1, r0, +0\n".repeat(count))
}

#[test]
fn long_functions_of_one_caller_do_not_keep_others_from_registering_and_calling() {
    let daemons = Daemons::start();
    for address in [daemons.shm(), daemons.tcp()] {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Several at once, as far as they go: each of these callers leaves before its function is ready.
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let mut hasty = caller(&address).with_deadline(Duration::from_millis(20));
                    let long = image(&branches(number, 8000));
                    let error = hasty.register(&long, FunctionOptions::default()).err();
                    assert!(error.is_none_or(|error| matches!(error, RegisterError::Lost(_))));
                }
            });
            let mut memory = memory(&address);
            let region = memory.reserve(4096, None).unwrap();
            for step in 0..20u64 {
                let mut caller = caller(&address);
                let options = FunctionOptions::default().with_region(&region, Rights::ALL);
                let count = caller.register(&image(COUNT), options).unwrap();
                assert_eq!(caller.call(count, &1u64.to_le_bytes()).unwrap().value, step);
                let short = image(&branches(step as usize, 10));
                let short = caller.register(&short, FunctionOptions::default()).unwrap();
                assert_eq!(caller.call(short, &[]).unwrap().value, step);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_long_function_is_ready_in_time_or_refused_with_the_limit() {
    let daemons = Daemons::start();
    let mut caller = caller(&daemons.shm()).with_deadline(4 * PATIENCE);
    let long = caller.register(&image(&branches(7, 4000)), FunctionOptions::default()).unwrap();
    assert_eq!(caller.call(long, &[]).unwrap().value, 7);
    let calls = image(&format!("{}exit", "call outboard_time\n".repeat(30_000)));
    match caller.register(&calls, FunctionOptions::default()).unwrap_err() {
        RegisterError::Refused { refusal: RegisterRefusal::TooMuch, detail, .. } => {
            assert!(detail.contains("1048576 steps") && detail.contains("leave out"), "{detail}");
        }
        error => panic!("{error}"),
    }
}

/// Arguments that are shorter than what was proven needs code that checks everything, which is compiled off the worker.
#[test]
fn calls_with_short_arguments_are_answered_before_and_after_their_code_is_there() {
    let daemons = Daemons::start();
    let mut caller = caller(&daemons.shm());
    let text = format!("ldxdw r0, [r1+8]\n{}exit", "jeq r1, r0, +0\n".repeat(1000));
    let reads = caller.register(&image(&text), FunctionOptions::default()).unwrap();
    for _ in 0..200 {
        let error = caller.call(reads, &[1; 8]).unwrap_err();
        assert!(matches!(error, CallError::Trapped { .. }), "{error}");
        assert_eq!(caller.call(reads, &[1; 16]).unwrap().value, 0x0101_0101_0101_0101);
    }
}
