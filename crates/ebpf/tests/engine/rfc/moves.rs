//! Sign-extending moves, byte swaps, 64-bit constants.

use crate::executors::result;

#[test]
fn sign_extending_moves() {
    let value = 0x1122_3344_8566_8788u64;
    for (name, expected) in [
        ("movsx832", 0xffff_ff88),
        ("movsx1632", 0xffff_8788),
        ("movsx864", 0xffff_ffff_ffff_ff88),
        ("movsx1664", 0xffff_ffff_ffff_8788),
        ("movsx3264", 0xffff_ffff_8566_8788),
    ] {
        let text = format!("lddw r1, {value:#x}\n{name} r0, r1\nexit");
        assert_eq!(result(&text), expected, "{name}");
        let text = format!("lddw r1, 0x7f7f7f7f\n{name} r1, r1\nmov r0, r1\nexit");
        let positive = 0x7f7f_7f7fu64
            & if name.starts_with("movsx8") {
                0xff
            } else if name.starts_with("movsx16") {
                0xffff
            } else {
                u64::MAX
            };
        assert_eq!(result(&text), positive, "{name}");
    }
}

#[test]
fn byte_order() {
    let value = 0x1122_3344_5566_7788u64;
    for (name, expected) in [
        ("le16", 0x7788),
        ("le32", 0x5566_7788),
        ("le64", value),
        ("be16", 0x8877),
        ("be32", 0x8877_6655),
        ("be64", 0x8877_6655_4433_2211),
        ("swap16", 0x8877),
        ("swap32", 0x8877_6655),
        ("swap64", 0x8877_6655_4433_2211),
    ] {
        assert_eq!(result(&format!("lddw r0, {value:#x}\n{name} r0\nexit")), expected, "{name}");
    }
}

#[test]
fn wide_constants() {
    for value in [0, 1, 0xffff_ffff, 0x1_0000_0000, 0x8000_0000, 0x8000_0000_0000_0000, u64::MAX] {
        assert_eq!(result(&format!("lddw r0, {value:#x}\nexit")), value);
    }
}

#[test]
fn everything_else_starts_as_zero() {
    for register in ["r0", "r3", "r4", "r5", "r6", "r7", "r8", "r9"] {
        assert_eq!(result(&format!("mov r0, {register}\nexit")), 0, "{register}");
    }
    assert_eq!(result("mov r0, r10\nexit"), outboard_ebpf::memory::frame_end(0));
    assert_eq!(result("mov r0, r1\nexit"), outboard_ebpf::memory::CONTEXT);
}
