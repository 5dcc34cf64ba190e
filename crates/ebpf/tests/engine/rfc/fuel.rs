//! Fuel is charged block by block, and both executors agree to the last unit.

use outboard_ebpf::{Exit, Helpers, NoHost, Trap, Why};

use crate::executors::{executors, outcome, program};

/// What is left of `fuel` on all executors, or where it ended.
fn left(text: &str, fuel: u64) -> Result<u64, (u32, u64)> {
    let program = program(text, &Helpers::default());
    let mut all = Vec::new();
    for (_, executor) in executors(&program) {
        let outcome = outcome(&*executor, &[], &mut NoHost, fuel);
        all.push(match outcome.exit {
            Exit::Returned(_) => Ok(outcome.fuel),
            Exit::Trapped(Trap { index, why: Why::OutOfFuel }) => Err((index, outcome.fuel)),
            exit => panic!("{exit:?}"),
        });
    }
    all.windows(2).for_each(|pair| assert_eq!(pair[0], pair[1], "{text} with {fuel}"));
    all[0]
}

#[test]
fn a_block_costs_its_slots() {
    assert_eq!(left("mov r0, 1\nexit", 2), Ok(0));
    assert_eq!(left("mov r0, 1\nexit", 1), Err((0, 1)));
    assert_eq!(left("lddw r0, 1\nexit", 10), Ok(7));
    assert_eq!(left("exit", 0), Err((0, 0)));
    assert_eq!(left("exit", u64::MAX), Ok(u64::MAX - 1));
}

#[test]
fn only_blocks_that_are_entered_are_paid() {
    let text = "jeq r0, 0, +2\nmov r0, 1\nmov r0, 2\nexit";
    assert_eq!(left(text, 2), Ok(0));
    assert_eq!(left(text, 1), Err((3, 0)));
    // The label begins a block that is entered from above, too.
    let text = "jne r0, 0, there\nmov r0, 1\nthere:\nmov r0, 2\nexit";
    assert_eq!(left(text, 4), Ok(0));
    assert_eq!(left(text, 3), Err((2, 1)));
}

#[test]
fn calls_end_blocks() {
    let text = "mov r1, 1\ncall local one\nmov r0, 3\nexit\none:\nexit";
    assert_eq!(left(text, 5), Ok(0));
    assert_eq!(left(text, 4), Err((2, 1)));
    assert_eq!(left(text, 2), Err((4, 0)));
}

#[test]
fn loops_pay_each_time_round() {
    let text = "mov r1, 10\nagain:\nsub r1, 1\njne r1, 0, again\nexit";
    assert_eq!(left(text, 100), Ok(100 - 1 - 20 - 1));
    for fuel in 0..22 {
        let expected = match fuel {
            0 => (0, 0),
            21 => (3, 0),
            _ => (1, (fuel - 1) % 2),
        };
        assert_eq!(left(text, fuel), Err(expected), "{fuel}");
    }
    assert_eq!(left("again:\nja again", 1_000), Err((0, 0)));
}
