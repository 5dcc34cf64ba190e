//! Programs that are well-formed, do something, and are wrong in all the ways that are checked while they run.
//!
//! A function is a list of pieces, each of one or a few instructions, and jumps go to beginnings of pieces. Some
//! pieces are what compilers make of C: a bounds check before an access, a counted loop, a pointer kept on the
//! stack. Those are what an analysis believes in, so they come in versions that are almost right.

use fastrand::Rng;
use outboard_ebpf::Parts;
use outboard_ebpf::insn::{AluOp, Condition, Insn, Operand, Reg, Size, SwapOp, Width};

use super::host;
use super::operations::{
    alu_op, atomic_op, condition, constant, operand, pick, reg, size, swap_op, wide_constant, width,
};

/// A program and what to run it with.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) parts: Parts,
    pub(super) context: Vec<u8>,
    pub(super) fuel: u64,
}

/// Targets from here on are slots, not pieces.
const SLOTS: u32 = 1 << 20;

/// Where the context's address is kept, mostly.
const CONTEXT_REGISTER: u8 = 6;

pub(super) struct Generator {
    rng: Rng,
    /// Instructions whose targets are still numbers of pieces, or of functions.
    code: Vec<Insn>,
    functions: u32,
    pieces: u32,
    /// Whether addresses stay out of results, so that engines with other addresses get the same.
    portable: bool,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Generator {
        Generator { rng: Rng::with_seed(seed), code: Vec::new(), functions: 0, pieces: 0, portable: false }
    }

    /// Anything.
    pub(super) fn case(mut self) -> Case {
        self.functions = if self.rng.bool() { 1 } else { self.rng.u32(2..5) };
        let mut starts = Vec::new();
        for number in 0..self.functions {
            starts.push(self.code.len() as u32);
            self.function(number);
        }
        for insn in &mut self.code {
            if let Insn::CallLocal { target } = insn {
                *target = starts[*target as usize];
            }
        }
        let entries = vec![("main".to_owned(), 0)];
        let (rodata, data) =
            (self.bytes(40), if self.rng.u8(..4) == 0 { self.bytes(40) } else { Vec::new() });
        let context =
            if self.rng.u8(..4) == 0 { self.bytes(64) } else { (0..64).map(|_| self.rng.u8(..)).collect() };
        let fuel = pick(&mut self.rng, &[5000, 5000, 5000, 300, 50, 7]);
        Case { parts: Parts { code: self.code, entries, locals: Vec::new(), rodata, data }, context, fuel }
    }

    /// What every engine computes alike: one function, no helpers, memory only by addresses that are right.
    pub(super) fn portable_case(mut self) -> Case {
        self.portable = true;
        self.functions = 1;
        self.function(0);
        let context = (0..64).map(|_| self.rng.u8(..)).collect();
        let entries = vec![("main".to_owned(), 0)];
        Case { parts: Parts { code: self.code, entries, ..Parts::default() }, context, fuel: 5000 }
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.rng.usize(..=most);
        (0..length).map(|_| self.rng.u8(..)).collect()
    }

    fn push(&mut self, insn: Insn) {
        self.code.push(insn);
        if insn.slots() == 2 {
            self.code.push(Insn::SecondHalf);
        }
    }

    fn alu(&mut self, width: Width, op: AluOp, dst: Reg, src: Operand) {
        self.push(Insn::Alu { width, op, dst, src });
    }

    fn function(&mut self, number: u32) {
        let start = self.code.len();
        self.pieces = self.rng.u32(2..24);
        if self.portable || self.rng.u8(..8) > 0 {
            self.alu(Width::W64, AluOp::Mov, reg(CONTEXT_REGISTER), Operand::Reg(Reg::R1));
        }
        if self.portable {
            self.alu(Width::W64, AluOp::Mov, Reg::R1, Operand::Imm(1));
            self.alu(Width::W64, AluOp::Mov, reg(2), Operand::Imm(64));
        }
        let mut places = Vec::new();
        for piece in 0..self.pieces {
            places.push(self.code.len() as u32);
            self.piece(number, piece);
        }
        places.push(self.code.len() as u32);
        self.push(Insn::Exit);
        for insn in &mut self.code[start..] {
            if let Insn::Jump { target, .. } | Insn::Branch { target, .. } = insn {
                *target = if *target < SLOTS { places[*target as usize] } else { *target - SLOTS };
            }
        }
    }

    /// A register to write. The one with the context's address is spared, but not always.
    fn destination(&mut self) -> Reg {
        loop {
            let number = self.rng.u8(..10);
            if number != CONTEXT_REGISTER || (!self.portable && self.rng.u8(..32) == 0) {
                return reg(number);
            }
        }
    }

    /// A register to compute with.
    fn source(&mut self) -> Reg {
        loop {
            let number = self.rng.u8(..if self.portable { 10 } else { 11 });
            if number != CONTEXT_REGISTER || !self.portable {
                return reg(number);
            }
        }
    }

    fn operand(&mut self) -> Operand {
        match operand(&mut self.rng, 10) {
            Operand::Reg(register) if self.portable && register.number() == 6 => Operand::Reg(Reg::R0),
            operand => operand,
        }
    }

    fn piece(&mut self, function: u32, piece: u32) {
        match self.rng.u8(..32) {
            0..=8 => self.arithmetic(),
            9..=10 => self.constant(),
            11..=14 => self.stack_access(),
            15..=17 => self.context_access(),
            18..=19 => self.masked_access(),
            20..=21 => self.checked_access(piece),
            22..=24 => self.branch(piece),
            25 if self.rng.bool() => self.counted_loop(piece),
            25 => self.array_loop(),
            26 => self.atomic(),
            _ if self.portable => self.arithmetic(),
            27 if self.rng.u8(..8) == 0 => self.wild_access(),
            27 if self.rng.bool() => self.granted_access(piece),
            27 | 28 => self.kept_pointer(),
            29 => self.call_local(function),
            _ => self.call_helper(piece),
        }
    }

    fn arithmetic(&mut self) {
        let dst = self.destination();
        let insn = match self.rng.u8(..10) {
            // rbpf panics when it negates the smallest number.
            0 => Insn::Neg { width: if self.portable { Width::W32 } else { width(&mut self.rng) }, dst },
            1 => {
                let size = pick(&mut self.rng, &[Size::Half, Size::Word, Size::Double]);
                let op = if self.portable { SwapOp::ToBig } else { swap_op(&mut self.rng) };
                Insn::Swap { op, size, dst }
            }
            2 if !self.portable => {
                let width = width(&mut self.rng);
                let from = match width {
                    Width::W32 => pick(&mut self.rng, &[Size::Byte, Size::Half]),
                    Width::W64 => pick(&mut self.rng, &[Size::Byte, Size::Half, Size::Word]),
                };
                Insn::MovSigned { width, from, dst, src: self.source() }
            }
            _ => {
                let src = self.operand();
                let op = match alu_op(&mut self.rng) {
                    AluOp::SignedDiv | AluOp::SignedMod if self.portable => AluOp::Mul,
                    op => op,
                };
                // rbpf keeps the upper half of what it takes modulo zero, which the RFC wants cleared.
                let whole = self.portable && op == AluOp::Mod;
                let width = if whole { Width::W64 } else { width(&mut self.rng) };
                Insn::Alu { width, op, dst, src }
            }
        };
        self.push(insn);
    }

    fn constant(&mut self) {
        let dst = self.destination();
        let value = wide_constant(&mut self.rng);
        self.push(Insn::LoadImm { dst, value });
    }

    /// A load or store with this base and offset.
    fn access(&mut self, base: Reg, offset: i16, size: Size) {
        let insn = match self.rng.u8(..4) {
            0 | 1 => {
                let signed = size != Size::Double && !self.portable && self.rng.bool();
                Insn::Load { size, signed, dst: self.destination(), base, offset }
            }
            2 => {
                let src = self.source();
                // What engines do not agree on is where things are.
                let src = if self.portable && src == base { reg(9) } else { src };
                Insn::Store { size, base, offset, src: Operand::Reg(src) }
            }
            _ => Insn::Store { size, base, offset, src: Operand::Imm(constant(&mut self.rng)) },
        };
        self.push(insn);
    }

    /// An offset into `length` bytes that is right for so many bytes, or almost.
    fn offset(&mut self, length: i16, size: Size) -> i16 {
        let most = length - size.bytes() as i16;
        if !self.portable && self.rng.u8(..48) == 0 {
            return pick(&mut self.rng, &[-1, most + 1, length, -8, i16::MAX, i16::MIN]);
        }
        if self.rng.bool() { self.rng.i16(..=most.min(16)) & !7 } else { self.rng.i16(..=most) }.max(0)
    }

    fn stack_access(&mut self) {
        let size = size(&mut self.rng);
        // Few places, so that what is stored is also loaded.
        let length = pick(&mut self.rng, &[16, 32, 512]);
        let offset = self.offset(length, size);
        self.access(Reg::R10, offset.wrapping_sub(length), size);
    }

    fn context_access(&mut self) {
        let size = size(&mut self.rng);
        let length = if self.portable || self.rng.u8(..24) > 0 { 64 } else { self.rng.i16(8..70) };
        let offset = self.offset(length, size);
        self.access(reg(CONTEXT_REGISTER), offset, size);
    }

    /// `index & mask`, added to a pointer.
    fn masked_access(&mut self) {
        let (size, index) = (size(&mut self.rng), reg(self.rng.u8(1..5)));
        let source = self.source();
        let mask = pick(&mut self.rng, &[7, 15, 31, 56]);
        let (first, second) = (width(&mut self.rng), width(&mut self.rng));
        self.alu(first, AluOp::Mov, index, Operand::Reg(source));
        let how = if self.rng.bool() { AluOp::And } else { AluOp::Mod };
        self.alu(second, how, index, Operand::Imm(mask));
        let (base, length) = if self.rng.bool() { (CONTEXT_REGISTER, 64) } else { (10, 0) };
        self.alu(Width::W64, AluOp::Add, index, Operand::Reg(reg(base)));
        // Eight bytes at the largest index are just within.
        let room = length - mask as i16 - 8;
        let offset =
            if self.portable { room.min(0) } else { self.rng.i16(room.min(0) - 2..=room.max(0) + 2) };
        let (offset, size) = if self.portable && base != 10 { (0, Size::Byte) } else { (offset, size) };
        self.access(index, offset, size);
        // Addresses do not stay in registers that results come from.
        self.alu(Width::W64, AluOp::Mov, index, Operand::Imm(mask));
    }

    /// `if index is small enough, access`
    fn checked_access(&mut self, piece: u32) {
        let (size, index) = (size(&mut self.rng), reg(self.rng.u8(1..5)));
        let source = self.source();
        self.alu(Width::W64, AluOp::Mov, index, Operand::Reg(source));
        let almost_right = !self.portable && self.rng.u8(..12) == 0;
        let limit = if almost_right { self.rng.i32(-2..72) } else { 56 };
        let (condition, width) = if !almost_right {
            (Condition::Greater, Width::W64)
        } else {
            (condition(&mut self.rng), width(&mut self.rng))
        };
        let right = Operand::Imm(limit);
        self.push(Insn::Branch { width, condition, left: index, right, target: piece + 1 });
        self.alu(Width::W64, AluOp::Add, index, Operand::Reg(reg(CONTEXT_REGISTER)));
        self.access(index, 0, size);
        self.alu(Width::W64, AluOp::Mov, index, Operand::Imm(limit));
        // The skipped part ends here, so an address cannot leave it.
        if self.portable {
            self.alu(Width::W64, AluOp::Mov, index, Operand::Imm(3));
        }
    }

    fn branch(&mut self, piece: u32) {
        // Mostly forwards, so that most programs end.
        let target =
            if self.rng.u8(..5) > 0 { self.rng.u32(piece + 1..=self.pieces) } else { self.rng.u32(..=piece) };
        let insn = match self.rng.u8(..8) {
            0 => Insn::Jump { target, long: !self.portable && self.rng.bool() },
            _ => {
                let (left, condition) = (self.source(), condition(&mut self.rng));
                let right = match self.operand() {
                    // rbpf does not extend the sign of what it compares without sign.
                    Operand::Imm(imm) if self.portable => Operand::Imm(imm & i32::MAX),
                    right => right,
                };
                Insn::Branch { width: width(&mut self.rng), condition, left, right, target }
            }
        };
        self.push(insn);
    }

    /// A loop over the pieces since an earlier one.
    fn counted_loop(&mut self, piece: u32) {
        let counter = reg(self.rng.u8(7..10));
        let target = self.rng.u32(piece.saturating_sub(3)..=piece);
        let width = width(&mut self.rng);
        self.alu(width, AluOp::And, counter, Operand::Imm(7));
        let step = if self.rng.bool() { AluOp::Sub } else { AluOp::Add };
        self.alu(width, step, counter, Operand::Imm(1));
        let (condition, limit) = pick(
            &mut self.rng,
            &[
                (Condition::NotEqual, 0),
                (Condition::SignedGreater, 0),
                (Condition::Less, 6),
                (Condition::LessEqual, 3),
            ],
        );
        self.push(Insn::Branch { width, condition, left: counter, right: Operand::Imm(limit), target });
    }

    /// `for (index = 0; index < limit; index += step) access array[index]`, by an index or a pointer that moves.
    fn array_loop(&mut self) {
        let (index, address, size) = (reg(7), reg(3), size(&mut self.rng));
        let step = if self.rng.u8(..4) > 0 { size.bytes() as i32 } else { self.rng.i32(1..9) };
        let most = 64 - size.bytes() as i32 + 1;
        let almost_right = !self.portable && self.rng.u8(..8) == 0;
        let limit = if almost_right { self.rng.i32(most - 3..most + 12) } else { self.rng.i32(1..=most) };
        let by_pointer = self.rng.bool() && !self.portable;
        self.alu(Width::W64, AluOp::Mov, index, Operand::Imm(0));
        self.alu(Width::W64, AluOp::Mov, address, Operand::Reg(reg(CONTEXT_REGISTER)));
        let target = SLOTS + self.code.len() as u32;
        if !by_pointer {
            self.alu(Width::W64, AluOp::Mov, address, Operand::Reg(reg(CONTEXT_REGISTER)));
            self.alu(Width::W64, AluOp::Add, address, Operand::Reg(index));
        }
        let insn = if self.rng.bool() {
            Insn::Load { size, signed: false, dst: Reg::R0, base: address, offset: 0 }
        } else {
            Insn::Store { size, base: address, offset: 0, src: Operand::Reg(index) }
        };
        self.push(insn);
        if by_pointer {
            self.alu(Width::W64, AluOp::Add, address, Operand::Imm(step));
        }
        let (moves, compares) = if almost_right {
            (width(&mut self.rng), width(&mut self.rng))
        } else {
            (Width::W64, Width::W64)
        };
        self.alu(moves, AluOp::Add, index, Operand::Imm(step));
        let condition = if self.rng.bool() { Condition::Less } else { Condition::SignedLess };
        self.push(Insn::Branch {
            width: compares,
            condition,
            left: index,
            right: Operand::Imm(limit),
            target,
        });
        self.alu(Width::W64, AluOp::Mov, address, Operand::Imm(limit));
    }

    /// Through the pointer to a granted buffer that was kept, which may have been granted anew since.
    fn granted_access(&mut self, piece: u32) {
        let (width, condition, right) = (Width::W64, Condition::Equal, Operand::Imm(0));
        if self.rng.u8(..8) > 0 {
            self.push(Insn::Branch { width, condition, left: reg(8), right, target: piece + 1 });
        }
        let (offset, size) = (self.rng.i16(..10), size(&mut self.rng));
        self.access(reg(8), offset, size);
    }

    fn atomic(&mut self) {
        if self.portable {
            return self.arithmetic();
        }
        let width = width(&mut self.rng);
        let size = if width == Width::W64 { Size::Double } else { Size::Word };
        let (base, length) = if self.rng.bool() { (Reg::R10, 32) } else { (reg(CONTEXT_REGISTER), 64) };
        let offset = self.offset(length, size).wrapping_sub(if base == Reg::R10 { length } else { 0 });
        let (op, fetch) = atomic_op(&mut self.rng);
        let src = self.destination();
        self.push(Insn::Atomic { width, op, fetch, base, offset, src });
    }

    fn wild_access(&mut self) {
        let base = self.source();
        let size = size(&mut self.rng);
        let offset = if self.rng.bool() { self.rng.i16(-16..16) } else { self.rng.i16(..) };
        self.access(base, offset, size);
    }

    /// A pointer goes to the stack and comes back.
    fn kept_pointer(&mut self) {
        let offset = -8 * self.rng.i16(1..4);
        let (stores, loads) = pick(
            &mut self.rng,
            &[(true, false), (true, true), (true, true), (true, true), (true, true), (false, true)],
        );
        if stores {
            let address =
                if self.rng.u8(..8) == 0 { pick(&mut self.rng, &[10, 0, 8]) } else { CONTEXT_REGISTER };
            let src = Operand::Reg(reg(address));
            self.push(Insn::Store { size: Size::Double, base: Reg::R10, offset, src });
        }
        if stores && loads && self.rng.u8(..4) == 0 {
            self.stack_access();
        }
        if loads {
            let dst = self.destination();
            self.push(Insn::Load { size: Size::Double, signed: false, dst, base: Reg::R10, offset });
            let least = if self.rng.u8(..8) == 0 { -8 } else { 0 };
            let (nearby, size) = (self.rng.i16(least..32), size(&mut self.rng));
            self.access(dst, nearby, size);
        }
    }

    fn call_local(&mut self, function: u32) {
        // Rarely upwards, so that most programs end.
        let lowest = if self.rng.u8(..8) == 0 { 0 } else { function + 1 };
        if lowest >= self.functions {
            return self.arithmetic();
        }
        let target = self.rng.u32(lowest..self.functions);
        if self.rng.u8(..12) > 0 {
            let src = pick(&mut self.rng, &[CONTEXT_REGISTER, CONTEXT_REGISTER, CONTEXT_REGISTER, 10]);
            self.alu(Width::W64, AluOp::Mov, Reg::R1, Operand::Reg(reg(src)));
        }
        self.push(Insn::CallLocal { target });
    }

    fn call_helper(&mut self, piece: u32) {
        let id = pick(&mut self.rng, &host::ALL);
        let points = match id {
            host::SUM | host::FILL => Some(1),
            host::STAMP => Some(2),
            _ => None,
        };
        if id == host::GRANT {
            let slots = if self.rng.u8(..8) == 0 { 15 } else { 7 };
            self.alu(Width::W64, AluOp::And, Reg::R1, Operand::Imm(slots));
        }
        if let Some(register) = points {
            let (base, back) = match self.rng.u8(..16) {
                0 => pick(&mut self.rng, &[(0, 0), (8, 0)]),
                _ => pick(&mut self.rng, &[(10, 16), (10, 40), (CONTEXT_REGISTER, 0)]),
            };
            self.alu(Width::W64, AluOp::Mov, reg(register), Operand::Reg(reg(base)));
            self.alu(Width::W64, AluOp::Sub, reg(register), Operand::Imm(back));
        }
        if id != host::STAMP && self.rng.u8(..24) > 0 {
            let length = if self.rng.bool() { 16 } else { self.rng.i32(..20) };
            self.alu(Width::W64, AluOp::Mov, reg(2), Operand::Imm(length));
        }
        self.push(Insn::CallHelper { id });
        if matches!(id, host::GRANT | host::FETCH) && self.rng.u8(..4) > 0 {
            let right = Operand::Imm(0);
            let (width, condition) = (Width::W64, Condition::Equal);
            if self.rng.u8(..16) > 0 {
                self.push(Insn::Branch { width, condition, left: Reg::R0, right, target: piece + 1 });
            }
            // Granted buffers are often shorter than this, which is for the check to notice.
            let most = pick(&mut self.rng, &[4, 4, 4, 25, 34]);
            let (offset, size) = (self.rng.i16(..most), size(&mut self.rng));
            self.access(Reg::R0, offset, size);
            self.alu(Width::W64, AluOp::Mov, reg(8), Operand::Reg(Reg::R0));
        }
    }
}
