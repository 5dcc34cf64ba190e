//! What instructions compute, apart from where operands come from and results go.

use crate::insn::{AluOp, Condition, Size, SwapOp, Width};

/// Both widths are told in the same words; only the type differs.
macro_rules! alu {
    ($name:ident, $unsigned:ty, $signed:ty) => {
        /// `left op right`
        #[inline(always)]
        pub(super) fn $name(op: AluOp, left: $unsigned, right: $unsigned) -> $unsigned {
            let (signed_left, signed_right) = (left as $signed, right as $signed);
            match op {
                AluOp::Add => left.wrapping_add(right),
                AluOp::Sub => left.wrapping_sub(right),
                AluOp::Mul => left.wrapping_mul(right),
                AluOp::Div if right == 0 => 0,
                AluOp::Div => left / right,
                AluOp::SignedDiv if right == 0 => 0,
                AluOp::SignedDiv => signed_left.wrapping_div(signed_right) as $unsigned,
                AluOp::Or => left | right,
                AluOp::And => left & right,
                // These three take the distance modulo the width, as the RFC wants it.
                AluOp::Lsh => left.wrapping_shl(right as u32),
                AluOp::Rsh => left.wrapping_shr(right as u32),
                AluOp::Arsh => signed_left.wrapping_shr(right as u32) as $unsigned,
                AluOp::Mod if right == 0 => left,
                AluOp::Mod => left % right,
                AluOp::SignedMod if right == 0 => left,
                AluOp::SignedMod => signed_left.wrapping_rem(signed_right) as $unsigned,
                AluOp::Xor => left ^ right,
                AluOp::Mov => right,
            }
        }
    };
}

alu!(alu64, u64, i64);
alu!(alu32, u32, i32);

/// Whether a branch is taken.
#[inline(always)]
pub(super) fn holds(width: Width, condition: Condition, left: u64, right: u64) -> bool {
    // Cut to 32 bits and extended again, values compare as they did, with and without sign.
    let (left, right, signed_left, signed_right) = match width {
        Width::W64 => (left, right, left as i64, right as i64),
        Width::W32 => {
            (u64::from(left as u32), u64::from(right as u32), i64::from(left as i32), i64::from(right as i32))
        }
    };
    match condition {
        Condition::Equal => left == right,
        Condition::NotEqual => left != right,
        Condition::Greater => left > right,
        Condition::GreaterEqual => left >= right,
        Condition::Less => left < right,
        Condition::LessEqual => left <= right,
        Condition::SignedGreater => signed_left > signed_right,
        Condition::SignedGreaterEqual => signed_left >= signed_right,
        Condition::SignedLess => signed_left < signed_right,
        Condition::SignedLessEqual => signed_left <= signed_right,
        Condition::Set => left & right != 0,
    }
}

/// The lower bytes, sign-extended to 64 bits.
#[inline(always)]
pub(super) fn extend_sign(from: Size, value: u64) -> u64 {
    match from {
        Size::Byte => i64::from(value as i8) as u64,
        Size::Half => i64::from(value as i16) as u64,
        Size::Word => i64::from(value as i32) as u64,
        Size::Double => value,
    }
}

/// The lower bytes in another order.
pub(super) fn swap(op: SwapOp, size: Size, value: u64) -> u64 {
    let swaps = match op {
        SwapOp::ToLittle => false,
        SwapOp::ToBig | SwapOp::Swap => true,
    };
    match (size, swaps) {
        (Size::Byte, _) => value & 0xff,
        (Size::Half, false) => u64::from(value as u16),
        (Size::Half, true) => u64::from((value as u16).swap_bytes()),
        (Size::Word, false) => u64::from(value as u32),
        (Size::Word, true) => u64::from((value as u32).swap_bytes()),
        (Size::Double, false) => value,
        (Size::Double, true) => value.swap_bytes(),
    }
}
