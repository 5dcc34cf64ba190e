//! Atomic operations of both sizes.

use outboard_ebpf::memory::{MemoryFault, RODATA};
use outboard_ebpf::{Exit, Trap, Why};

use crate::executors::run;

/// Operation, what is in memory, the operand, what is in memory afterwards.
const OPERATIONS: &[(&str, u64, u64, u64)] = &[
    ("add", 5, 7, 12),
    ("add", u64::MAX, 1, 0),
    ("or", 0xf0f0, 0x0ff0, 0xfff0),
    ("and", 0xf0f0, 0x0ff0, 0x00f0),
    ("xor", 0xf0f0, 0x0ff0, 0xff00),
    ("fetch_add", 0x1_ffff_ffff, 1, 0x2_0000_0000),
    ("fetch_or", 0xf0f0, 0x0ff0, 0xfff0),
    ("fetch_and", 0xf0f0, 0x0ff0, 0x00f0),
    ("fetch_xor", 0xf0f0, 0x0ff0, 0xff00),
    ("xchg", 0x1122_3344_5566_7788, 0x99aa_bbcc_ddee_ff00, 0x99aa_bbcc_ddee_ff00),
];

fn memory(value: u64) -> Vec<u8> {
    [[0xee; 4].as_slice(), &value.to_le_bytes(), &[0xee; 4]].concat()
}

#[test]
fn eight_bytes() {
    for &(op, old, operand, new) in OPERATIONS {
        let text = format!("lddw r2, {operand:#x}\nadd r1, 8\nlock {op} [r1-4], r2\nmov r0, r2\nexit");
        let outcome = run(&text, &memory(old));
        let fetches = op.starts_with("fetch") || op == "xchg";
        assert_eq!(outcome.exit, Exit::Returned(if fetches { old } else { operand }), "{op}");
        assert_eq!(outcome.context, memory(new), "{op}");
    }
}

#[test]
fn four_bytes() {
    for &(op, old, operand, new) in OPERATIONS {
        // The upper half of the operand does not count, and that of the memory stays.
        let upper = 0x7777_7777u64 << 32;
        let (in_memory, in_register) = (old & 0xffff_ffff | upper, operand & 0xffff_ffff | 0x55 << 40);
        let text = format!("lddw r2, {in_register:#x}\nadd r1, 8\nlock {op}32 [r1-4], r2\nmov r0, r2\nexit");
        let outcome = run(&text, &memory(in_memory));
        let fetches = op.starts_with("fetch") || op == "xchg";
        let expected = if fetches { old & 0xffff_ffff } else { in_register };
        assert_eq!(outcome.exit, Exit::Returned(expected), "{op}32");
        assert_eq!(outcome.context, memory(new & 0xffff_ffff | upper), "{op}32");
    }
}

#[test]
fn compare_and_exchange() {
    for (old, expected, stored) in [(5u64, 5u64, true), (5, 6, false), (0x1_0000_0005, 5, false)] {
        let text = format!(
            "lddw r0, {expected:#x}\nmov r2, 9\nlock cmpxchg [r1+4], r2\nmul r0, 2\nadd r0, r2\nexit"
        );
        let outcome = run(&text, &memory(old));
        assert_eq!(outcome.exit, Exit::Returned(old * 2 + 9), "{old:#x}");
        assert_eq!(outcome.context, memory(if stored { 9 } else { old }));
    }
    // Four bytes: the upper halves of r0 and of the operand do not count, and r0 is zero-extended either way.
    for (old, expected, stored) in
        [(5u64, 0x7_0000_0005u64, true), (6, 5, false), (0x1_ffff_ffff, u64::MAX, true)]
    {
        let text = format!("lddw r0, {expected:#x}\nlddw r2, 0x300000009\nlock cmpxchg32 [r1+4], r2\nexit");
        let outcome = run(&text, &memory(old));
        assert_eq!(outcome.exit, Exit::Returned(old & 0xffff_ffff), "{old:#x}");
        assert_eq!(outcome.context, memory(if stored { old >> 32 << 32 | 9 } else { old }));
    }
}

#[test]
fn operations_on_the_register_that_has_the_address() {
    let text = "add r1, 4\nlock fetch_add [r1], r1\nmov r0, r1\nexit";
    let outcome = run(text, &memory(1));
    assert_eq!(outcome.exit, Exit::Returned(1));
    assert_eq!(outcome.context, memory(1 + outboard_ebpf::memory::CONTEXT + 4));
    let text = "mov r0, r1\nmov r2, 3\nlock cmpxchg [r0+4], r2\nexit";
    let outcome = run(text, &memory(outboard_ebpf::memory::CONTEXT));
    assert_eq!(outcome.exit, Exit::Returned(outboard_ebpf::memory::CONTEXT));
    assert_eq!(outcome.context, memory(3));
}

#[test]
fn atomic_operations_need_memory_that_can_be_written() {
    for (op, length) in [("add", 8), ("xchg", 8), ("cmpxchg", 8), ("fetch_or32", 4), ("cmpxchg32", 4)] {
        let text = format!(".rodata 0000000000000000\nlddw r1, {RODATA:#x}\nlock {op} [r1], r2\nexit");
        let why = Why::Memory(MemoryFault::ReadOnly { address: RODATA, length });
        assert_eq!(run(&text, &[]).exit, Exit::Trapped(Trap { index: 2, why }), "{op}");
        let text = format!("mov r0, 7\nmov r2, 9\nadd r1, {}\nlock {op} [r1], r2\nexit", 17 - length);
        let address = outboard_ebpf::memory::CONTEXT + 17 - length;
        let why = Why::Memory(MemoryFault::Outside { address, length });
        assert_eq!(run(&text, &memory(0)).exit, Exit::Trapped(Trap { index: 3, why }), "{op}");
    }
}
