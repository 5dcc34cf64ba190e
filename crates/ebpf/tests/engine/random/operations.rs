//! Random pieces of instructions.

use fastrand::Rng;
use outboard_ebpf::insn::{AluOp, AtomicOp, Condition, Operand, Reg, Size, SwapOp, Width};
use outboard_ebpf::memory::{CONTEXT, DATA, RODATA, STACK, grant_address};

pub(super) fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

pub(super) fn reg(number: u8) -> Reg {
    Reg::new(number).unwrap()
}

pub(super) fn width(rng: &mut Rng) -> Width {
    pick(rng, &[Width::W32, Width::W64])
}

pub(super) fn alu_op(rng: &mut Rng) -> AluOp {
    pick(
        rng,
        &[
            AluOp::Add,
            AluOp::Add,
            AluOp::Sub,
            AluOp::Mul,
            AluOp::Div,
            AluOp::SignedDiv,
            AluOp::Or,
            AluOp::And,
            AluOp::And,
            AluOp::Lsh,
            AluOp::Rsh,
            AluOp::Mod,
            AluOp::SignedMod,
            AluOp::Xor,
            AluOp::Mov,
            AluOp::Arsh,
        ],
    )
}

pub(super) fn condition(rng: &mut Rng) -> Condition {
    pick(
        rng,
        &[
            Condition::Equal,
            Condition::NotEqual,
            Condition::Greater,
            Condition::GreaterEqual,
            Condition::Less,
            Condition::LessEqual,
            Condition::SignedGreater,
            Condition::SignedGreaterEqual,
            Condition::SignedLess,
            Condition::SignedLessEqual,
            Condition::Set,
        ],
    )
}

pub(super) fn size(rng: &mut Rng) -> Size {
    pick(rng, &[Size::Byte, Size::Half, Size::Word, Size::Double])
}

pub(super) fn swap_op(rng: &mut Rng) -> SwapOp {
    pick(rng, &[SwapOp::ToLittle, SwapOp::ToBig, SwapOp::Swap])
}

/// With whether it fetches.
pub(super) fn atomic_op(rng: &mut Rng) -> (AtomicOp, bool) {
    let op = pick(
        rng,
        &[
            AtomicOp::Add,
            AtomicOp::Or,
            AtomicOp::And,
            AtomicOp::Xor,
            AtomicOp::Exchange,
            AtomicOp::CompareExchange,
        ],
    );
    (op, matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange) || rng.bool())
}

/// Constants around which things change.
pub(super) fn constant(rng: &mut Rng) -> i32 {
    match rng.u8(..4) {
        0 => rng.i32(-4..70),
        1 => pick(rng, &[0, 1, -1, 7, 8, 15, 31, 32, 63, 64, 127, 255, 256, 511, 512, 4095]),
        2 => pick(rng, &[i32::MIN, i32::MAX, i32::MIN + 1, 0x8000, 0x7fff, 0xffff, 0x10000, -0x8000]),
        _ => rng.i32(..),
    }
}

pub(super) fn operand(rng: &mut Rng, registers: u8) -> Operand {
    if rng.bool() { Operand::Reg(reg(rng.u8(..registers))) } else { Operand::Imm(constant(rng)) }
}

/// 64-bit constants, among them addresses of everything there is and of what is next to it.
pub(super) fn wide_constant(rng: &mut Rng) -> u64 {
    let area = pick(
        rng,
        &[0, CONTEXT, STACK, RODATA, DATA, grant_address(0), grant_address(2), grant_address(10), 1 << 36],
    );
    match rng.u8(..4) {
        0 => area.wrapping_add_signed(rng.i64(-9..600)),
        1 => constant(rng) as i64 as u64,
        2 => pick(rng, &[1 << 63, u64::MAX, (1 << 63) - 1, 1 << 32, (1 << 32) - 1, 1 << 31]),
        _ => rng.u64(..),
    }
}
