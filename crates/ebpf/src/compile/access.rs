//! Loads, stores and atomic operations: from virtual addresses to native ones.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::arithmetic::type_of;
use super::layout::{self, ended};
use super::translate::{Translator, field, fixed_field, memory};
use crate::analysis::Reach;
use crate::insn::{AtomicOp, Operand, Reg, Size, Width};
use crate::memory::{
    AREA_SHIFT, AREAS, FIRST_GRANT_AREA, MemoryAccess, MemoryArea, STACK_AREA, area_address,
};

/// A native address that may be accessed: a value and a distance from it.
#[derive(Clone, Copy)]
struct Place(Value, i32);

impl Translator<'_, '_> {
    pub(super) fn load(&mut self, index: u32, size: Size, signed: bool, dst: Reg, at: (Reg, i16)) {
        let Place(start, offset) = self.locate(index, size, at, MemoryAccess::Read);
        let value = self.builder.ins().load(type_of(size), memory(), start, offset);
        let value = match (size, signed) {
            (Size::Double, _) => value,
            (_, true) => self.builder.ins().sextend(I64, value),
            (_, false) => self.builder.ins().uextend(I64, value),
        };
        self.set(dst, value);
    }

    pub(super) fn store(&mut self, index: u32, size: Size, at: (Reg, i16), src: Operand) {
        let Place(start, offset) = self.locate(index, size, at, MemoryAccess::Write);
        let value = self.operand(Width::W64, src);
        let value =
            if size == Size::Double { value } else { self.builder.ins().ireduce(type_of(size), value) };
        self.builder.ins().store(memory(), value, start, offset);
    }

    /// Memory is private to the run, so what is atomic for the program is three steps for the machine.
    pub(super) fn atomic(
        &mut self,
        index: u32,
        width: Width,
        op: AtomicOp,
        fetch: bool,
        at: (Reg, i16),
        src: Reg,
    ) {
        let (size, class) = match width {
            Width::W32 => (Size::Word, I32),
            Width::W64 => (Size::Double, I64),
        };
        let Place(start, offset) = self.locate(index, size, at, MemoryAccess::Write);
        let operand = self.get_as(width, src);
        let expected = self.get_as(width, Reg::R0);
        let old = self.builder.ins().load(class, memory(), start, offset);
        let ins = self.builder.ins();
        let new = match op {
            AtomicOp::Add => ins.iadd(old, operand),
            AtomicOp::Or => ins.bor(old, operand),
            AtomicOp::And => ins.band(old, operand),
            AtomicOp::Xor => ins.bxor(old, operand),
            AtomicOp::Exchange => operand,
            AtomicOp::CompareExchange => {
                let equal = ins.icmp(IntCC::Equal, old, expected);
                self.builder.ins().select(equal, operand, old)
            }
        };
        self.builder.ins().store(memory(), new, start, offset);
        if op == AtomicOp::CompareExchange {
            self.set_as(width, Reg::R0, old);
        } else if fetch {
            self.set_as(width, src, old);
        }
    }

    /// Where an access goes, after it was checked as far as that is needed.
    fn locate(&mut self, index: u32, size: Size, (base, offset): (Reg, i16), access: MemoryAccess) -> Place {
        match self.plan.reach(self.body, index) {
            Reach::Anywhere => self.look_up(index, size, (base, offset), access),
            Reach::Area(area) => self.check_length(index, size, (base, offset), area, access),
            Reach::Proven { area, offset: Some(constant) } => Place(self.area_base(area), constant as i32),
            Reach::Proven { area, offset: None } => self.displace(area, base, offset),
        }
    }

    /// The native address of an area's first byte. Granted buffers move, others stay where they are.
    fn area_base(&mut self, area: usize) -> Value {
        let flags = if area < FIRST_GRANT_AREA { fixed_field() } else { field() };
        let instance = self.instance();
        self.builder.ins().load(I64, flags, instance, layout::area_base(area))
    }

    /// The native address of a virtual one that lies in `area`.
    fn displace(&mut self, area: usize, base: Reg, offset: i16) -> Place {
        let start = self.area_base(area);
        let distance = self.builder.ins().iadd_imm(start, (area_address(area) as i64).wrapping_neg());
        let address = self.get(base);
        Place(self.builder.ins().iadd(distance, address), offset.into())
    }

    fn check_length(
        &mut self,
        index: u32,
        size: Size,
        (base, offset): (Reg, i16),
        area: usize,
        access: MemoryAccess,
    ) -> Place {
        let address = self.address(base, offset);
        let within = self.builder.ins().iadd_imm(address, (area_address(area) as i64).wrapping_neg());
        let end = self.builder.ins().iadd_imm(within, i64::from(size.bytes()));
        let length = match access {
            MemoryAccess::Read => layout::area_readable(area),
            MemoryAccess::Write => layout::area_writable(area),
        };
        let changes = area == STACK_AREA || area >= FIRST_GRANT_AREA;
        let flags = if changes { field() } else { fixed_field() };
        let instance = self.instance();
        let length = self.builder.ins().uload32(flags, instance, length);
        let fits = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, length);
        self.end_unless(fits, Some(address), ended(layout::WRONG_ADDRESS, index));
        let start = self.area_base(area);
        Place(self.builder.ins().iadd(start, within), 0)
    }

    fn look_up(&mut self, index: u32, size: Size, (base, offset): (Reg, i16), access: MemoryAccess) -> Place {
        let status = ended(layout::WRONG_ADDRESS, index);
        let address = self.address(base, offset);
        let area = self.builder.ins().ushr_imm(address, i64::from(AREA_SHIFT));
        let exists = self.builder.ins().icmp_imm(IntCC::UnsignedLessThan, area, AREAS as i64);
        self.end_unless(exists, Some(address), status);
        let entry = self.builder.ins().ishl_imm(area, layout::AREA_ENTRY_SHIFT);
        let instance = self.instance();
        let entry = self.builder.ins().iadd(instance, entry);
        let within = self.builder.ins().ireduce(I32, address);
        let within = self.builder.ins().uextend(I64, within);
        let end = self.builder.ins().iadd_imm(within, i64::from(size.bytes()));
        let length = if access == MemoryAccess::Read { MemoryArea::READABLE } else { MemoryArea::WRITABLE };
        let length = self.builder.ins().uload32(field(), entry, layout::AREA_TABLE + length as i32);
        let fits = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, length);
        self.end_unless(fits, Some(address), status);
        let start =
            self.builder.ins().load(I64, field(), entry, layout::AREA_TABLE + MemoryArea::BASE as i32);
        Place(self.builder.ins().iadd(start, within), 0)
    }

    fn address(&mut self, base: Reg, offset: i16) -> Value {
        let base = self.get(base);
        self.builder.ins().iadd_imm(base, i64::from(offset))
    }
}
