//! The reference: one instruction after the other, as RFC 9669 tells it. What compiled code does is right if it
//! is the same.

mod arithmetic;

use std::sync::Arc;

use crate::executor::{Answered, Engine, Exit};
use crate::helper::HelperHost;
use crate::insn::{AtomicOp, Insn, Operand, Reg, Size, Width};
use crate::instance::{CallFrame, Instance};
use crate::memory::{CONTEXT, MAX_FRAMES, MemoryFault, frame_end};
use crate::program::{FunctionId, Program};
use crate::trap::{Trap, Why};

/// Runs a program instruction by instruction.
#[derive(Debug, Clone)]
pub struct Interpreter {
    program: Arc<Program>,
}

impl Interpreter {
    /// For this program.
    pub fn new(program: Arc<Program>) -> Interpreter {
        Interpreter { program }
    }
}

impl Engine for Interpreter {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn start(
        &self,
        instance: &mut Instance,
        function: FunctionId,
        host: &mut dyn HelperHost,
        fuel: u64,
    ) -> Exit {
        instance.begin(&self.program, function, fuel);
        instance.memory.push_frame(0);
        let mut registers = Registers::new(0);
        registers.set(Reg::R1, CONTEXT);
        registers.0[2] = instance.context().len() as u64;
        let start = self.program.function(function).start;
        Run { program: &self.program, instance, host, registers }.go(start)
    }

    fn resume(&self, instance: &mut Instance, host: &mut dyn HelperHost, value: u64) -> Exit {
        let depth = instance.depth as usize;
        let CallFrame { saved, index, .. } = instance.frames[depth];
        if let Err(why) = instance.end_suspension(&self.program, value) {
            return Exit::Trapped(Trap { index, why });
        }
        let mut registers = Registers::new(depth);
        registers.0[6..10].copy_from_slice(&saved);
        registers.set(Reg::R0, value);
        Run { program: &self.program, instance, host, registers }.go(index + 1)
    }
}

/// The registers, with room behind r10 so that every number of four bits is in bounds.
struct Registers([u64; 16]);

impl Registers {
    /// As a function at this depth finds them, without arguments.
    fn new(depth: usize) -> Registers {
        let mut registers = Registers([0; 16]);
        registers.set(Reg::R10, frame_end(depth));
        registers
    }

    #[inline(always)]
    fn get(&self, register: Reg) -> u64 {
        self.0[register.number() & 15]
    }

    #[inline(always)]
    fn set(&mut self, register: Reg, value: u64) {
        self.0[register.number() & 15] = value;
    }

    /// A second operand; constants are sign-extended.
    #[inline(always)]
    fn operand(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Reg(register) => self.get(register),
            Operand::Imm(imm) => i64::from(imm) as u64,
        }
    }

    fn saved(&self) -> [u64; 4] {
        [self.0[6], self.0[7], self.0[8], self.0[9]]
    }
}

/// A run between two calls of the executor.
struct Run<'a> {
    program: &'a Program,
    instance: &'a mut Instance,
    host: &'a mut dyn HelperHost,
    registers: Registers,
}

/// What is executed next.
enum Next {
    /// The block that begins at this slot.
    Block(u32),
    /// Nothing.
    Exit(Exit),
}

impl Run<'_> {
    /// Executes blocks, the first one at `index`, until the run ends or is suspended.
    fn go(mut self, mut index: u32) -> Exit {
        loop {
            let cost = self.program.block_cost(index);
            let Some(fuel) = self.instance.fuel.checked_sub(cost.into()) else {
                return Exit::Trapped(Trap { index, why: Why::OutOfFuel });
            };
            self.instance.fuel = fuel;
            let end = index + cost;
            match self.block(index, end) {
                Ok(Next::Block(next)) => index = next,
                Ok(Next::Exit(exit)) => return exit,
                Err(trap) => return Exit::Trapped(trap),
            }
        }
    }

    /// Executes the slots from `start` to before `end`, of which only the last one may go elsewhere.
    #[inline(always)]
    fn block(&mut self, start: u32, end: u32) -> Result<Next, Trap> {
        let slots = &self.program.code()[start as usize..end as usize];
        for (index, insn) in (start..end).zip(slots) {
            let outcome = match *insn {
                Insn::Jump { target, .. } => return Ok(Next::Block(target)),
                Insn::Branch { width, condition, left, right, target } => {
                    let (left, right) = (self.registers.get(left), self.registers.operand(right));
                    let taken = arithmetic::holds(width, condition, left, right);
                    return Ok(Next::Block(if taken { target } else { index + 1 }));
                }
                Insn::CallLocal { target } => return self.call_local(index, target),
                Insn::CallHelper { id } => return self.call_helper(index, id),
                Insn::Exit => return Ok(self.leave()),
                Insn::Load { size, signed, dst, base, offset } => self.load(size, signed, dst, base, offset),
                Insn::Store { size, base, offset, src } => self.store(size, base, offset, src),
                Insn::Atomic { width, op, fetch, base, offset, src } => {
                    let address = self.address(base, offset);
                    match width {
                        Width::W32 => self.atomic32(op, fetch, address, src),
                        Width::W64 => self.atomic64(op, fetch, address, src),
                    }
                }
                _ => {
                    self.compute(*insn);
                    Ok(())
                }
            };
            outcome.map_err(|fault| Trap { index, why: fault.into() })?;
        }
        Ok(Next::Block(end))
    }

    /// An instruction that neither goes elsewhere nor touches memory.
    #[inline(always)]
    fn compute(&mut self, insn: Insn) {
        let registers = &mut self.registers;
        match insn {
            Insn::Alu { width: Width::W64, op, dst, src } => {
                let value = arithmetic::alu64(op, registers.get(dst), registers.operand(src));
                registers.set(dst, value);
            }
            Insn::Alu { width: Width::W32, op, dst, src } => {
                let value = arithmetic::alu32(op, registers.get(dst) as u32, registers.operand(src) as u32);
                registers.set(dst, value.into());
            }
            Insn::Neg { width: Width::W64, dst } => registers.set(dst, registers.get(dst).wrapping_neg()),
            Insn::Neg { width: Width::W32, dst } => {
                registers.set(dst, (registers.get(dst) as u32).wrapping_neg().into());
            }
            Insn::MovSigned { width, from, dst, src } => {
                let value = arithmetic::extend_sign(from, registers.get(src));
                registers.set(dst, if width == Width::W32 { u64::from(value as u32) } else { value });
            }
            Insn::Swap { op, size, dst } => {
                registers.set(dst, arithmetic::swap(op, size, registers.get(dst)));
            }
            Insn::LoadImm { dst, value } => registers.set(dst, value),
            // The second slot of the instruction before it, whose work is done.
            Insn::SecondHalf => {}
            _ => unreachable!("executed by the caller"),
        }
    }

    #[inline(always)]
    fn address(&self, base: Reg, offset: i16) -> u64 {
        self.registers.get(base).wrapping_add_signed(offset.into())
    }

    #[inline(always)]
    fn load(
        &mut self,
        size: Size,
        signed: bool,
        dst: Reg,
        base: Reg,
        offset: i16,
    ) -> Result<(), MemoryFault> {
        let address = self.address(base, offset);
        let memory = &self.instance.memory;
        let value = match size {
            Size::Byte => u8::from_le_bytes(memory.load(address)?).into(),
            Size::Half => u16::from_le_bytes(memory.load(address)?).into(),
            Size::Word => u32::from_le_bytes(memory.load(address)?).into(),
            Size::Double => u64::from_le_bytes(memory.load(address)?),
        };
        self.registers.set(dst, if signed { arithmetic::extend_sign(size, value) } else { value });
        Ok(())
    }

    #[inline(always)]
    fn store(&mut self, size: Size, base: Reg, offset: i16, src: Operand) -> Result<(), MemoryFault> {
        let address = self.address(base, offset);
        let value = self.registers.operand(src);
        let memory = &mut self.instance.memory;
        match size {
            Size::Byte => memory.store(address, (value as u8).to_le_bytes()),
            Size::Half => memory.store(address, (value as u16).to_le_bytes()),
            Size::Word => memory.store(address, (value as u32).to_le_bytes()),
            Size::Double => memory.store(address, value.to_le_bytes()),
        }
    }

    fn atomic64(&mut self, op: AtomicOp, fetch: bool, address: u64, src: Reg) -> Result<(), MemoryFault> {
        let (operand, expected) = (self.registers.get(src), self.registers.get(Reg::R0));
        // Asked for before it is read, so that memory that can only be read is not even read.
        let place = self.instance.memory.write(address, 8)?;
        let old = u64::from_le_bytes(place.try_into().unwrap_or_default());
        let new = match op {
            AtomicOp::Add => old.wrapping_add(operand),
            AtomicOp::Or => old | operand,
            AtomicOp::And => old & operand,
            AtomicOp::Xor => old ^ operand,
            AtomicOp::Exchange => operand,
            AtomicOp::CompareExchange if old == expected => operand,
            AtomicOp::CompareExchange => old,
        };
        self.instance.memory.store(address, new.to_le_bytes())?;
        self.fetched(op, fetch, src, old);
        Ok(())
    }

    fn atomic32(&mut self, op: AtomicOp, fetch: bool, address: u64, src: Reg) -> Result<(), MemoryFault> {
        let (operand, expected) = (self.registers.get(src) as u32, self.registers.get(Reg::R0) as u32);
        let place = self.instance.memory.write(address, 4)?;
        let old = u32::from_le_bytes(place.try_into().unwrap_or_default());
        let new = match op {
            AtomicOp::Add => old.wrapping_add(operand),
            AtomicOp::Or => old | operand,
            AtomicOp::And => old & operand,
            AtomicOp::Xor => old ^ operand,
            AtomicOp::Exchange => operand,
            AtomicOp::CompareExchange if old == expected => operand,
            AtomicOp::CompareExchange => old,
        };
        self.instance.memory.store(address, new.to_le_bytes())?;
        self.fetched(op, fetch, src, old.into());
        Ok(())
    }

    fn fetched(&mut self, op: AtomicOp, fetch: bool, src: Reg, old: u64) {
        if op == AtomicOp::CompareExchange {
            self.registers.set(Reg::R0, old);
        } else if fetch {
            self.registers.set(src, old);
        }
    }

    /// The caller's registers are kept in its frame, the called function begins with zeros and its arguments.
    fn call_local(&mut self, index: u32, target: u32) -> Result<Next, Trap> {
        let depth = self.instance.depth as usize;
        if depth + 1 == MAX_FRAMES {
            return Err(Trap { index, why: Why::TooDeep });
        }
        self.instance.frames[depth] = CallFrame { saved: self.registers.saved(), index, unused: 0 };
        self.instance.depth += 1;
        self.instance.memory.push_frame(depth + 1);
        let mut registers = Registers::new(depth + 1);
        registers.0[1..6].copy_from_slice(&self.registers.0[1..6]);
        self.registers = registers;
        Ok(Next::Block(target))
    }

    fn leave(&mut self) -> Next {
        let value = self.registers.get(Reg::R0);
        let Some(caller) = self.instance.depth.checked_sub(1) else {
            return Next::Exit(Exit::Returned(value));
        };
        self.instance.depth = caller;
        self.instance.memory.set_frames(caller as usize + 1);
        let CallFrame { saved, index, .. } = self.instance.frames[caller as usize];
        self.registers = Registers::new(caller as usize);
        self.registers.0[6..10].copy_from_slice(&saved);
        self.registers.set(Reg::R0, value);
        Next::Block(index + 1)
    }

    fn call_helper(&mut self, index: u32, id: u32) -> Result<Next, Trap> {
        let arguments = std::array::from_fn(|argument| self.registers.0[argument + 1]);
        let helper = self.program.helpers().index_of(id);
        // Every helper that a program calls is in its table.
        let helper = helper.ok_or(Trap { index, why: Why::Undeclared })?;
        match self.instance.call_helper(self.program, self.host, helper, &arguments) {
            Ok(Answered::Value(value)) => {
                self.registers.0[1..6].fill(0);
                self.registers.set(Reg::R0, value);
                Ok(Next::Block(index + 1))
            }
            Ok(Answered::Pending) => {
                let depth = self.instance.depth as usize;
                self.instance.frames[depth] = CallFrame { saved: self.registers.saved(), index, unused: 0 };
                self.instance.suspend();
                Ok(Next::Exit(Exit::Suspended))
            }
            Err(why) => Err(Trap { index, why }),
        }
    }
}
