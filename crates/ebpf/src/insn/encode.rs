//! From instructions to bytes.

use super::{AluOp, AtomicOp, Condition, Insn, Operand, Reg, Size, SwapOp, Width};

/// The bytes of a program: what [`decode`](super::decode()) made of them, back again.
///
/// # Panics
///
/// If a short jump or a branch is farther than 32,767 slots from its target, which no decoded program has.
pub fn encode(code: &[Insn]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(code.len() * 8);
    for (index, insn) in code.iter().enumerate() {
        match *insn {
            Insn::SecondHalf => {}
            Insn::LoadImm { dst, value } => {
                bytes.extend(slot(0x18, dst, 0, 0, value as i32));
                bytes.extend(slot(0, Reg::R0, 0, 0, (value >> 32) as i32));
            }
            _ => bytes.extend(single(*insn, index)),
        }
    }
    bytes
}

fn slot(opcode: u8, dst: Reg, src: usize, offset: i16, imm: i32) -> [u8; 8] {
    let ([o0, o1], [i0, i1, i2, i3]) = (offset.to_le_bytes(), imm.to_le_bytes());
    [opcode, dst.number() as u8 | (src as u8) << 4, o0, o1, i0, i1, i2, i3]
}

/// The opcode's bit, source register and constant of a second operand.
fn operand(operand: Operand) -> (u8, usize, i32) {
    match operand {
        Operand::Reg(reg) => (0x08, reg.number(), 0),
        Operand::Imm(imm) => (0x00, 0, imm),
    }
}

fn single(insn: Insn, index: usize) -> [u8; 8] {
    match insn {
        Insn::Alu { width, op, dst, src } => {
            let (code, offset) = alu(op);
            let (bit, src, imm) = operand(src);
            slot(code << 4 | bit | alu_class(width), dst, src, offset, imm)
        }
        Insn::Neg { width, dst } => slot(0x80 | alu_class(width), dst, 0, 0, 0),
        Insn::MovSigned { width, from, dst, src } => {
            slot(0xb8 | alu_class(width), dst, src.number(), from.bits() as i16, 0)
        }
        Insn::Swap { op, size, dst } => {
            let opcode = match op {
                SwapOp::ToLittle => 0xd4,
                SwapOp::ToBig => 0xdc,
                SwapOp::Swap => 0xd7,
            };
            slot(opcode, dst, 0, 0, size.bits() as i32)
        }
        Insn::Load { size, signed, dst, base, offset } => {
            let mode = if signed { 0x80 } else { 0x60 };
            slot(0x01 | mode | size_bits(size), dst, base.number(), offset, 0)
        }
        Insn::Store { size, base, offset, src } => match src {
            Operand::Reg(src) => slot(0x63 | size_bits(size), base, src.number(), offset, 0),
            Operand::Imm(imm) => slot(0x62 | size_bits(size), base, 0, offset, imm),
        },
        Insn::Atomic { width, op, fetch, base, offset, src } => {
            let size = if width == Width::W64 { Size::Double } else { Size::Word };
            slot(0xc3 | size_bits(size), base, src.number(), offset, atomic(op) | i32::from(fetch))
        }
        Insn::Jump { target, long: true } => slot(0x06, Reg::R0, 0, 0, distance(index, target)),
        Insn::Jump { target, long: false } => slot(0x05, Reg::R0, 0, short(index, target), 0),
        Insn::Branch { width, condition, left, right, target } => {
            let (bit, src, imm) = operand(right);
            let class = if width == Width::W64 { 0x05 } else { 0x06 };
            slot(branch(condition) << 4 | bit | class, left, src, short(index, target), imm)
        }
        Insn::CallLocal { target } => slot(0x85, Reg::R0, 1, 0, distance(index, target)),
        Insn::CallHelper { id } => slot(0x85, Reg::R0, 0, 0, id as i32),
        Insn::Exit => slot(0x95, Reg::R0, 0, 0, 0),
        Insn::LoadImm { .. } | Insn::SecondHalf => unreachable!("two slots, encoded by the caller"),
    }
}

fn distance(index: usize, target: u32) -> i32 {
    (i64::from(target) - index as i64 - 1) as i32
}

fn short(index: usize, target: u32) -> i16 {
    match i16::try_from(distance(index, target)) {
        Ok(offset) => offset,
        Err(_) => panic!("instruction {index} is too far from its target {target}"),
    }
}

fn alu_class(width: Width) -> u8 {
    if width == Width::W64 { 0x07 } else { 0x04 }
}

fn size_bits(size: Size) -> u8 {
    match size {
        Size::Word => 0x00,
        Size::Half => 0x08,
        Size::Byte => 0x10,
        Size::Double => 0x18,
    }
}

/// Code and offset: signed division is told by the latter.
fn alu(op: AluOp) -> (u8, i16) {
    match op {
        AluOp::Add => (0x0, 0),
        AluOp::Sub => (0x1, 0),
        AluOp::Mul => (0x2, 0),
        AluOp::Div => (0x3, 0),
        AluOp::SignedDiv => (0x3, 1),
        AluOp::Or => (0x4, 0),
        AluOp::And => (0x5, 0),
        AluOp::Lsh => (0x6, 0),
        AluOp::Rsh => (0x7, 0),
        AluOp::Mod => (0x9, 0),
        AluOp::SignedMod => (0x9, 1),
        AluOp::Xor => (0xa, 0),
        AluOp::Mov => (0xb, 0),
        AluOp::Arsh => (0xc, 0),
    }
}

fn atomic(op: AtomicOp) -> i32 {
    match op {
        AtomicOp::Add => 0x00,
        AtomicOp::Or => 0x40,
        AtomicOp::And => 0x50,
        AtomicOp::Xor => 0xa0,
        AtomicOp::Exchange => 0xe0,
        AtomicOp::CompareExchange => 0xf0,
    }
}

fn branch(condition: Condition) -> u8 {
    match condition {
        Condition::Equal => 0x1,
        Condition::Greater => 0x2,
        Condition::GreaterEqual => 0x3,
        Condition::Set => 0x4,
        Condition::NotEqual => 0x5,
        Condition::SignedGreater => 0x6,
        Condition::SignedGreaterEqual => 0x7,
        Condition::Less => 0xa,
        Condition::LessEqual => 0xb,
        Condition::SignedLess => 0xc,
        Condition::SignedLessEqual => 0xd,
    }
}
