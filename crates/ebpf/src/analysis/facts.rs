//! What was found out about one function, in the form in which it is used.

use std::ops::Range;

use super::effects::{Effects, call_helper};
use super::may_suspend;
use super::solve::{Node, Solver};
use super::state::{SLOT, State};
use super::transfer::{Touch, apply, touch};
use super::value::{Meaning, Value};
use crate::helper::ARGUMENTS;
use crate::insn::Insn;
use crate::instance::Instance;
use crate::memory::{
    AREA_SHIFT, CONTEXT, CONTEXT_AREA, DATA_AREA, FIRST_GRANT_AREA, FRAME_LEN, MemoryAccess, RODATA_AREA,
    STACK, STACK_AREA,
};
use crate::program::Program;

/// What is known about the address of a load, store or atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nothing.
    Anywhere,
    /// It is zero, or it lies in this area, but perhaps behind the end of it or where nothing can be written.
    Area(usize),
    /// It is allowed. The offset is given if it is always the same.
    Proven {
        /// In which area.
        area: usize,
        /// How far from its beginning.
        offset: Option<u32>,
    },
}

/// A proof may ask for a context that has at least so many bytes, for one offset or for a range of offsets.
const CONTEXT_AT_MOST: (u32, u32) = (4096, 512);

/// What is known of a run that is suspended in a call.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    /// Registers r1 to r5, as they were passed.
    arguments: [Value; ARGUMENTS],
    /// When the call has returned; nothing if it never does.
    behind: Option<State>,
}

/// What was found out about a function at one depth.
#[derive(Debug)]
pub(super) struct Facts {
    /// By slot, counted from the function's first: what is known of the access there.
    pub(super) reaches: Vec<Option<Reach>>,
    /// What the addresses of accesses can be, for people.
    pub(super) addresses: Vec<(u32, Value)>,
    /// The length of the context that is needed for what is proven here.
    pub(super) context_needed: u32,
    /// Whether everything is proven, and no helper is called.
    pub(super) is_quiet: bool,
    /// What is read of the stack before this function has written it, as offsets into the stack.
    pub(super) stack_read: Vec<Range<u32>>,
    /// What is known of runs that are suspended in calls.
    pub(super) waiting: Vec<(u32, Waiting)>,
}

impl Facts {
    pub(super) fn new(program: &Program, solver: &Solver<'_>, node: &Node, lengths: &Lengths) -> Facts {
        let source = &program.functions()[node.function];
        let mut facts = Facts {
            reaches: vec![None; (source.end - source.start) as usize],
            addresses: Vec::new(),
            context_needed: 0,
            is_quiet: true,
            stack_read: Vec::new(),
            waiting: Vec::new(),
        };
        let limits = Lengths { stack: (node.depth + 1) * FRAME_LEN as u32, ..*lengths };
        for (block, state) in node.flow.blocks.iter().zip(&node.states) {
            let Some(mut state) = state.clone() else { continue };
            for index in block.first..=block.last {
                let insn = &program.code()[index as usize];
                if let Some(touch) = touch(&state, insn) {
                    let reach = facts.access(&state, &touch, &limits);
                    facts.reaches[(index - source.start) as usize] = Some(reach);
                    facts.addresses.push((index, touch.address));
                }
                facts.call(program, solver, node, (index, insn), &state);
                apply(&mut state, insn);
            }
        }
        facts
    }

    fn access(&mut self, state: &State, touch: &Touch, lengths: &Lengths) -> Reach {
        let (reach, needed) = lengths.reach(state, touch);
        self.context_needed = self.context_needed.max(needed);
        match reach {
            Reach::Proven { area: STACK_AREA, .. } if touch.reads => {
                let written = touch.address.as_constant().and_then(|address| {
                    let offset = address % SLOT;
                    (offset + touch.size <= SLOT).then(|| state.slot_at(address - offset)).flatten()
                });
                if written.is_none() {
                    let range = touch.range();
                    self.stack_read.push((range.start - STACK) as u32..(range.end - STACK) as u32);
                }
            }
            Reach::Proven { .. } => {}
            Reach::Anywhere | Reach::Area(_) => self.is_quiet = false,
        }
        reach
    }

    fn call(&mut self, program: &Program, solver: &Solver<'_>, node: &Node, at: (u32, &Insn), state: &State) {
        let (index, insn) = at;
        if !matches!(insn, Insn::CallHelper { .. } | Insn::CallLocal { .. }) {
            return;
        }
        let arguments = std::array::from_fn(|number| state.registers[number + 1]);
        let mut behind = state.clone();
        let returns = match *insn {
            Insn::CallHelper { id } => {
                self.is_quiet = false;
                // Every helper that a program calls is in its table.
                let Some(helper) = program.helpers().get(id) else { return };
                call_helper(&mut behind, helper, &mut Effects::default());
                true
            }
            Insn::CallLocal { target } => {
                let function = program.function_at(target).map(|function| function.index());
                let callee = function.and_then(|function| solver.places.get(&(function, node.depth + 1)));
                let Some(callee) = callee.map(|callee| &solver.nodes[*callee]) else { return };
                callee.effects.apply(&mut behind);
                behind.after_call(callee.result.unwrap_or(Value::ANY));
                callee.result.is_some()
            }
            _ => return,
        };
        if may_suspend(program, insn) {
            self.waiting.push((index, Waiting { arguments, behind: returns.then_some(behind) }));
        }
    }
}

/// How long areas are at least.
pub(super) struct Lengths {
    stack: u32,
    rodata: u32,
    data: u32,
}

impl Lengths {
    /// As a run starts.
    pub(super) fn new(program: &Program) -> Lengths {
        // Runs that start in a function that may be suspended have no variables.
        let any_suspends = program.functions().iter().any(|function| function.may_suspend);
        Lengths {
            stack: FRAME_LEN as u32,
            rodata: program.rodata().len() as u32,
            data: if any_suspends { 0 } else { program.data().len() as u32 },
        }
    }

    /// What is known about an access, and how long the context must be for that.
    fn reach(&self, state: &State, touch: &Touch) -> (Reach, u32) {
        let Some(area) = touch.address.area() else { return (Reach::Anywhere, 0) };
        let mask = (1u64 << AREA_SHIFT) - 1;
        let end = (touch.address.high & mask) + touch.size;
        let constant = touch.address.as_constant().map(|address| (address & mask) as u32);
        let mut needed = 0;
        let length = match area {
            CONTEXT_AREA => {
                let limit = if constant.is_some() { CONTEXT_AT_MOST.0 } else { CONTEXT_AT_MOST.1 };
                if end > state.context.into() && end <= limit.into() {
                    needed = end as u32;
                }
                state.context.max(needed)
            }
            STACK_AREA => self.stack,
            RODATA_AREA if touch.access == MemoryAccess::Read => self.rodata,
            DATA_AREA => self.data,
            FIRST_GRANT_AREA.. => touch.address.granted,
            _ => 0,
        };
        if end <= length.into() && !touch.address.or_zero {
            (Reach::Proven { area, offset: constant }, needed)
        } else {
            (Reach::Area(area), 0)
        }
    }
}

/// Whether the frame of a suspended run is as expected.
pub(super) fn fits(expected: &Waiting, instance: &Instance, depth: usize) -> bool {
    let Waiting { arguments, behind } = expected;
    let is_innermost = depth == instance.depth as usize;
    // What was passed decides where a helper may write, and what it may answer.
    let passed = || {
        let numbers = arguments.iter().zip(instance.arguments);
        // By now the buffer that was passed may have been granted anew.
        numbers.into_iter().all(|(value, number)| is(&Value { granted: 0, ..*value }, number, instance))
    };
    if is_innermost && !passed() {
        return false;
    }
    // Who never goes on needs nothing.
    let Some(behind) = behind else { return true };
    if u64::from(behind.context) > instance.context().len() as u64 {
        return false;
    }
    let registers = behind.registers[6..10].iter().zip(instance.frames[depth].saved);
    let frame = instance.memory.frame(depth).as_chunks::<{ SLOT as usize }>().0;
    let slots =
        behind.slots.iter().map(|(slot, value)| (value, u64::from_le_bytes(frame[usize::from(*slot)])));
    registers.chain(slots).all(|(value, number)| is(value, number, instance))
}

/// Whether a number is one of those, and everything that is known of it holds.
fn is(value: &Value, number: u64, instance: &Instance) -> bool {
    let length = instance.context().len() as u64;
    let meant = match value.meaning {
        Meaning::Plain => true,
        Meaning::ContextLength => number == length,
        Meaning::ContextEnd => number == CONTEXT + length,
    };
    let slot = value.area().and_then(|area| area.checked_sub(FIRST_GRANT_AREA));
    let granted = match slot {
        Some(slot) if value.granted > 0 && number != 0 => {
            instance.memory.length_of_grant(slot) as u64 >= value.granted.into()
        }
        _ => true,
    };
    value.contains(number) && meant && granted
}
