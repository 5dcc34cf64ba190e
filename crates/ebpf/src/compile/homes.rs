//! Where registers are while code runs.

use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value};
use cranelift_frontend::{FunctionBuilder, Variable};

use super::layout;
use super::translate::{Depth, Translator, field};
use crate::insn::{Operand, Reg, Width};

/// All registers, and behind them the fuel, the instance, and the depth where it is not known beforehand.
const COUNT: usize = Reg::COUNT + 3;
const FUEL: usize = Reg::COUNT;
const INSTANCE: usize = FUEL + 1;
const DEPTH: usize = FUEL + 2;

/// Where registers are, and what else is needed all the time.
pub(super) enum Homes {
    /// Wherever Cranelift finds best.
    Anywhere([Variable; COUNT]),
    /// In the native stack frame. To find something better would take too long in long functions.
    Frame([StackSlot; COUNT]),
}

impl Homes {
    pub(super) fn new(builder: &mut FunctionBuilder<'_>, is_long: bool) -> Homes {
        if is_long {
            let slot = || StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3);
            Homes::Frame(std::array::from_fn(|_| builder.create_sized_stack_slot(slot())))
        } else {
            Homes::Anywhere(std::array::from_fn(|_| builder.declare_var(I64)))
        }
    }

    fn get(&self, builder: &mut FunctionBuilder<'_>, number: usize) -> Value {
        match self {
            Homes::Anywhere(variables) => builder.use_var(variables[number]),
            Homes::Frame(slots) => builder.ins().stack_load(I64, slots[number], 0),
        }
    }

    fn set(&self, builder: &mut FunctionBuilder<'_>, number: usize, value: Value) {
        match self {
            Homes::Anywhere(variables) => builder.def_var(variables[number], value),
            Homes::Frame(slots) => {
                builder.ins().stack_store(value, slots[number], 0);
            }
        }
    }
}

impl Translator<'_, '_> {
    /// The instance, the first parameter of every function.
    pub(super) fn instance(&mut self) -> Value {
        self.homes.get(&mut self.builder, INSTANCE)
    }

    /// Sets what stays the same from the beginning: the instance, and the depth if it has to be asked for.
    pub(super) fn set_instance(&mut self, instance: Value) {
        self.homes.set(&mut self.builder, INSTANCE, instance);
        if self.depth == Depth::Asked {
            let depth = self.builder.ins().uload32(field(), instance, layout::DEPTH);
            self.homes.set(&mut self.builder, DEPTH, depth);
        }
    }

    /// How many frames lie below, with 64 bits, where that was asked for.
    pub(super) fn asked_depth(&mut self) -> Value {
        self.homes.get(&mut self.builder, DEPTH)
    }

    /// The fuel that is left.
    pub(super) fn fuel(&mut self) -> Value {
        self.homes.get(&mut self.builder, FUEL)
    }

    /// Sets the fuel that is left.
    pub(super) fn set_fuel(&mut self, fuel: Value) {
        self.homes.set(&mut self.builder, FUEL, fuel);
    }

    /// A whole register.
    pub(super) fn get(&mut self, register: Reg) -> Value {
        self.homes.get(&mut self.builder, register.number())
    }

    /// Sets a whole register.
    pub(super) fn set(&mut self, register: Reg, value: Value) {
        self.homes.set(&mut self.builder, register.number(), value);
    }

    /// A register, or the lower half of it.
    pub(super) fn get_as(&mut self, width: Width, register: Reg) -> Value {
        let value = self.get(register);
        if width == Width::W32 { self.builder.ins().ireduce(I32, value) } else { value }
    }

    /// Sets a register; a value of 32 bits clears the upper half.
    pub(super) fn set_as(&mut self, width: Width, register: Reg, value: Value) {
        let value = if width == Width::W32 { self.builder.ins().uextend(I64, value) } else { value };
        self.set(register, value);
    }

    /// A second operand.
    pub(super) fn operand(&mut self, width: Width, operand: Operand) -> Value {
        match operand {
            Operand::Reg(register) => self.get_as(width, register),
            Operand::Imm(imm) => self.constant(width, imm.into()),
        }
    }

    /// A constant, as wide as the operation.
    pub(super) fn constant(&mut self, width: Width, value: i64) -> Value {
        match width {
            Width::W32 => self.builder.ins().iconst(I32, i64::from(value as u32)),
            Width::W64 => self.builder.ins().iconst(I64, value),
        }
    }
}
