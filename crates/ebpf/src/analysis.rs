//! What can be known about a program before it runs: which accesses are always allowed, and which have to be
//! checked whenever they happen.
//!
//! Every function is looked at once per depth at which it can be called, because there addresses of the stack are
//! plain numbers. What is found holds in every state that a run can reach by itself.

mod branch;
mod effects;
mod facts;
pub(crate) mod flow;
mod loops;
mod report;
mod solve;
mod state;
#[cfg(test)]
mod tests;
mod transfer;
mod value;

use std::collections::HashMap;
use std::ops::Range;

use crate::insn::Insn;
use crate::instance::Instance;
use crate::memory::{FRAME_LEN, MAX_FRAMES};
use crate::program::{FunctionId, Program};
pub use facts::Reach;
use facts::{Facts, Lengths, Waiting, fits};
pub(crate) use flow::{Flow, successors};
pub use loops::Loop;
pub use report::AccessFinding;
use solve::Solver;

/// What is known about a program.
#[derive(Debug)]
pub struct Analysis {
    bodies: Vec<Body>,
    places: HashMap<(usize, u32), usize>,
    steps: u64,
    complete: bool,
}

/// What is known about a function at one depth.
#[derive(Debug)]
struct Body {
    function: usize,
    depth: u32,
    start: u32,
    facts: Facts,
    callees: Vec<usize>,
    loops: Vec<Loop>,
    fuel: Option<u64>,
    /// What the context must have for the proofs in it, and in all that it calls, to hold.
    context_needed: u32,
    /// Whether nothing but proven accesses can see the stack, wherever the run started.
    is_quiet: bool,
    /// The bytes of its frame that may be read before they are written, if it is quiet.
    zeroed: Range<u32>,
}

impl Analysis {
    /// How much is looked at before nothing is known: instructions, blocks and slots of the stack, as often as each is
    /// looked at.
    pub const MAX_STEPS: u64 = solve::MAX_STEPS + loops::MAX_STEPS;

    /// Looks at a program. This takes a moment, but not longer, whatever the program is; where there is too much
    /// to find out, nothing is known.
    pub fn new(program: &Program) -> Analysis {
        let Ok(solver) = Solver::solve(program) else {
            return Analysis {
                bodies: Vec::new(),
                places: HashMap::new(),
                steps: solve::MAX_STEPS,
                complete: false,
            };
        };
        let mut bodies = Vec::with_capacity(solver.nodes.len());
        let (mut looked, lengths) = (0, Lengths::new(program));
        let (loops, times): (Vec<_>, Vec<_>) =
            solver.nodes.iter().map(|node| loops::examine(program, node, &mut looked)).unzip();
        let fuel = loops::fuel_bounds(program, &solver, &times);
        for ((node, loops), fuel) in solver.nodes.iter().zip(loops).zip(fuel) {
            bodies.push(Body {
                function: node.function,
                depth: node.depth,
                start: program.functions()[node.function].start,
                facts: Facts::new(program, &solver, node, &lengths),
                callees: node.callees.iter().copied().collect(),
                loops,
                fuel,
                context_needed: 0,
                is_quiet: true,
                zeroed: 0..0,
            });
        }
        let steps = solver.steps + looked.min(loops::MAX_STEPS);
        let mut analysis = Analysis { bodies, places: solver.places, steps, complete: true };
        analysis.look_through_calls();
        analysis.find_zeroed();
        analysis
    }

    /// How much was looked at: no more than [`MAX_STEPS`](Self::MAX_STEPS), whatever the program is.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether the program was not too much to look at.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// What holds for a body holds only if it holds for all that it calls.
    fn look_through_calls(&mut self) {
        // Bodies that are called are deeper than those that call them.
        let mut order: Vec<usize> = (0..self.bodies.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(self.bodies[*number].depth));
        for number in &order {
            let body = &self.bodies[*number];
            let (mut needed, mut is_quiet) = (body.facts.context_needed, body.facts.is_quiet);
            for callee in &body.callees {
                needed = needed.max(self.bodies[*callee].context_needed);
                is_quiet &= self.bodies[*callee].is_quiet;
            }
            let body = &mut self.bodies[*number];
            (body.context_needed, body.is_quiet) = (needed, is_quiet);
        }
        // Where a run starts in something that is not quiet, nothing of the run is.
        let mut waiting = Vec::new();
        for (number, body) in self.bodies.iter_mut().enumerate() {
            if body.depth == 0 && !body.is_quiet {
                waiting.push(number);
            } else {
                body.is_quiet = true;
            }
        }
        while let Some(number) = waiting.pop() {
            for callee in self.bodies[number].callees.clone() {
                if std::mem::replace(&mut self.bodies[callee].is_quiet, false) {
                    waiting.push(callee);
                }
            }
        }
    }

    /// Functions may also read frames of those that called them, so this is found out per depth.
    fn find_zeroed(&mut self) {
        let mut read = vec![0..0u32; MAX_FRAMES];
        for (depth, read) in read.iter_mut().enumerate() {
            let frame = (depth * FRAME_LEN) as u32..((depth + 1) * FRAME_LEN) as u32;
            for stack in self.bodies.iter().flat_map(|body| &body.facts.stack_read) {
                let (start, end) = (stack.start.max(frame.start), stack.end.min(frame.end));
                if start < end {
                    let (start, end) = (start - frame.start, end - frame.start);
                    *read = if read.start == read.end {
                        start..end
                    } else {
                        read.start.min(start)..read.end.max(end)
                    };
                }
            }
        }
        for body in &mut self.bodies {
            body.zeroed = if body.is_quiet { read[body.depth as usize].clone() } else { 0..FRAME_LEN as u32 };
        }
    }

    /// The functions that were looked at, each with its depth.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = (usize, u32)> {
        self.bodies.iter().map(|body| (body.function, body.depth))
    }

    /// The number of a function at a depth, if it can be called there.
    pub(crate) fn body(&self, function: usize, depth: u32) -> Option<usize> {
        self.places.get(&(function, depth)).copied()
    }

    /// What is known about the access at this slot in a body.
    pub(crate) fn reach(&self, body: usize, index: u32) -> Reach {
        let body = &self.bodies[body];
        body.facts.reaches[(index - body.start) as usize].unwrap_or(Reach::Anywhere)
    }

    /// Which bytes of its stack frame have to be zeroed when a body is entered.
    pub(crate) fn zeroed(&self, body: usize) -> Range<u32> {
        self.bodies[body].zeroed.clone()
    }

    /// Whether nothing but proven accesses can see the stack while a body runs.
    pub(crate) fn is_quiet(&self, body: usize) -> bool {
        self.bodies[body].is_quiet
    }

    /// How long the context must be for everything to hold that is known about a body, and what it calls.
    pub(crate) fn context_needed(&self, body: usize) -> u32 {
        self.bodies[body].context_needed
    }

    /// What has to hold where a run may be suspended.
    pub(crate) fn expectations(&self) -> Expectations {
        let mut found = HashMap::new();
        for body in &self.bodies {
            for (index, waiting) in &body.facts.waiting {
                found.insert((*index, body.depth), waiting.clone());
            }
        }
        Expectations(found)
    }

    /// What is known about a function that can be started from outside: how long its context should be.
    pub fn context_of(&self, function: FunctionId) -> Option<u32> {
        self.body(function.index(), 0).map(|body| self.context_needed(body))
    }
}

/// What is known where a run can be suspended: by the slot of the call, and the depth.
#[derive(Debug, Default)]
pub(crate) struct Expectations(HashMap<(u32, u32), Waiting>);

impl Expectations {
    /// Whether a suspended run, of any origin, is in a state that a run can reach by itself as far as it matters
    /// for what was proven.
    pub(crate) fn are_met_by(&self, instance: &Instance) -> bool {
        (0..=instance.depth).all(|depth| {
            let frame = &instance.frames[depth as usize];
            let expected = self.0.get(&(frame.index, depth));
            expected.is_some_and(|waiting| fits(waiting, instance, depth as usize))
        })
    }
}

/// Whether a run can be suspended in this call.
pub(crate) fn may_suspend(program: &Program, insn: &Insn) -> bool {
    match *insn {
        Insn::CallHelper { id } => program.helpers().get(id).is_some_and(|helper| helper.may_suspend),
        Insn::CallLocal { target } => {
            program.function_at(target).is_some_and(|called| program.function(called).may_suspend)
        }
        _ => false,
    }
}
