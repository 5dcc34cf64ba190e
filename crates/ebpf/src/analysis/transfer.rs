//! What instructions that neither jump nor call do to what is known.

use std::ops::Range;

use super::state::State;
use super::value::Value;
use crate::insn::{AluOp, AtomicOp, Insn, Operand, Reg, Size, SwapOp, Width};
use crate::memory::MemoryAccess;

/// A load, store or atomic operation: where, how much, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) address: Value,
    pub(crate) size: u64,
    pub(crate) access: MemoryAccess,
    /// Whether what was there before is seen.
    pub(crate) reads: bool,
}

impl Touch {
    /// All bytes that it may touch; everything, if the addresses wrap around.
    pub(crate) fn range(&self) -> Range<u64> {
        match self.address.greatest().checked_add(self.size) {
            Some(end) => self.address.least()..end,
            None => 0..u64::MAX,
        }
    }
}

/// What an instruction does to memory, if it does anything.
pub(crate) fn touch(state: &State, insn: &Insn) -> Option<Touch> {
    let (base, offset, size, access, reads) = match *insn {
        Insn::Load { size, base, offset, .. } => (base, offset, size, MemoryAccess::Read, true),
        Insn::Store { size, base, offset, .. } => (base, offset, size, MemoryAccess::Write, false),
        Insn::Atomic { width, base, offset, .. } => {
            let size = if width == Width::W32 { Size::Word } else { Size::Double };
            (base, offset, size, MemoryAccess::Write, true)
        }
        _ => return None,
    };
    let base = state.get(base);
    // Without an offset the address stays what it is, a zero beside its range included.
    let address = if offset == 0 { base } else { base.add(Value::constant(i64::from(offset) as u64)) };
    Some(Touch { address, size: size.bytes().into(), access, reads })
}

/// Applies an instruction that neither jumps nor calls.
pub(crate) fn apply(state: &mut State, insn: &Insn) {
    let touch = touch(state, insn);
    match *insn {
        Insn::Alu { width, op, dst, src } => {
            let value = alu(width, op, state.get(dst), state.operand(src));
            state.set(dst, value);
        }
        Insn::Neg { width, dst } => {
            let value = alu(width, AluOp::Sub, Value::constant(0), state.get(dst));
            state.set(dst, value);
        }
        Insn::MovSigned { width, from, dst, src } => {
            state.set(dst, extended(width, from, state.get(src)));
        }
        Insn::Swap { op, size, dst } => {
            state.set(dst, swapped(op, size, state.get(dst)));
        }
        Insn::LoadImm { dst, value } => state.set(dst, Value::constant(value)),
        Insn::Load { size, signed, dst, .. } => {
            let stored = touch.and_then(|touch| touch.address.as_constant()).and_then(|at| state.slot_at(at));
            let value = match (size, signed) {
                (Size::Double, _) => stored.unwrap_or(Value::ANY),
                (_, true) => Value::ANY,
                (_, false) => any_of(size),
            };
            state.set(dst, value);
        }
        Insn::Store { size, src, .. } => {
            let Some(touch) = touch else { return };
            let value = state.operand(src);
            match touch.address.as_constant() {
                Some(address) if size == Size::Double => {
                    state.forget(touch.range());
                    state.set_slot(address, value);
                }
                _ => state.forget(touch.range()),
            }
        }
        Insn::Atomic { width, op, fetch, src, .. } => {
            let Some(touch) = touch else { return };
            state.forget(touch.range());
            let old = if width == Width::W32 { Value::ANY_WORD } else { Value::ANY };
            if op == AtomicOp::CompareExchange {
                state.set(Reg::R0, old);
            } else if fetch {
                state.set(src, old);
            }
        }
        Insn::SecondHalf
        | Insn::Jump { .. }
        | Insn::Branch { .. }
        | Insn::CallLocal { .. }
        | Insn::CallHelper { .. }
        | Insn::Exit => {}
    }
}

/// Anything that fits into so many bytes.
fn any_of(size: Size) -> Value {
    Value::between(0, u64::MAX >> (64 - size.bits()))
}

fn swapped(op: SwapOp, size: Size, value: Value) -> Value {
    match (op, size) {
        (SwapOp::ToLittle, Size::Double) => value,
        (SwapOp::ToLittle, Size::Word) => value.lower_half(),
        _ => any_of(size),
    }
}

fn extended(width: Width, from: Size, value: Value) -> Value {
    let positive = u64::MAX >> (65 - from.bits());
    if value.greatest() <= positive {
        return value;
    }
    if width == Width::W32 { Value::ANY_WORD } else { Value::ANY }
}

pub(super) fn alu(width: Width, op: AluOp, left: Value, right: Value) -> Value {
    match (width, op) {
        (Width::W64, AluOp::Mov) => right,
        (Width::W32, AluOp::Mov) => right.lower_half(),
        (Width::W64, _) => compute(op, left, right, Width::W64),
        (Width::W32, _) => {
            // Computed with more bits than needed, of which the lower ones are right.
            compute(op, left.lower_half(), right.lower_half(), Width::W32).lower_half()
        }
    }
}

fn compute(op: AluOp, left: Value, right: Value, width: Width) -> Value {
    let bits = if width == Width::W32 { 32 } else { 64 };
    let positive = u64::MAX >> (65 - bits);
    let both_positive = left.greatest() <= positive && right.greatest() <= positive;
    let distance = right.as_constant().map(|distance| distance as u32 % bits);
    match op {
        AluOp::Add => left.add(right),
        AluOp::Sub => left.sub(right),
        AluOp::Mul => left.mul(right),
        AluOp::Div => left.div(right),
        AluOp::Mod => left.modulo(right),
        AluOp::SignedDiv if both_positive => left.div(right),
        AluOp::SignedMod if both_positive => left.modulo(right),
        AluOp::Or => left.or(right),
        AluOp::And => left.and(right),
        AluOp::Xor => left.xor(right),
        AluOp::Mov => right,
        AluOp::Lsh => distance.map_or(Value::ANY, |distance| left.shift_left(distance)),
        AluOp::Rsh => match distance {
            Some(distance) => left.shift_right(distance),
            None => Value::between(0, left.greatest()),
        },
        AluOp::Arsh if left.greatest() <= positive => match distance {
            Some(distance) => left.shift_right(distance),
            None => Value::between(0, left.greatest()),
        },
        AluOp::SignedDiv | AluOp::SignedMod | AluOp::Arsh => Value::ANY,
    }
}

/// Whether it is the same to compare these with 32 bits as with 64.
fn are_words(left: Value, right: Value) -> bool {
    left.greatest().max(right.greatest()) <= u32::MAX.into()
}

/// The operands of a branch; nothing, if it compares other numbers than the registers have.
pub(crate) fn compared(state: &State, width: Width, left: Reg, right: Operand) -> Option<(Value, Value)> {
    let (left, right) = match (width, right) {
        (Width::W32, Operand::Imm(imm)) => (state.get(left), Value::constant((imm as u32).into())),
        _ => (state.get(left), state.operand(right)),
    };
    (width == Width::W64 || are_words(left, right)).then_some((left, right))
}
