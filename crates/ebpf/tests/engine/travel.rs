//! Runs that come from a site that lies about everything that a proof could rest on.

use std::sync::Arc;

use outboard_ebpf::memory::{CONTEXT, MemoryFault, STACK, grant_address};
use outboard_ebpf::{
    Argument, Continuation, Exit, Helper, HelperAnswer, HelperHost, HelperMemory, Helpers, Instance, Program,
    Quantity, Returns, Trap, Why,
};

use crate::executors::{executors, program};

/// Grants sixteen bytes when asked, and makes others wait.
struct Site;

impl HelperHost for Site {
    fn call(&mut self, helper: &Helper, _: &[u64; 5], memory: &mut HelperMemory<'_>) -> HelperAnswer {
        match helper.name.as_str() {
            "wait" => HelperAnswer::Pending,
            _ => match memory.grant(16) {
                Ok((address, _)) => HelperAnswer::Value(address),
                Err(_) => HelperAnswer::Trap(1),
            },
        }
    }
}

fn helpers() -> Helpers {
    let helper = |id, name: &str, returns, may_suspend| Helper {
        id,
        name: name.to_owned(),
        arguments: vec![Argument::Scalar],
        returns,
        may_suspend,
    };
    let buffer = Returns::Buffer { slot: Quantity::Fixed(1), length: Quantity::Fixed(16) };
    Helpers::new(vec![helper(1, "wait", Returns::Scalar, true), helper(2, "grant", buffer, false)]).unwrap()
}

/// Before it waits everything is in order; afterwards it uses its context, its buffer, and a pointer on its stack.
const TEXT: &str = "
    .entry main
        mov r6, r1
        ldxdw r0, [r6+56]
        call grant
        jeq r0, 0, out
        mov r7, r0
        stxdw [r10-8], r6
        mov r8, 3
        mov r1, 5
        call wait
        ldxdw r0, [r6+56]
        ldxdw r1, [r7+8]
        add r0, r1
        ldxdw r2, [r10-8]
        ldxdw r1, [r2+48]
        add r0, r1
        lsh r8, 3
        add r8, r6
        ldxdw r1, [r8+0]
        add r0, r1
    out:
        exit";

const FIRST_REGISTER: usize = 98;
const STACK_BYTES: usize = FIRST_REGISTER + 34;
/// Of the pointer that is kept on the stack, the four lowest bytes are zero and not written down.
const CONTEXT_BYTES: usize = STACK_BYTES + 4;

/// The honest continuation: a context of 64 bytes, all 1, and a buffer of 16 zeros.
fn honest(program: &Arc<Program>) -> Vec<u8> {
    let (_, executor) = executors(program).swap_remove(0);
    let mut instance = Instance::default();
    instance.set_context(&[1; 64]).unwrap();
    let main = program.entry("main").unwrap();
    assert_eq!(executor.start(&mut instance, main, &mut Site, 1000), Exit::Suspended);
    let mut bytes = Vec::new();
    assert!(instance.save(&mut bytes));
    assert_eq!(bytes.len(), CONTEXT_BYTES + 64 + 5 + 16);
    bytes
}

/// How a continuation ends, on all executors.
fn end(program: &Arc<Program>, bytes: &[u8]) -> Exit {
    let mut exits = Vec::new();
    for (name, executor) in executors(program) {
        let mut instance = Instance::default();
        instance.restore(program, &Continuation::parse(bytes).unwrap(), 1000).unwrap();
        exits.push((name, executor.resume(&mut instance, &mut Site, 0)));
    }
    exits.iter().for_each(|(name, exit)| assert_eq!(*exit, exits[0].1, "{name}"));
    exits[0].1
}

fn outside(index: u32, address: u64) -> Exit {
    Exit::Trapped(Trap { index, why: Why::Memory(MemoryFault::Outside { address, length: 8 }) })
}

fn with_word(bytes: &[u8], at: usize, word: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    bytes
}

const ONES: u64 = 0x0101_0101_0101_0101;

#[test]
fn the_truth_is_believed() {
    let program = program(TEXT, &helpers());
    assert_eq!(end(&program, &honest(&program)), Exit::Returned(ONES * 3));
}

#[test]
fn a_context_that_became_shorter() {
    let program = program(TEXT, &helpers());
    let honest = honest(&program);
    for length in [0usize, 8, 63] {
        let mut bytes = honest.clone();
        bytes[88..92].copy_from_slice(&(length as u32).to_le_bytes());
        bytes.drain(CONTEXT_BYTES + length..CONTEXT_BYTES + 64);
        assert_eq!(end(&program, &bytes), outside(9, CONTEXT + 56), "{length}");
    }
}

#[test]
fn a_buffer_that_became_shorter_or_is_gone() {
    let program = program(TEXT, &helpers());
    let honest = honest(&program);
    let grant = CONTEXT_BYTES + 64;
    for length in [1usize, 8, 15] {
        let mut bytes = honest.clone();
        bytes[grant + 1..grant + 5].copy_from_slice(&(length as u32).to_le_bytes());
        bytes.truncate(grant + 5 + length);
        assert_eq!(end(&program, &bytes), outside(10, grant_address(1) + 8), "{length}");
    }
    let mut bytes = honest.clone();
    bytes[93] = 0;
    bytes.truncate(grant);
    assert_eq!(end(&program, &bytes), outside(10, grant_address(1) + 8));
    // In another slot it is another buffer.
    let mut bytes = honest;
    bytes[grant] = 2;
    assert_eq!(end(&program, &bytes), outside(10, grant_address(1) + 8));
}

#[test]
fn registers_that_point_elsewhere() {
    let program = program(TEXT, &helpers());
    let honest = honest(&program);
    for address in [0, 7, CONTEXT + 1, CONTEXT - 57, STACK + 512, u64::MAX - 55, 1 << 63] {
        let bytes = with_word(&honest, FIRST_REGISTER, address);
        assert_eq!(end(&program, &bytes), outside(9, address.wrapping_add(56)), "{address:#x}");
    }
    // Where there is something, it is read, as any program could.
    let bytes = with_word(&honest, FIRST_REGISTER + 8, STACK + 512 - 16);
    assert_eq!(end(&program, &bytes), Exit::Returned(ONES * 3 + CONTEXT));
    let bytes = with_word(&honest, FIRST_REGISTER + 8, grant_address(0));
    assert_eq!(end(&program, &bytes), outside(10, grant_address(0) + 8));
}

#[test]
fn an_index_out_of_the_range_that_it_had() {
    let program = program(TEXT, &helpers());
    let honest = honest(&program);
    for index in [8u64, 1 << 28, 1 << 60, u64::MAX >> 3] {
        let bytes = with_word(&honest, FIRST_REGISTER + 16, index);
        let address = CONTEXT.wrapping_add(index << 3);
        assert_eq!(end(&program, &bytes), outside(17, address), "{index:#x}");
    }
}

#[test]
fn a_pointer_on_the_stack_that_points_elsewhere() {
    let program = program(TEXT, &helpers());
    let honest = honest(&program);
    let at = STACK_BYTES;
    assert_eq!(honest[at - 2..at], 4u16.to_le_bytes());
    for address in [0xffu64, (CONTEXT + (16 << 8)) | 0xff, u64::MAX] {
        let mut bytes = honest.clone();
        bytes.splice(at - 2..at + 4, [8, 0].into_iter().chain(address.to_le_bytes()));
        assert_eq!(end(&program, &bytes), outside(13, address.wrapping_add(48)), "{address:#x}");
    }
}
