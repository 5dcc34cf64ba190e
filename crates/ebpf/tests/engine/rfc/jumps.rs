//! JMP and JMP32.

use crate::executors::result;

const MIN64: u64 = 1 << 63;

/// Operands, and the conditions that hold for them as whole registers.
const WIDE: &[(u64, u64, &[&str])] = &[
    (0, 0, &["jeq", "jge", "jle", "jsge", "jsle"]),
    (1, 0, &["jne", "jgt", "jge", "jsgt", "jsge"]),
    (0, 1, &["jne", "jlt", "jle", "jslt", "jsle"]),
    (u64::MAX, 1, &["jne", "jgt", "jge", "jslt", "jsle", "jset"]),
    (1, u64::MAX, &["jne", "jlt", "jle", "jsgt", "jsge", "jset"]),
    (u64::MAX, u64::MAX, &["jeq", "jge", "jle", "jsge", "jsle", "jset"]),
    (MIN64, MIN64 - 1, &["jne", "jgt", "jge", "jslt", "jsle"]),
    (0x1_0000_0000, 0, &["jne", "jgt", "jge", "jsgt", "jsge"]),
    (0x1_0000_0000, 0x1_0000_0000, &["jeq", "jge", "jle", "jsge", "jsle", "jset"]),
    (0xffff_ffff, u64::MAX, &["jne", "jlt", "jle", "jsgt", "jsge", "jset"]),
    (6, 3, &["jne", "jgt", "jge", "jsgt", "jsge", "jset"]),
    (4, 3, &["jne", "jgt", "jge", "jsgt", "jsge"]),
];

/// Comparisons of lower halves.
const NARROW: &[(u64, u64, &[&str])] = &[
    (0x1_0000_0000, 0, &["jeq", "jge", "jle", "jsge", "jsle"]),
    (0x5_0000_0001, 0, &["jne", "jgt", "jge", "jsgt", "jsge"]),
    (0xffff_ffff, 1, &["jne", "jgt", "jge", "jslt", "jsle", "jset"]),
    (1, u64::MAX, &["jne", "jlt", "jle", "jsgt", "jsge", "jset"]),
    (0xffff_ffff, u64::MAX, &["jeq", "jge", "jle", "jsge", "jsle", "jset"]),
    (0x8000_0000, 0x7fff_ffff, &["jne", "jgt", "jge", "jslt", "jsle"]),
    (4, 3, &["jne", "jgt", "jge", "jsgt", "jsge"]),
];

const CONDITIONS: &[&str] =
    &["jeq", "jne", "jgt", "jge", "jlt", "jle", "jsgt", "jsge", "jslt", "jsle", "jset"];

fn check(table: &[(u64, u64, &[&str])], suffix: &str) {
    for &(left, right, holding) in table {
        for condition in CONDITIONS {
            let expected = u64::from(holding.contains(condition));
            let name = format!("{condition}{suffix}");
            let operands = format!("lddw r1, {left:#x}\nlddw r2, {right:#x}\nmov r0, 1");
            let text = format!("{operands}\n{name} r1, r2, +1\nmov r0, 0\nexit");
            assert_eq!(result(&text), expected, "{name} {left:#x}, {right:#x}");
            let constant =
                if suffix.is_empty() { i32::try_from(right as i64).ok() } else { Some(right as i32) };
            if let Some(constant) = constant {
                let text = format!("{operands}\n{name} r1, {constant}, +1\nmov r0, 0\nexit");
                assert_eq!(result(&text), expected, "{name} {left:#x}, constant {constant}");
            }
        }
    }
}

#[test]
fn whole_registers() {
    check(WIDE, "");
}

#[test]
fn lower_halves() {
    check(NARROW, "32");
}

#[test]
fn a_register_against_itself() {
    for (condition, expected) in [("jeq", 1), ("jne", 0), ("jsle", 1), ("jlt", 0), ("jset", 1)] {
        let text = format!("mov r1, 5\nmov r0, 1\n{condition} r1, r1, +1\nmov r0, 0\nexit");
        assert_eq!(result(&text), expected, "{condition}");
    }
}

#[test]
fn both_kinds_of_goto_go_both_ways() {
    for goto in ["ja", "ja32"] {
        let text = format!("{goto} middle\nback:\nmov r0, 5\nexit\nmiddle:\n{goto} back");
        assert_eq!(result(&text), 5, "{goto}");
        assert_eq!(result(&format!("mov r0, 3\n{goto} +0\nexit")), 3, "{goto}");
    }
}

#[test]
fn gotol_reaches_farther_than_goto() {
    let mut text = "mov r0, 1\nja32 end\n".to_owned();
    text += &"mov r0, 2\n".repeat(40_000);
    assert_eq!(result(&(text + "end:\nexit")), 1);
}

#[test]
fn a_loop_ends_when_its_condition_does() {
    let text = "mov r1, 100\nagain:\nadd r0, r1\nsub r1, 1\njne r1, 0, again\nexit";
    assert_eq!(result(text), 5050);
    let text = "mov r1, 100\nagain:\nadd r0, r1\nsub32 r1, 1\njsgt32 r1, -1, again\nexit";
    assert_eq!(result(text), 5050);
}

#[test]
fn constants_are_extended_with_their_sign_also_where_the_comparison_has_none() {
    for (value, expected) in [(0xffff_ffff_8000_0000u64, 1), (0x8000_0000, 0), (u64::MAX, 1), (0, 0)] {
        let text = format!("lddw r1, {value:#x}\nmov r0, 1\njge r1, {}, +1\nmov r0, 0\nexit", i32::MIN);
        assert_eq!(result(&text), expected, "{value:#x}");
    }
}
