//! LDX, ST, STX, and what memory there is.

use outboard_ebpf::memory::{
    CONTEXT, DATA, FRAME_LEN, MAX_FRAMES, MemoryFault, RODATA, STACK, grant_address,
};
use outboard_ebpf::{Exit, Trap, Why};

use crate::executors::{result, run};

const BYTES: [u8; 16] =
    [0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0xf8, 0x01, 0x12, 0x23, 0x34, 0x45, 0x56, 0x67, 0x78];

#[test]
fn loads_of_every_size() {
    for (name, at_zero, at_nine) in [
        ("ldxb", 0x81, 0x12),
        ("ldxh", 0x9281, 0x2312),
        ("ldxw", 0xb4a3_9281, 0x4534_2312),
        ("ldxdw", 0xf8e7_d6c5_b4a3_9281, 0),
        ("ldxbsx", -0x7fi64 as u64, 0x12),
        ("ldxhsx", 0xffff_ffff_ffff_9281, 0x2312),
        ("ldxwsx", 0xffff_ffff_b4a3_9281, 0x4534_2312),
    ] {
        let outcome = run(&format!("{name} r0, [r1]\nexit"), &BYTES);
        assert_eq!(outcome.exit, Exit::Returned(at_zero), "{name}");
        if at_nine != 0 {
            let outcome = run(&format!("add r1, 10\n{name} r1, [r1-1]\nmov r0, r1\nexit"), &BYTES);
            assert_eq!(outcome.exit, Exit::Returned(at_nine), "{name}, not aligned");
        }
    }
}

#[test]
fn stores_of_every_size() {
    for (suffix, size) in [("b", 1), ("h", 2), ("w", 4), ("dw", 8)] {
        let mut expected = BYTES;
        expected[3..3 + size].copy_from_slice(&0x1122_3344_5566_7788u64.to_le_bytes()[..size]);
        let text = format!("lddw r2, 0x1122334455667788\nstx{suffix} [r1+3], r2\nexit");
        assert_eq!(run(&text, &BYTES).context, expected, "stx{suffix}");

        let mut expected = BYTES;
        expected[3..3 + size].copy_from_slice(&(-2i64).to_le_bytes()[..size]);
        let text = format!("add r1, 8\nst{suffix} [r1-5], -2\nexit");
        assert_eq!(run(&text, &BYTES).context, expected, "st{suffix}");
    }
}

#[test]
fn the_context_is_where_r1_says_and_as_long_as_r2_says() {
    assert_eq!(run("mov r0, r2\nexit", &BYTES).exit, Exit::Returned(16));
    assert_eq!(result("mov r0, r2\nexit"), 0);
}

#[test]
fn the_stack_begins_with_zeros() {
    for offset in [-8, -256, -512] {
        assert_eq!(result(&format!("ldxdw r0, [r10{offset}]\nexit")), 0, "{offset}");
    }
    let text = "mov r1, -1\nstxdw [r10-512], r1\nstxdw [r10-8], r1\nldxw r0, [r10-508]\nldxb r1, [r10-1]\nadd r0, r1\nexit";
    assert_eq!(result(text), 0xffff_ffff + 0xff);
}

#[test]
fn frames_of_called_functions_begin_with_zeros_every_time() {
    let text = "
        call local dirty
        call local clean
        exit
        dirty: mov r1, -1
        stxdw [r10-8], r1
        stxdw [r10-512], r1
        exit
        clean: ldxdw r0, [r10-8]
        ldxdw r1, [r10-512]
        or r0, r1
        exit";
    assert_eq!(result(&text.replace(": ", ":\n")), 0);
}

#[test]
fn a_called_function_reaches_the_frames_of_its_callers() {
    let text = "
        stdw [r10-8], 5
        mov r1, r10
        call local inner
        ldxdw r1, [r10-8]
        add r0, r1
        exit
        inner:
        ldxdw r0, [r1-8]
        stdw [r1-8], 7
        exit";
    assert_eq!(result(text), 12);
}

#[test]
fn constants_can_be_read_and_variables_written() {
    let text = format!(
        ".rodata 0102030405060708\n.data 1000000000000000\nlddw r1, {RODATA:#x}\nldxdw r0, [r1]\n\
         lddw r2, {DATA:#x}\nldxdw r3, [r2]\nadd r0, r3\nstxdw [r2], r0\nldxdw r0, [r2]\nexit"
    );
    assert_eq!(result(&text), 0x0807_0605_0403_0201 + 0x10);
    // And the next run finds them as they were.
    assert_eq!(result(&text), 0x0807_0605_0403_0201 + 0x10);
}

fn fault(text: &str, context: &[u8]) -> Trap {
    match run(text, context).exit {
        Exit::Trapped(trap) => trap,
        exit => panic!("{exit:?}\n{text}"),
    }
}

#[test]
fn accesses_outside_of_an_area_trap_and_change_nothing() {
    let sizes = [("b", 1u64), ("h", 2), ("w", 4), ("dw", 8)];
    let context_end = CONTEXT + 16;
    let stack_end = STACK + FRAME_LEN as u64;
    for (suffix, size) in sizes {
        let wild = [
            0,
            1,
            0xffff_ffff,
            CONTEXT - 1,
            context_end - size + 1,
            context_end,
            STACK - 1,
            stack_end - size + 1,
            stack_end,
            RODATA,
            RODATA + 8 - size + 1,
            DATA,
            grant_address(0),
            grant_address(10),
            grant_address(11),
            1 << 63,
            u64::MAX - size + 1,
            u64::MAX,
            CONTEXT | 1 << 60,
            STACK + (FRAME_LEN * MAX_FRAMES) as u64,
        ];
        for address in wild {
            if address == RODATA && size < 8 {
                continue;
            }
            for text in [
                format!("ldx{suffix} r3, [r2]"),
                format!("stx{suffix} [r2], r3"),
                format!("st{suffix} [r2], 1"),
            ] {
                let text = format!(".rodata 0102030405060708\nlddw r2, {address:#x}\n{text}\nexit");
                let read_only = address == RODATA;
                if read_only && text.contains("ldx") {
                    continue;
                }
                let outcome = run(&text, &BYTES);
                let expected = if read_only {
                    MemoryFault::ReadOnly { address, length: size }
                } else {
                    MemoryFault::Outside { address, length: size }
                };
                assert_eq!(
                    outcome.exit,
                    Exit::Trapped(Trap { index: 2, why: Why::Memory(expected) }),
                    "{text}"
                );
                assert_eq!(outcome.context, BYTES);
            }
        }
    }
}

#[test]
fn the_first_and_last_bytes_of_an_area_are_within() {
    for (suffix, size) in [("b", 1u64), ("h", 2), ("w", 4), ("dw", 8)] {
        for address in [CONTEXT, CONTEXT + 16 - size, STACK, STACK + FRAME_LEN as u64 - size] {
            let text = format!("lddw r2, {address:#x}\nst{suffix} [r2], 0x7f\nldx{suffix} r0, [r2]\nexit");
            assert_eq!(run(&text, &BYTES).exit, Exit::Returned(0x7f), "{suffix} at {address:#x}");
        }
    }
}

#[test]
fn offsets_wrap_with_the_address() {
    let text = "mov r2, -1\nldxb r0, [r2+1]\nexit";
    assert_eq!(fault(text, &[]).why, Why::Memory(MemoryFault::Outside { address: 0, length: 1 }));
    let text = format!("lddw r2, {:#x}\nldxb r0, [r2-2]\nexit", CONTEXT + 3);
    assert_eq!(run(&text, &BYTES).exit, Exit::Returned(0x92));
    let text = "mov r2, 1\nldxdw r0, [r2-9]\nexit";
    assert_eq!(fault(text, &[]).why, Why::Memory(MemoryFault::Outside { address: u64::MAX - 7, length: 8 }));
}

#[test]
fn frames_that_are_left_are_out_of_reach() {
    let text = "call local inner\nldxb r0, [r10]\nexit\ninner:\nstb [r10-512], 1\nexit";
    let expected = MemoryFault::Outside { address: STACK + FRAME_LEN as u64, length: 1 };
    assert_eq!(fault(text, &[]), Trap { index: 1, why: Why::Memory(expected) });
}
