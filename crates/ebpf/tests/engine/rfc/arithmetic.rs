//! ALU and ALU64.

use crate::executors::result;

const MIN64: u64 = 1 << 63;
const MIN32: u64 = 1 << 31;
const MINUS_ONE: u64 = u64::MAX;
const MINUS_ONE32: u64 = 0xffff_ffff;

/// Operation, operands, result; on whole registers.
const WIDE: &[(&str, u64, u64, u64)] = &[
    ("add", 1, 2, 3),
    ("add", MINUS_ONE, 1, 0),
    ("add", 0x7fff_ffff_ffff_ffff, 1, MIN64),
    ("add", 0xffff_ffff, 1, 0x1_0000_0000),
    ("add", 5, -7i64 as u64, -2i64 as u64),
    ("sub", 3, 2, 1),
    ("sub", 0, 1, MINUS_ONE),
    ("sub", MIN64, 1, 0x7fff_ffff_ffff_ffff),
    ("mul", 7, 6, 42),
    ("mul", 0x1_0000_0001, 0x1_0000_0001, 0x2_0000_0001),
    ("mul", MINUS_ONE, MINUS_ONE, 1),
    ("mul", MIN64, 2, 0),
    ("div", 42, 6, 7),
    ("div", 43, 6, 7),
    ("div", 42, 0, 0),
    ("div", 0, 0, 0),
    ("div", MINUS_ONE, 2, 0x7fff_ffff_ffff_ffff),
    ("div", 100, MINUS_ONE, 0),
    ("div", MINUS_ONE, MINUS_ONE, 1),
    ("div", MIN64, MINUS_ONE, 0),
    ("sdiv", -42i64 as u64, 6, -7i64 as u64),
    ("sdiv", -43i64 as u64, 6, -7i64 as u64),
    ("sdiv", 43, -6i64 as u64, -7i64 as u64),
    ("sdiv", -42i64 as u64, 0, 0),
    ("sdiv", MIN64, MINUS_ONE, MIN64),
    ("sdiv", MIN64, 1, MIN64),
    ("sdiv", MINUS_ONE, 2, 0),
    ("or", 0xf0, 0x0f, 0xff),
    ("or", 1, MINUS_ONE, MINUS_ONE),
    ("and", 0xff0f, 0x00ff, 0x000f),
    ("and", 0x1234_5678_9abc_def0, -16i64 as u64, 0x1234_5678_9abc_def0),
    ("lsh", 1, 0, 1),
    ("lsh", 1, 63, MIN64),
    ("lsh", 1, 64, 1),
    ("lsh", 1, 65, 2),
    ("lsh", 1, MINUS_ONE, MIN64),
    ("lsh", 3, 0x1_0000_0001, 6),
    ("rsh", MIN64, 63, 1),
    ("rsh", MIN64, 64, MIN64),
    ("rsh", MINUS_ONE, 32, 0xffff_ffff),
    ("rsh", MINUS_ONE, 127, 1),
    ("mod", 43, 6, 1),
    ("mod", 43, 0, 43),
    ("mod", MINUS_ONE, 0, MINUS_ONE),
    ("mod", MINUS_ONE, 10, 5),
    ("mod", MIN64, MINUS_ONE, MIN64),
    ("smod", -43i64 as u64, 6, -1i64 as u64),
    ("smod", 43, -6i64 as u64, 1),
    ("smod", -43i64 as u64, -6i64 as u64, -1i64 as u64),
    ("smod", -43i64 as u64, 0, -43i64 as u64),
    ("smod", MIN64, MINUS_ONE, 0),
    ("smod", 5, MINUS_ONE, 0),
    ("xor", 0xff, 0x0f, 0xf0),
    ("xor", 5, MINUS_ONE, -6i64 as u64),
    ("mov", 7, 9, 9),
    ("mov", 7, MINUS_ONE, MINUS_ONE),
    ("mov", 7, 0x7fff_ffff, 0x7fff_ffff),
    ("arsh", MIN64, 63, MINUS_ONE),
    ("arsh", MIN64, 64, MIN64),
    ("arsh", MIN64, 1, 0xc000_0000_0000_0000),
    ("arsh", 0x7000_0000_0000_0000, 60, 7),
];

/// Operations on lower halves: the upper halves of operands do not count, and that of the result is zero.
const NARROW: &[(&str, u64, u64, u64)] = &[
    ("add", 1, 2, 3),
    ("add", MINUS_ONE32, 1, 0),
    ("add", 5, 0xffff_fff9, 0xffff_fffe),
    ("sub", 0, 1, MINUS_ONE32),
    ("sub", MIN32, 1, 0x7fff_ffff),
    ("mul", 0x1_0001, 0x1_0001, 0x2_0001),
    ("mul", MINUS_ONE32, MINUS_ONE32, 1),
    ("div", 43, 6, 7),
    ("div", 42, 0, 0),
    ("div", MINUS_ONE32, 2, 0x7fff_ffff),
    ("div", MIN32, MINUS_ONE32, 0),
    ("sdiv", 0xffff_ffd6, 6, 0xffff_fff9),
    ("sdiv", 43, 0xffff_fffa, 0xffff_fff9),
    ("sdiv", 43, 0, 0),
    ("sdiv", MIN32, MINUS_ONE32, MIN32),
    ("or", 0xf0, 0x0f, 0xff),
    ("or", 0, MINUS_ONE32, MINUS_ONE32),
    ("and", MINUS_ONE32, 0xffff_fff0, 0xffff_fff0),
    ("lsh", 1, 31, MIN32),
    ("lsh", 1, 32, 1),
    ("lsh", 1, 33, 2),
    ("lsh", 3, MINUS_ONE32, MIN32),
    ("rsh", MIN32, 31, 1),
    ("rsh", MIN32, 32, MIN32),
    ("rsh", MINUS_ONE32, 63, 1),
    ("mod", 43, 6, 1),
    ("mod", 43, 0, 43),
    ("mod", MINUS_ONE32, 0, MINUS_ONE32),
    ("mod", MIN32, MINUS_ONE32, MIN32),
    ("smod", 0xffff_ffd5, 6, MINUS_ONE32),
    ("smod", 43, 0xffff_fffa, 1),
    ("smod", 0xffff_ffd5, 0, 0xffff_ffd5),
    ("smod", MIN32, MINUS_ONE32, 0),
    ("xor", 5, MINUS_ONE32, 0xffff_fffa),
    ("mov", 7, 9, 9),
    ("mov", 7, MINUS_ONE32, MINUS_ONE32),
    ("arsh", MIN32, 31, MINUS_ONE32),
    ("arsh", MIN32, 32, MIN32),
    ("arsh", MIN32, 4, 0xf800_0000),
    ("arsh", 0x7000_0000, 28, 7),
];

#[test]
fn whole_registers() {
    for &(op, left, right, expected) in WIDE {
        let text = format!("lddw r1, {left:#x}\nlddw r2, {right:#x}\n{op} r1, r2\nmov r0, r1\nexit");
        assert_eq!(result(&text), expected, "{op} {left:#x}, {right:#x}");
        if let Ok(constant) = i32::try_from(right as i64) {
            let text = format!("lddw r0, {left:#x}\n{op} r0, {constant}\nexit");
            assert_eq!(result(&text), expected, "{op} {left:#x}, constant {constant}");
        }
    }
}

#[test]
fn lower_halves() {
    for &(op, left, right, expected) in NARROW {
        let text = format!("lddw r0, {left:#x}\n{op}32 r0, {right:#x}\nexit");
        assert_eq!(result(&text), expected, "{op}32 {left:#x}, constant {right:#x}");
        for upper in [0, 0x5555_5555u64 << 32, 0xffff_ffff << 32] {
            let (left, right) = (left | upper, right | upper);
            let text = format!("lddw r1, {left:#x}\nlddw r2, {right:#x}\n{op}32 r1, r2\nmov r0, r1\nexit");
            assert_eq!(result(&text), expected, "{op}32 {left:#x}, {right:#x}");
        }
    }
}

#[test]
fn an_operation_on_one_register_twice() {
    for (op, expected) in [
        ("add", 14u64),
        ("sub", 0),
        ("mul", 49),
        ("div", 1),
        ("mod", 0),
        ("xor", 0),
        ("mov", 7),
        ("lsh", 896),
    ] {
        assert_eq!(result(&format!("mov r0, 7\n{op} r0, r0\nexit")), expected, "{op}");
        assert_eq!(result(&format!("mov r0, 7\n{op}32 r0, r0\nexit")), expected, "{op}32");
    }
}

#[test]
fn negation() {
    for (value, wide, narrow) in [
        (0, 0, 0),
        (1, MINUS_ONE, MINUS_ONE32),
        (MINUS_ONE, 1, 1),
        (MIN64, MIN64, 0),
        (MIN32, -(MIN32 as i64) as u64, MIN32),
    ] {
        assert_eq!(result(&format!("lddw r0, {value:#x}\nneg r0\nexit")), wide, "neg {value:#x}");
        assert_eq!(result(&format!("lddw r0, {value:#x}\nneg32 r0\nexit")), narrow, "neg32 {value:#x}");
    }
}

#[test]
fn modulo_zero_keeps_the_lower_half_alone() {
    for op in ["mod32", "smod32"] {
        let text = format!("lddw r0, 0x1122334455667788\n{op} r0, r5\nexit");
        assert_eq!(result(&text), 0x5566_7788, "{op}");
    }
}
