//! Finds out what is known everywhere: goes round loops and between functions until nothing changes any more.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::branch::{Branch, assume};
use super::effects::{Effects, call_helper};
use super::flow::Flow;
use super::state::State;
use super::transfer::{apply, compared, touch};
use super::value::Value;
use crate::insn::{Insn, Reg};
use crate::memory::{MAX_FRAMES, MemoryAccess};
use crate::program::Program;

/// How much is looked at before the analysis gives up: instructions, blocks that are prepared for a visit, and slots of
/// the stack that are compared where ways meet.
pub(super) const MAX_STEPS: u64 = 4_000_000;
/// How many slots all functions together may have, each counted once per depth at which it can be called.
const MAX_SLOTS: usize = 1 << 16;
/// From how many blocks on nothing is kept about the stack.
const MAX_BLOCKS_WITH_STACK: usize = 4096;
/// So often everything is looked at in full before bounds are widened.
const PATIENT_VISITS: u32 = 3;
/// So often bounds are widened step by step before what still changes is given up.
const STEPWISE_VISITS: u32 = 40;
/// How many numbers bounds are widened to on the way.
const MAX_THRESHOLDS: usize = 128;

/// A function at one depth.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) function: usize,
    pub(super) depth: u32,
    pub(super) flow: Rc<Flow>,
    /// What is known when it is entered.
    entry: State,
    entered: u32,
    /// What it returns, if it was seen to return.
    pub(super) result: Option<Value>,
    returned: u32,
    pub(super) effects: Effects,
    callers: BTreeSet<usize>,
    pub(super) callees: BTreeSet<usize>,
    /// What is known when its blocks are entered; nothing where they never are.
    pub(super) states: Vec<Option<State>>,
}

/// All functions that can be reached from entry points.
pub(super) struct Solver<'a> {
    program: &'a Program,
    pub(super) nodes: Vec<Node>,
    pub(super) places: HashMap<(usize, u32), usize>,
    flows: HashMap<usize, Rc<Flow>>,
    waiting: BTreeSet<usize>,
    pub(super) steps: u64,
    slots: usize,
}

/// There is too much to find out.
pub(super) struct TooMuch;

/// What changes a value so that it cannot change often.
fn combined(visits: u32, thresholds: &[u64]) -> impl Fn(Value, Value) -> Value {
    move |before, other| {
        let joined = before.join(other);
        if joined == before || visits <= PATIENT_VISITS {
            joined
        } else if visits <= STEPWISE_VISITS {
            before.widen(joined, thresholds)
        } else {
            Value::ANY
        }
    }
}

/// One function being looked at.
struct Visit {
    node: usize,
    states: Vec<Option<State>>,
    visits: Vec<u32>,
    waiting: BTreeSet<usize>,
    thresholds: Vec<u64>,
    /// Whether the branch of a block has given its thresholds. What it compares later has moved already.
    has_compared: Vec<bool>,
    effects: Effects,
    result: Option<Value>,
}

impl<'a> Solver<'a> {
    pub(super) fn solve(program: &'a Program) -> Result<Solver<'a>, TooMuch> {
        let mut solver = Solver {
            program,
            nodes: Vec::new(),
            places: HashMap::new(),
            flows: HashMap::new(),
            waiting: BTreeSet::new(),
            steps: 0,
            slots: 0,
        };
        for (number, function) in program.functions().iter().enumerate() {
            if function.is_entry {
                solver.node(number, 0, State::of_start())?;
            }
        }
        // Called functions have higher numbers than those that call them first, so the last ones are looked at before
        // their callers are looked at again.
        while let Some(node) = solver.waiting.pop_last() {
            solver.visit(node)?;
        }
        Ok(solver)
    }

    /// The node of a function at a depth, entered with this.
    fn node(&mut self, function: usize, depth: u32, entry: State) -> Result<usize, TooMuch> {
        if let Some(&number) = self.places.get(&(function, depth)) {
            let node = &mut self.nodes[number];
            let changed = node.entry.join(&entry, combined(node.entered, &[]));
            if changed {
                node.entered += 1;
                self.waiting.insert(number);
            }
            return Ok(number);
        }
        let source = &self.program.functions()[function];
        self.slots += (source.end - source.start) as usize;
        if self.slots > MAX_SLOTS {
            return Err(TooMuch);
        }
        let program = self.program;
        let flow = self.flows.entry(function).or_insert_with(|| Rc::new(Flow::new(program, source))).clone();
        let number = self.nodes.len();
        self.nodes.push(Node {
            function,
            depth,
            flow,
            entry,
            entered: 0,
            result: None,
            returned: 0,
            effects: Effects::default(),
            callers: BTreeSet::new(),
            callees: BTreeSet::new(),
            states: Vec::new(),
        });
        self.places.insert((function, depth), number);
        self.waiting.insert(number);
        Ok(number)
    }

    fn charge(&mut self, steps: usize) -> Result<(), TooMuch> {
        self.steps += steps as u64;
        if self.steps > MAX_STEPS { Err(TooMuch) } else { Ok(()) }
    }

    fn visit(&mut self, number: usize) -> Result<(), TooMuch> {
        let flow = self.nodes[number].flow.clone();
        let blocks = flow.blocks.len();
        self.charge(blocks)?;
        let mut visit = Visit {
            node: number,
            states: vec![None; blocks],
            visits: vec![0; blocks],
            waiting: BTreeSet::from([0]),
            thresholds: Vec::new(),
            has_compared: vec![false; blocks],
            effects: Effects::default(),
            result: None,
        };
        visit.states[0] = Some(self.nodes[number].entry.clone());
        while let Some(block) = visit.waiting.pop_first() {
            self.block(&mut visit, &flow, block)?;
        }
        let node = &mut self.nodes[number];
        node.states = visit.states;
        let result = match (node.result, visit.result) {
            (Some(before), Some(now)) => Some(combined(node.returned, &[])(before, now)),
            (before, now) => now.or(before),
        };
        if result != node.result || visit.effects != node.effects {
            node.returned += 1;
            (node.result, node.effects) = (result, visit.effects);
            self.waiting.extend(&node.callers);
        }
        Ok(())
    }

    fn block(&mut self, visit: &mut Visit, flow: &Flow, number: usize) -> Result<(), TooMuch> {
        let block = flow.blocks[number];
        let Some(mut state) = visit.states[number].clone() else { return Ok(()) };
        self.charge((block.after - block.first) as usize + state.slots.len())?;
        for insn in &self.program.code()[block.first as usize..=block.last as usize] {
            if let Some(touch) = touch(&state, insn)
                && touch.access == MemoryAccess::Write
            {
                visit.effects.write(touch.range(), state.frame());
            }
            apply(&mut state, insn);
        }
        match self.program.code()[block.last as usize] {
            Insn::Jump { target, .. } => visit.flow_to(flow, number, target, state),
            Insn::Branch { width, condition, left, right, target } => {
                if !std::mem::replace(&mut visit.has_compared[number], true)
                    && let Some((a, b)) = compared(&state, width, left, right)
                {
                    visit.compare(a);
                    visit.compare(b);
                }
                let branch = Branch { width, condition, left, right };
                for (holds, next) in [(true, target), (false, block.after)] {
                    if let Some(state) = assume(&state, branch, holds) {
                        visit.flow_to(flow, number, next, state);
                    }
                }
            }
            Insn::CallLocal { target } => {
                if self.call_local(visit, &mut state, target)? {
                    visit.flow_to(flow, number, block.after, state);
                }
            }
            Insn::CallHelper { id } => {
                // Every helper that a program calls is in its table.
                let Some(helper) = self.program.helpers().get(id) else { return Ok(()) };
                call_helper(&mut state, helper, &mut visit.effects);
                visit.flow_to(flow, number, block.after, state);
            }
            Insn::Exit => {
                let value = state.get(Reg::R0);
                visit.result = Some(visit.result.map_or(value, |before| before.join(value)));
            }
            _ => visit.flow_to(flow, number, block.after, state),
        }
        Ok(())
    }

    /// Says whether the function returns, as far as is known, and what is known then.
    fn call_local(&mut self, visit: &mut Visit, state: &mut State, target: u32) -> Result<bool, TooMuch> {
        let depth = self.nodes[visit.node].depth + 1;
        if depth as usize >= MAX_FRAMES {
            return Ok(false);
        }
        let Some(function) = self.program.function_at(target) else { return Ok(false) };
        let mut entry = State::of_call(depth);
        entry.registers[1..6].copy_from_slice(&state.registers[1..6]);
        entry.context = state.context;
        let callee = self.node(function.index(), depth, entry)?;
        self.nodes[visit.node].callees.insert(callee);
        // The caller cannot go on without a result, and would be looked at from its beginning for every function that it
        // calls. Functions that are called are deeper, so that this ends.
        if self.nodes[callee].result.is_none() && self.waiting.remove(&callee) {
            self.visit(callee)?;
        }
        let callee = &mut self.nodes[callee];
        callee.callers.insert(visit.node);
        let Some(result) = callee.result else { return Ok(false) };
        visit.effects.include(&callee.effects, state.frame());
        callee.effects.apply(state);
        state.after_call(result);
        Ok(true)
    }
}

impl Visit {
    /// A number that others are compared with is one that bounds may stop at.
    fn compare(&mut self, value: Value) {
        for number in [value.least(), value.greatest()] {
            for threshold in [number.wrapping_sub(1), number, number.wrapping_add(1)] {
                if let Err(place) = self.thresholds.binary_search(&threshold)
                    && self.thresholds.len() < MAX_THRESHOLDS
                {
                    self.thresholds.insert(place, threshold);
                }
            }
        }
    }

    fn flow_to(&mut self, flow: &Flow, from: usize, first: u32, mut state: State) {
        let to = flow.number_of(first);
        if flow.blocks.len() > MAX_BLOCKS_WITH_STACK {
            state.slots.clear();
        }
        let Some(known) = &mut self.states[to] else {
            self.states[to] = Some(state);
            self.waiting.insert(to);
            return;
        };
        let is_way_back = to <= from;
        self.visits[to] += u32::from(is_way_back);
        let visits = if is_way_back { self.visits[to] } else { 0 };
        if known.join(&state, combined(visits, &self.thresholds)) {
            self.waiting.insert(to);
        }
    }
}
