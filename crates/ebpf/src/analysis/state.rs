//! What is known at one point of a function.

use std::ops::Range;

use super::value::{Meaning, Value};
use crate::insn::{Operand, Reg};
use crate::memory::{CONTEXT, FIRST_GRANT_AREA, FRAME_LEN, ProgramLimits, frame_end};

/// How many bytes a slot of the stack has of which something can be known.
pub(crate) const SLOT: u64 = 8;

/// Registers and the function's own stack frame, whenever a run is at this point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) registers: [Value; Reg::COUNT],
    /// Slots of the own frame that were written since the function was entered, by number from the frame's lowest
    /// byte, in order.
    pub(crate) slots: Vec<(u16, Value)>,
    /// The context has at least so many bytes.
    pub(crate) context: u32,
}

impl State {
    /// As a run starts.
    pub(crate) fn of_start() -> State {
        let mut state = State::of_call(0);
        state.registers[1] = Value::constant(CONTEXT);
        state.registers[2] =
            Value { meaning: Meaning::ContextLength, ..Value::between(0, ProgramLimits::LONGEST as u64) };
        state
    }

    /// As a function is called, with zeros for arguments.
    pub(crate) fn of_call(depth: u32) -> State {
        let mut registers = [Value::constant(0); Reg::COUNT];
        registers[Reg::R10.number()] = Value::constant(frame_end(depth as usize));
        State { registers, slots: Vec::new(), context: 0 }
    }

    pub(crate) fn get(&self, register: Reg) -> Value {
        self.registers[register.number()]
    }

    pub(crate) fn set(&mut self, register: Reg, value: Value) {
        self.registers[register.number()] = value;
    }

    pub(crate) fn operand(&self, operand: Operand) -> Value {
        match operand {
            Operand::Reg(register) => self.get(register),
            Operand::Imm(imm) => Value::constant(i64::from(imm) as u64),
        }
    }

    /// The lowest address of the own frame.
    pub(crate) fn frame(&self) -> u64 {
        self.get(Reg::R10).low - FRAME_LEN as u64
    }

    /// What is in the eight bytes at this address, if they were written whole since the function was entered.
    pub(crate) fn slot_at(&self, address: u64) -> Option<Value> {
        let offset = address.checked_sub(self.frame())?;
        if offset % SLOT != 0 || offset >= FRAME_LEN as u64 {
            return None;
        }
        let found = self.slots.binary_search_by_key(&((offset / SLOT) as u16), |slot| slot.0).ok()?;
        Some(self.slots[found].1)
    }

    /// Eight bytes at this address are written.
    pub(crate) fn set_slot(&mut self, address: u64, value: Value) {
        let Some(offset) = address.checked_sub(self.frame()) else { return };
        if offset % SLOT != 0 || offset >= FRAME_LEN as u64 {
            return;
        }
        let number = (offset / SLOT) as u16;
        match self.slots.binary_search_by_key(&number, |slot| slot.0) {
            Ok(found) => self.slots[found].1 = value,
            Err(place) => self.slots.insert(place, (number, value)),
        }
    }

    /// Something in these addresses is written, and the analysis does not know what.
    pub(crate) fn forget(&mut self, addresses: Range<u64>) {
        let frame = self.frame();
        for (number, value) in &mut self.slots {
            let start = frame + u64::from(*number) * SLOT;
            if start < addresses.end && addresses.start < start + SLOT {
                *value = Value::ANY;
            }
        }
    }

    /// The buffers in these slots, one bit each, are granted anew.
    pub(crate) fn forget_grants(&mut self, slots: u16) {
        for value in self.registers.iter_mut().chain(self.slots.iter_mut().map(|slot| &mut slot.1)) {
            let slot = value.area().and_then(|area| area.checked_sub(FIRST_GRANT_AREA));
            if slot.is_some_and(|slot| slots & 1 << slot != 0) {
                value.granted = 0;
            }
        }
    }

    /// The registers as a call leaves them.
    pub(crate) fn after_call(&mut self, result: Value) {
        self.registers[1..6].fill(Value::constant(0));
        self.set(Reg::R0, result);
    }

    /// Takes in what is known on another way to the same point. Says whether less is known than before.
    pub(crate) fn join(&mut self, other: &State, combine: impl Fn(Value, Value) -> Value) -> bool {
        let mut changed = false;
        for (mine, theirs) in self.registers.iter_mut().zip(other.registers) {
            let joined = combine(*mine, theirs);
            changed |= joined != *mine;
            *mine = joined;
        }
        let before = self.slots.len();
        self.slots.retain_mut(|(number, mine)| {
            let Ok(found) = other.slots.binary_search_by_key(number, |slot| slot.0) else { return false };
            let joined = combine(*mine, other.slots[found].1);
            changed |= joined != *mine;
            *mine = joined;
            true
        });
        let context = self.context.min(other.context);
        changed |= self.slots.len() != before || context != self.context;
        self.context = context;
        changed
    }
}
