//! Instructions that only compute.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32, I64, Type};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::translate::Translator;
use crate::insn::{AluOp, Operand, Reg, Size, SwapOp, Width};

/// The type that has so many bytes.
pub(super) const fn type_of(size: Size) -> Type {
    match size {
        Size::Byte => I8,
        Size::Half => I16,
        Size::Word => I32,
        Size::Double => I64,
    }
}

const fn type_of_width(width: Width) -> Type {
    match width {
        Width::W32 => I32,
        Width::W64 => I64,
    }
}

impl Translator<'_, '_> {
    pub(super) fn alu(&mut self, width: Width, op: AluOp, dst: Reg, src: Operand) {
        let right = self.operand(width, src);
        if op == AluOp::Mov {
            return self.set_as(width, dst, right);
        }
        let left = self.get_as(width, dst);
        let ins = self.builder.ins();
        let value = match op {
            AluOp::Add => ins.iadd(left, right),
            AluOp::Sub => ins.isub(left, right),
            AluOp::Mul => ins.imul(left, right),
            AluOp::Or => ins.bor(left, right),
            AluOp::And => ins.band(left, right),
            AluOp::Xor => ins.bxor(left, right),
            // Cranelift takes distances modulo the width, as programs do.
            AluOp::Lsh => ins.ishl(left, right),
            AluOp::Rsh => ins.ushr(left, right),
            AluOp::Arsh => ins.sshr(left, right),
            AluOp::Mov => right,
            AluOp::Div | AluOp::Mod => self.divide_unsigned(width, op, left, (right, src)),
            AluOp::SignedDiv | AluOp::SignedMod => self.divide_signed(width, op, left, (right, src)),
        };
        self.set_as(width, dst, value);
    }

    fn divide_unsigned(
        &mut self,
        width: Width,
        op: AluOp,
        left: Value,
        (right, src): (Value, Operand),
    ) -> Value {
        if let Operand::Imm(imm) = src {
            return match (op, imm) {
                (AluOp::Div, 0) => self.constant(width, 0),
                (_, 0) => left,
                (AluOp::Div, _) => self.builder.ins().udiv(left, right),
                _ => self.builder.ins().urem(left, right),
            };
        }
        let is_zero = self.builder.ins().icmp_imm(IntCC::Equal, right, 0);
        let one = self.constant(width, 1);
        let divisor = self.builder.ins().select(is_zero, one, right);
        if op == AluOp::Div {
            let zero = self.constant(width, 0);
            let quotient = self.builder.ins().udiv(left, divisor);
            self.builder.ins().select(is_zero, zero, quotient)
        } else {
            let remainder = self.builder.ins().urem(left, divisor);
            self.builder.ins().select(is_zero, left, remainder)
        }
    }

    /// The machine's division faults on the smallest number by -1, so both 0 and -1 are divided by 1 instead.
    fn divide_signed(
        &mut self,
        width: Width,
        op: AluOp,
        left: Value,
        (right, src): (Value, Operand),
    ) -> Value {
        if let Operand::Imm(imm) = src {
            return match (op, imm) {
                (AluOp::SignedDiv, 0) | (AluOp::SignedMod, -1) => self.constant(width, 0),
                (_, 0) => left,
                (_, -1) => self.builder.ins().ineg(left),
                (AluOp::SignedDiv, _) => self.builder.ins().sdiv(left, right),
                _ => self.builder.ins().srem(left, right),
            };
        }
        let is_zero = self.builder.ins().icmp_imm(IntCC::Equal, right, 0);
        let is_minus_one = self.builder.ins().icmp_imm(IntCC::Equal, right, -1);
        let is_special = self.builder.ins().bor(is_zero, is_minus_one);
        let one = self.constant(width, 1);
        let divisor = self.builder.ins().select(is_special, one, right);
        if op == AluOp::SignedDiv {
            let zero = self.constant(width, 0);
            let quotient = self.builder.ins().sdiv(left, divisor);
            let negated = self.builder.ins().ineg(left);
            let unless_zero = self.builder.ins().select(is_minus_one, negated, quotient);
            self.builder.ins().select(is_zero, zero, unless_zero)
        } else {
            let remainder = self.builder.ins().srem(left, divisor);
            self.builder.ins().select(is_zero, left, remainder)
        }
    }

    pub(super) fn negate(&mut self, width: Width, dst: Reg) {
        let value = self.get_as(width, dst);
        let value = self.builder.ins().ineg(value);
        self.set_as(width, dst, value);
    }

    pub(super) fn move_signed(&mut self, width: Width, from: Size, dst: Reg, src: Reg) {
        let value = self.get(src);
        let value = match from {
            Size::Double => value,
            _ => {
                let part = self.builder.ins().ireduce(type_of(from), value);
                match (from, width) {
                    (Size::Word, Width::W32) => part,
                    _ => self.builder.ins().sextend(type_of_width(width), part),
                }
            }
        };
        self.set_as(width, dst, value);
    }

    pub(super) fn swap(&mut self, op: SwapOp, size: Size, dst: Reg) {
        let value = self.get(dst);
        let part =
            if size == Size::Double { value } else { self.builder.ins().ireduce(type_of(size), value) };
        let ordered = match (op, size) {
            (SwapOp::ToLittle, _) | (_, Size::Byte) => part,
            (SwapOp::ToBig | SwapOp::Swap, _) => self.builder.ins().bswap(part),
        };
        let value = if size == Size::Double { ordered } else { self.builder.ins().uextend(I64, ordered) };
        self.set(dst, value);
    }
}
