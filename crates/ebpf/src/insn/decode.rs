//! From bytes to instructions. Every bit that RFC 9669 does not give a meaning has to be zero, so that what was
//! decoded encodes to the same bytes.

use super::{AluOp, AtomicOp, Condition, Insn, Operand, Reg, Size, SwapOp, Width};

/// Bytes that are no instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("instruction {index}: {flaw}")]
pub struct InsnDecodeError {
    /// The slot.
    pub index: usize,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// Why a slot is no instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The bytes end within it.
    #[error("the program ends in the middle of it")]
    Truncated,
    /// No instruction has this first byte, or not with these parts.
    #[error("opcode {opcode:#04x} has no meaning with these operands")]
    Undefined {
        /// Its first byte.
        opcode: u8,
    },
    /// Packet access as in the first years of BPF.
    #[error("opcode {opcode:#04x} is a legacy packet instruction (ABS or IND), which are not supported")]
    LegacyPacket {
        /// Its first byte.
        opcode: u8,
    },
    /// A 64-bit constant that stands for something of the kernel's.
    #[error("a 64-bit immediate of kind {kind} (maps and variables of the kernel) is not supported")]
    KernelObject {
        /// What its source field says.
        kind: u8,
    },
    /// A call to a function of the kernel by its type.
    #[error("calls by BTF id are not supported")]
    CallByType,
    /// There is no such register.
    #[error("there is no register r{number}")]
    NoRegister {
        /// Its number.
        number: u8,
    },
    /// A part that has to be zero is not.
    #[error("its field {field} has to be zero")]
    Reserved {
        /// Which part.
        field: &'static str,
    },
    /// It jumps or calls out of the program.
    #[error("it goes to {target}, which is not in the program")]
    Target {
        /// Where to, in slots from the beginning.
        target: i64,
    },
}

/// The eight bytes of a slot, taken apart.
#[derive(Clone, Copy)]
struct Slot {
    opcode: u8,
    dst: u8,
    src: u8,
    offset: i16,
    imm: i32,
}

impl Slot {
    fn new(bytes: [u8; 8]) -> Slot {
        let [opcode, registers, offset @ .., _, _, _, _] = bytes;
        let [.., i0, i1, i2, i3] = bytes;
        Slot {
            opcode,
            dst: registers & 0x0f,
            src: registers >> 4,
            offset: i16::from_le_bytes(offset),
            imm: i32::from_le_bytes([i0, i1, i2, i3]),
        }
    }

    fn dst(&self) -> Result<Reg, Flaw> {
        Reg::new(self.dst).ok_or(Flaw::NoRegister { number: self.dst })
    }

    fn src(&self) -> Result<Reg, Flaw> {
        Reg::new(self.src).ok_or(Flaw::NoRegister { number: self.src })
    }

    /// The second operand, by the bit of the opcode that tells registers from constants.
    fn operand(&self) -> Result<Operand, Flaw> {
        if self.opcode & 0x08 != 0 {
            self.imm_is_zero()?;
            Ok(Operand::Reg(self.src()?))
        } else {
            self.src_is_zero()?;
            Ok(Operand::Imm(self.imm))
        }
    }

    fn dst_is_zero(&self) -> Result<(), Flaw> {
        if self.dst == 0 { Ok(()) } else { Err(Flaw::Reserved { field: "dst" }) }
    }

    fn src_is_zero(&self) -> Result<(), Flaw> {
        if self.src == 0 { Ok(()) } else { Err(Flaw::Reserved { field: "src" }) }
    }

    fn offset_is_zero(&self) -> Result<(), Flaw> {
        if self.offset == 0 { Ok(()) } else { Err(Flaw::Reserved { field: "offset" }) }
    }

    fn imm_is_zero(&self) -> Result<(), Flaw> {
        if self.imm == 0 { Ok(()) } else { Err(Flaw::Reserved { field: "imm" }) }
    }

    fn undefined(&self) -> Flaw {
        Flaw::Undefined { opcode: self.opcode }
    }
}

/// Decodes a whole program: one entry per slot of eight bytes. Targets lie within the program; whether they lie
/// within a function, and on an instruction, is for [`Program`](crate::Program) to say.
pub fn decode(bytes: &[u8]) -> Result<Vec<Insn>, InsnDecodeError> {
    let (slots, rest) = bytes.as_chunks::<8>();
    let mut code = Vec::with_capacity(slots.len());
    while let Some(&bytes) = slots.get(code.len()) {
        let index = code.len();
        let slot = Slot::new(bytes);
        let place = Place { index, slots: slots.len() };
        let insn =
            if slot.opcode == 0x18 { load_imm(slot, slots.get(index + 1)) } else { single(slot, place) };
        let insn = insn.map_err(|flaw| InsnDecodeError { index, flaw })?;
        code.push(insn);
        if insn.slots() == 2 {
            code.push(Insn::SecondHalf);
        }
    }
    if rest.is_empty() { Ok(code) } else { Err(InsnDecodeError { index: code.len(), flaw: Flaw::Truncated }) }
}

/// Where an instruction is, to know what its distances mean.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    slots: usize,
}

impl Place {
    fn target(self, distance: i64) -> Result<u32, Flaw> {
        let target = self.index as i64 + 1 + distance;
        match u32::try_from(target) {
            Ok(slot) if (slot as usize) < self.slots => Ok(slot),
            _ => Err(Flaw::Target { target }),
        }
    }
}

fn load_imm(slot: Slot, second: Option<&[u8; 8]>) -> Result<Insn, Flaw> {
    let second = Slot::new(*second.ok_or(Flaw::Truncated)?);
    slot.offset_is_zero()?;
    if slot.src != 0 {
        return Err(Flaw::KernelObject { kind: slot.src });
    }
    if second.opcode != 0 {
        return Err(Flaw::Reserved { field: "opcode of the second slot" });
    }
    second.dst_is_zero()?;
    second.src_is_zero()?;
    second.offset_is_zero()?;
    let value = u64::from(slot.imm as u32) | u64::from(second.imm as u32) << 32;
    Ok(Insn::LoadImm { dst: slot.dst()?, value })
}

fn single(slot: Slot, place: Place) -> Result<Insn, Flaw> {
    match slot.opcode & 0x07 {
        0x00 => Err(match slot.opcode & 0xe0 {
            0x20 | 0x40 if slot.opcode & 0x18 != 0x18 => Flaw::LegacyPacket { opcode: slot.opcode },
            _ => slot.undefined(),
        }),
        0x01 => load(slot),
        0x02 | 0x03 => store(slot),
        0x04 => alu(slot, Width::W32),
        0x05 => jump(slot, Width::W64, place),
        0x06 => jump(slot, Width::W32, place),
        _ => alu(slot, Width::W64),
    }
}

fn size(opcode: u8) -> Size {
    match opcode & 0x18 {
        0x00 => Size::Word,
        0x08 => Size::Half,
        0x10 => Size::Byte,
        _ => Size::Double,
    }
}

fn load(slot: Slot) -> Result<Insn, Flaw> {
    let size = size(slot.opcode);
    let signed = match slot.opcode & 0xe0 {
        0x60 => false,
        0x80 if size != Size::Double => true,
        _ => return Err(slot.undefined()),
    };
    slot.imm_is_zero()?;
    Ok(Insn::Load { size, signed, dst: slot.dst()?, base: slot.src()?, offset: slot.offset })
}

fn store(slot: Slot) -> Result<Insn, Flaw> {
    let size = size(slot.opcode);
    let from_register = slot.opcode & 0x07 == 0x03;
    match slot.opcode & 0xe0 {
        0x60 if from_register => {
            slot.imm_is_zero()?;
            let src = Operand::Reg(slot.src()?);
            Ok(Insn::Store { size, base: slot.dst()?, offset: slot.offset, src })
        }
        0x60 => {
            slot.src_is_zero()?;
            Ok(Insn::Store { size, base: slot.dst()?, offset: slot.offset, src: Operand::Imm(slot.imm) })
        }
        0xc0 if from_register => atomic(slot, size),
        _ => Err(slot.undefined()),
    }
}

fn atomic(slot: Slot, size: Size) -> Result<Insn, Flaw> {
    let width = match size {
        Size::Word => Width::W32,
        Size::Double => Width::W64,
        Size::Byte | Size::Half => return Err(slot.undefined()),
    };
    let (op, fetch) = match slot.imm {
        0x00 => (AtomicOp::Add, false),
        0x01 => (AtomicOp::Add, true),
        0x40 => (AtomicOp::Or, false),
        0x41 => (AtomicOp::Or, true),
        0x50 => (AtomicOp::And, false),
        0x51 => (AtomicOp::And, true),
        0xa0 => (AtomicOp::Xor, false),
        0xa1 => (AtomicOp::Xor, true),
        0xe1 => (AtomicOp::Exchange, true),
        0xf1 => (AtomicOp::CompareExchange, true),
        _ => return Err(slot.undefined()),
    };
    Ok(Insn::Atomic { width, op, fetch, base: slot.dst()?, offset: slot.offset, src: slot.src()? })
}

fn alu(slot: Slot, width: Width) -> Result<Insn, Flaw> {
    let op = match (slot.opcode >> 4, slot.offset) {
        (0x8, _) => return neg(slot, width),
        (0xb, 8 | 16 | 32) => return mov_signed(slot, width),
        (0xd, _) => return swap(slot, width),
        (0x3, 1) => AluOp::SignedDiv,
        (0x9, 1) => AluOp::SignedMod,
        (0x0..=0xc, 1..) | (0x0..=0xc, ..=-1) => return Err(Flaw::Reserved { field: "offset" }),
        (0x0, _) => AluOp::Add,
        (0x1, _) => AluOp::Sub,
        (0x2, _) => AluOp::Mul,
        (0x3, _) => AluOp::Div,
        (0x4, _) => AluOp::Or,
        (0x5, _) => AluOp::And,
        (0x6, _) => AluOp::Lsh,
        (0x7, _) => AluOp::Rsh,
        (0x9, _) => AluOp::Mod,
        (0xa, _) => AluOp::Xor,
        (0xb, _) => AluOp::Mov,
        (0xc, _) => AluOp::Arsh,
        _ => return Err(slot.undefined()),
    };
    Ok(Insn::Alu { width, op, dst: slot.dst()?, src: slot.operand()? })
}

fn neg(slot: Slot, width: Width) -> Result<Insn, Flaw> {
    if slot.opcode & 0x08 != 0 {
        return Err(slot.undefined());
    }
    slot.src_is_zero()?;
    slot.offset_is_zero()?;
    slot.imm_is_zero()?;
    Ok(Insn::Neg { width, dst: slot.dst()? })
}

fn mov_signed(slot: Slot, width: Width) -> Result<Insn, Flaw> {
    let from = match slot.offset {
        8 => Size::Byte,
        16 => Size::Half,
        32 if width == Width::W64 => Size::Word,
        _ => return Err(slot.undefined()),
    };
    match slot.operand()? {
        Operand::Reg(src) => Ok(Insn::MovSigned { width, from, dst: slot.dst()?, src }),
        Operand::Imm(_) => Err(slot.undefined()),
    }
}

fn swap(slot: Slot, width: Width) -> Result<Insn, Flaw> {
    let op = match (width, slot.opcode & 0x08 != 0) {
        (Width::W32, false) => SwapOp::ToLittle,
        (Width::W32, true) => SwapOp::ToBig,
        (Width::W64, false) => SwapOp::Swap,
        (Width::W64, true) => return Err(slot.undefined()),
    };
    slot.src_is_zero()?;
    slot.offset_is_zero()?;
    let size = match slot.imm {
        16 => Size::Half,
        32 => Size::Word,
        64 => Size::Double,
        _ => return Err(slot.undefined()),
    };
    Ok(Insn::Swap { op, size, dst: slot.dst()? })
}

fn jump(slot: Slot, width: Width, place: Place) -> Result<Insn, Flaw> {
    let condition = match slot.opcode >> 4 {
        0x0 => return always(slot, width, place),
        0x8 => return call(slot, place),
        0x9 if slot.opcode == 0x95 => {
            slot.dst_is_zero()?;
            slot.src_is_zero()?;
            slot.offset_is_zero()?;
            slot.imm_is_zero()?;
            return Ok(Insn::Exit);
        }
        0x1 => Condition::Equal,
        0x2 => Condition::Greater,
        0x3 => Condition::GreaterEqual,
        0x4 => Condition::Set,
        0x5 => Condition::NotEqual,
        0x6 => Condition::SignedGreater,
        0x7 => Condition::SignedGreaterEqual,
        0xa => Condition::Less,
        0xb => Condition::LessEqual,
        0xc => Condition::SignedLess,
        0xd => Condition::SignedLessEqual,
        _ => return Err(slot.undefined()),
    };
    let (left, right) = (slot.dst()?, slot.operand()?);
    Ok(Insn::Branch { width, condition, left, right, target: place.target(slot.offset.into())? })
}

/// `goto`, whose distance is in the offset, and `gotol`, whose distance is in the constant.
fn always(slot: Slot, width: Width, place: Place) -> Result<Insn, Flaw> {
    if slot.opcode & 0x08 != 0 {
        return Err(slot.undefined());
    }
    slot.dst_is_zero()?;
    slot.src_is_zero()?;
    if width == Width::W32 {
        slot.offset_is_zero()?;
        Ok(Insn::Jump { target: place.target(slot.imm.into())?, long: true })
    } else {
        slot.imm_is_zero()?;
        Ok(Insn::Jump { target: place.target(slot.offset.into())?, long: false })
    }
}

fn call(slot: Slot, place: Place) -> Result<Insn, Flaw> {
    if slot.opcode != 0x85 {
        return Err(slot.undefined());
    }
    slot.dst_is_zero()?;
    slot.offset_is_zero()?;
    match slot.src {
        0 => Ok(Insn::CallHelper { id: slot.imm as u32 }),
        1 => Ok(Insn::CallLocal { target: place.target(slot.imm.into())? }),
        2 => Err(Flaw::CallByType),
        _ => Err(Flaw::Reserved { field: "src" }),
    }
}
