use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::executor::{Engine, Exit};
use crate::helper::{Argument, Helper, HelperAnswer, HelperHost, HelperMemory, Helpers, Quantity, Returns};
use crate::instance::InstanceState;
use crate::interpret::Interpreter;
use crate::memory::ProgramLimits;
use crate::program::Program;
use crate::text::assemble;

/// Grants what is asked for, filled with the slot's number, and makes everybody wait.
struct Site;

impl HelperHost for Site {
    fn call(
        &mut self,
        helper: &Helper,
        &arguments: &[u64; 5],
        memory: &mut HelperMemory<'_>,
    ) -> HelperAnswer {
        if helper.may_suspend {
            return HelperAnswer::Pending;
        }
        match memory.grant(arguments[1] as usize) {
            Ok((address, buffer)) => {
                buffer.fill(arguments[0] as u8 + 1);
                HelperAnswer::Value(address)
            }
            Err(_) => HelperAnswer::Trap(1),
        }
    }
}

fn helpers() -> Helpers {
    let scalars = vec![Argument::Scalar, Argument::Scalar];
    let buffer = Returns::Buffer { slot: Quantity::Argument(0), length: Quantity::Argument(1) };
    let grant = Helper {
        id: 1,
        name: "grant".to_owned(),
        arguments: scalars.clone(),
        returns: buffer,
        may_suspend: false,
    };
    let wait = Helper {
        id: 2,
        name: "wait".to_owned(),
        arguments: scalars,
        returns: Returns::Scalar,
        may_suspend: true,
    };
    Helpers::new(vec![grant, wait]).unwrap()
}

/// Waits two functions deep, and afterwards sums everything it has kept.
const TEXT: &str = "
    .entry main
        mov r9, r1
        ldxdw r6, [r9]          ; what goes on the stack
        stxdw [r10-16], r6
        ldxdw r1, [r9+8]        ; a slot
        ldxdw r2, [r9+16]       ; a length
        mov r7, r1
        call grant
        mov r8, r0
        mov r1, r9
        call local inner
        add r0, r6
        ldxdw r1, [r10-16]
        add r0, r1
        ldxb r1, [r8]
        add r0, r1
        exit
    .function inner
        ldxb r6, [r1]
        stxb [r10-1], r6
        mov r1, 17
        mov r2, r6
        call wait
        ldxb r1, [r10-1]
        add r0, r1
        add r0, r6
        exit
    .entry idle
        mov r1, 1
        call wait
        exit";

fn program() -> Arc<Program> {
    Arc::new(Program::new(assemble(TEXT, &helpers()).unwrap(), helpers()).unwrap())
}

fn context(word: u64, slot: u64, length: u64, more: &[u8]) -> Vec<u8> {
    let mut context = [word, slot, length].map(u64::to_le_bytes).concat();
    context.extend(more);
    context
}

/// An instance that waits, and its bytes.
fn suspended(entry: &str, context: &[u8]) -> (Interpreter, Instance, Vec<u8>) {
    let interpreter = Interpreter::new(program());
    let mut instance = Instance::default();
    instance.set_context(context).unwrap();
    let function = interpreter.program().entry(entry).unwrap();
    assert_eq!(interpreter.start(&mut instance, function, &mut Site, 1000), Exit::Suspended);
    let mut bytes = Vec::new();
    assert!(instance.save(&mut bytes));
    (interpreter, instance, bytes)
}

proptest! {
    #[test]
    fn a_run_goes_on_elsewhere_as_it_would_have_here(
        word in any::<u64>(), slot in 0..GRANTS as u64, length in 1..100u64,
        more in prop::collection::vec(any::<u8>(), 0..40), answer in any::<u64>(),
    ) {
        let (interpreter, mut here, bytes) = suspended("main", &context(word, slot, length, &more));
        let continuation = Continuation::parse(&bytes).unwrap();
        let mut there = Instance::default();
        there.restore(&program(), &continuation, u64::MAX).unwrap();
        prop_assert_eq!(there.state(), InstanceState::Restored);
        prop_assert_eq!(there.pending(), here.pending());
        let mut again = Vec::new();
        prop_assert!(there.save(&mut again));
        prop_assert_eq!(&again, &bytes);

        let byte = word & 0xff;
        let expected = Exit::Returned([byte, byte, word, word, slot + 1].iter().fold(answer, |sum, more| sum.wrapping_add(*more)));
        prop_assert_eq!(interpreter.resume(&mut here, &mut Site, answer), expected);
        let elsewhere = Interpreter::new(there.suspended().unwrap().0.clone());
        prop_assert_eq!(elsewhere.resume(&mut there, &mut Site, answer), expected);
        prop_assert_eq!(here.fuel(), there.fuel());
        prop_assert_eq!(here.context(), there.context());
    }

    #[test]
    fn forged_continuations_are_refused_or_do_no_harm(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in 0..8usize,
    ) {
        let (interpreter, mut instance, mut bytes) = suspended("main", &context(u64::MAX, 3, 20, &[]));
        for (place, value) in flips {
            *place.get_mut(&mut bytes) = value;
        }
        bytes.truncate(bytes.len() - cut.saturating_sub(4));
        if let Ok(continuation) = Continuation::parse(&bytes)
            && instance.restore(interpreter.program(), &continuation, 1000).is_ok()
        {
            let mut again = Vec::new();
            instance.save(&mut again);
            prop_assert_eq!(again.len(), bytes.len());
            interpreter.resume(&mut instance, &mut Site, 1);
        }
    }
}

#[test]
fn a_small_function_is_small() {
    let (_, _, bytes) = suspended("idle", &[7; 64]);
    assert_eq!(bytes.len(), 94 + 38 + 64);
}

#[test]
fn every_cut_is_noticed() {
    let (_, _, bytes) = suspended("main", &context(5, 0, 20, &[]));
    for length in 0..bytes.len() {
        let error = Continuation::parse(&bytes[..length]).unwrap_err();
        assert!(matches!(error, ContinuationError::Truncated { .. }), "{length}: {error}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(Continuation::parse(&longer).unwrap_err(), ContinuationError::TooLong { length: 1 });
}

#[test]
fn frames_have_to_wait_for_each_other() {
    let (interpreter, _, bytes) = suspended("main", &context(5, 0, 20, &[]));
    let frame = 94;
    let inner = frame + 38 + 16;
    let with_index = |place: usize, index: u32| {
        let mut bytes = bytes.clone();
        bytes[place..place + 4].copy_from_slice(&index.to_le_bytes());
        let mut instance = Instance::default();
        instance
            .restore(interpreter.program(), &Continuation::parse(&bytes).unwrap(), 9)
            .map(|()| instance.fuel())
    };
    assert_eq!(with_index(frame, 9), Ok(9));
    for index in [0, 6, 8, 10, 20, 27, u32::MAX] {
        assert_eq!(with_index(frame, index), Err(RestoreError::Frame { frame: 0, index }));
    }
    assert_eq!(with_index(inner, 20), Ok(9));
    for index in [0, 6, 9, 19, 21, 26, 1000] {
        assert!(matches!(with_index(inner, index), Err(RestoreError::Frame { .. })), "{index}");
    }
}

#[test]
fn limits_hold_for_what_comes_from_elsewhere() {
    let (interpreter, _, bytes) = suspended("main", &context(5, 0, 20, &[]));
    let restore = |limits| {
        let continuation = Continuation::parse(&bytes).unwrap();
        Instance::new(limits).restore(interpreter.program(), &continuation, 9)
    };
    assert_eq!(restore(ProgramLimits { context: 24, grant: 20 }), Ok(()));
    let (part, length, limit) = ("a context", 24, 23);
    assert_eq!(
        restore(ProgramLimits { context: 23, grant: 20 }),
        Err(RestoreError::Limit { part, length, limit })
    );
    let (part, length, limit) = ("a buffer", 20, 19);
    assert_eq!(
        restore(ProgramLimits { context: 24, grant: 19 }),
        Err(RestoreError::Limit { part, length, limit })
    );
}

#[test]
fn a_run_belongs_to_its_program() {
    let (_, mut instance, bytes) = suspended("idle", &[]);
    let other = Program::new(assemble("mov r0, 0\nexit", &helpers()).unwrap(), helpers()).unwrap();
    let error = instance.restore(&Arc::new(other), &Continuation::parse(&bytes).unwrap(), 9).unwrap_err();
    assert!(matches!(error, RestoreError::Program { .. }));
    assert!(instance.pending().is_some(), "a refused continuation leaves the instance as it was");
}
