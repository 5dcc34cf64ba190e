//! How often loops go round, and how much fuel a function can use.
//!
//! A loop is bounded if some register goes up, or down, by the same amount in every round, and is known to stay
//! between two numbers where the round begins.

use std::collections::HashMap;

use super::flow::{Flow, successors};
use super::solve::{Node, Solver};
use super::state::State;
use crate::insn::{AluOp, Insn, Operand, Reg, Width};
use crate::program::Program;

/// A loop, and how often it is entered again at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    /// The slot at which every round begins.
    pub start: u32,
    /// How many rounds there are at most each time the loop is come to, if that is known.
    pub rounds: Option<u64>,
}

/// A loop with the blocks in it.
struct Body {
    head: usize,
    blocks: Vec<bool>,
    rounds: Option<u64>,
}

/// Looks at more loops than this in no function.
const MAX_LOOPS: usize = 256;
/// How many blocks are looked at, for every loop once, in all functions of a program. Beyond that nothing is known.
pub(super) const MAX_STEPS: u64 = 1 << 18;

/// The loops of a function, and the fuel that it uses at most, without what it calls; nothing is known of functions
/// with very many loops.
pub(super) fn examine(program: &Program, node: &Node, steps: &mut u64) -> (Vec<Loop>, Option<Vec<u64>>) {
    let flow = &node.flow;
    let heads: Vec<usize> = (0..flow.blocks.len()).filter(|block| flow.is_head[*block]).collect();
    *steps += (flow.blocks.len() * heads.len()) as u64;
    if heads.len() > MAX_LOOPS || *steps > MAX_STEPS {
        let loops = heads.iter().map(|head| Loop { start: flow.blocks[*head].first, rounds: None });
        return (loops.collect(), None);
    }
    let before = predecessors(program, flow);
    let mut bodies = Vec::new();
    for head in heads {
        let Some(blocks) = natural_loop(&before, head) else {
            bodies.push(Body { head, blocks: Vec::new(), rounds: None });
            continue;
        };
        let state = node.states[head].as_ref();
        let rounds = state.map_or(Some(0), |state| rounds(program, flow, &before, (head, &blocks), state));
        bodies.push(Body { head, blocks, rounds });
    }
    let times = times(flow, &bodies);
    let loops = bodies.iter().map(|body| Loop { start: flow.blocks[body.head].first, rounds: body.rounds });
    (loops.collect(), times)
}

fn predecessors(program: &Program, flow: &Flow) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); flow.blocks.len()];
    for (number, block) in flow.blocks.iter().enumerate() {
        for first in successors(program, block) {
            before[flow.number_of(first)].push(number);
        }
    }
    before
}

/// All blocks on ways back to `head`, unless one of them can be reached past it.
fn natural_loop(before: &[Vec<usize>], head: usize) -> Option<Vec<bool>> {
    let mut within = vec![false; before.len()];
    within[head] = true;
    let mut waiting: Vec<usize> = before[head].iter().copied().filter(|from| *from >= head).collect();
    while let Some(block) = waiting.pop() {
        // Blocks before the head come to the loop without it.
        if block < head {
            return None;
        }
        if !std::mem::replace(&mut within[block], true) {
            waiting.extend(&before[block]);
        }
    }
    Some(within)
}

/// How often a block is executed at most: once for every round of all loops that it is in.
fn times(flow: &Flow, bodies: &[Body]) -> Option<Vec<u64>> {
    let mut times = vec![1u64; flow.blocks.len()];
    for body in bodies {
        let rounds = body.rounds?;
        for (times, _) in times.iter_mut().zip(&body.blocks).filter(|(_, within)| **within) {
            *times = times.saturating_mul(rounds);
        }
    }
    Some(times)
}

/// How often a loop goes round at most.
fn rounds(
    program: &Program,
    flow: &Flow,
    before: &[Vec<usize>],
    (head, within): (usize, &[bool]),
    state: &State,
) -> Option<u64> {
    let blocks = || flow.blocks.iter().enumerate().filter(|(number, _)| within[*number]);
    let mut steps: HashMap<usize, Option<(usize, u64)>> = HashMap::new();
    for (number, block) in blocks() {
        for insn in &program.code()[block.first as usize..=block.last as usize] {
            if matches!(insn, Insn::CallLocal { .. } | Insn::CallHelper { .. }) {
                steps.extend((0..6).map(|register| (register, None)));
            }
            let Some(register) = insn.written() else { continue };
            let step = step(insn).map(|step| (number, step));
            // Changed twice, nothing is said about it.
            steps.entry(register.number()).and_modify(|known| *known = None).or_insert(step);
        }
    }
    let candidates = steps.into_iter().filter_map(|(register, step)| Some((register, step?)));
    let bounded = candidates.filter(|(_, (block, _))| is_on_every_way(before, head, within, *block));
    let rounds = bounded.filter_map(|(register, (_, step))| {
        let value = state.get(Reg::new(register as u8)?);
        let distance = value.greatest() - value.least();
        let size = step.min(step.wrapping_neg());
        // One that can go all the way round may meet the same number again.
        (distance < u64::MAX - size).then(|| distance / size + 1)
    });
    rounds.min()
}

/// What an instruction adds to the register that it writes, and nothing else.
fn step(insn: &Insn) -> Option<u64> {
    match *insn {
        Insn::Alu { width: Width::W64, op: AluOp::Add, src: Operand::Imm(imm), .. } if imm != 0 => {
            Some(i64::from(imm) as u64)
        }
        Insn::Alu { width: Width::W64, op: AluOp::Sub, src: Operand::Imm(imm), .. } if imm != 0 => {
            Some(i64::from(imm).wrapping_neg() as u64)
        }
        _ => None,
    }
}

/// Whether every round comes through this block exactly once.
fn is_on_every_way(before: &[Vec<usize>], head: usize, within: &[bool], block: usize) -> bool {
    let past = |from: usize, avoid: usize, wanted: usize| {
        let mut seen = vec![false; before.len()];
        let mut waiting: Vec<usize> = before[from].iter().copied().filter(|from| within[*from]).collect();
        while let Some(from) = waiting.pop() {
            if from == wanted {
                return true;
            }
            if from != avoid && !std::mem::replace(&mut seen[from], true) {
                waiting.extend(before[from].iter().filter(|from| within[**from]));
            }
        }
        false
    };
    block == head || !past(head, block, head) && !past(block, head, block)
}

/// The fuel that every node of a program uses at most, with what it calls.
pub(super) fn fuel_bounds(
    program: &Program,
    solver: &Solver<'_>,
    times: &[Option<Vec<u64>>],
) -> Vec<Option<u64>> {
    let mut bounds = vec![None; solver.nodes.len()];
    // Who is called is deeper, so that the deepest come first.
    let mut order: Vec<usize> = (0..solver.nodes.len()).collect();
    order.sort_by_key(|number| std::cmp::Reverse(solver.nodes[*number].depth));
    for number in order {
        let node = &solver.nodes[number];
        bounds[number] =
            times[number].as_ref().and_then(|times| bound(program, solver, node, times, &bounds));
    }
    bounds
}

fn bound(
    program: &Program,
    solver: &Solver<'_>,
    node: &Node,
    times: &[u64],
    bounds: &[Option<u64>],
) -> Option<u64> {
    let flow = &node.flow;
    let cost = |number: usize| -> Option<u64> {
        let block = &flow.blocks[number];
        let mut cost = u64::from(block.after - block.first);
        if let Insn::CallLocal { target } = program.code()[block.last as usize]
            && node.states[number].is_some()
        {
            let function = program.function_at(target)?.index();
            // At the greatest depth the call ends the run.
            let callee = solver.places.get(&(function, node.depth + 1));
            cost = cost.saturating_add(callee.map_or(Some(0), |callee| bounds[*callee])?);
        }
        Some(cost.saturating_mul(times[number]))
    };
    if flow.is_head.contains(&true) {
        return (0..flow.blocks.len()).try_fold(0u64, |sum, number| Some(sum.saturating_add(cost(number)?)));
    }
    // Without loops only one way is taken.
    let mut ahead = vec![0u64; flow.blocks.len()];
    for number in (0..flow.blocks.len()).rev() {
        let next = successors(program, &flow.blocks[number]).map(|first| ahead[flow.number_of(first)]);
        ahead[number] = cost(number)?.saturating_add(next.max().unwrap_or(0));
    }
    ahead.first().copied()
}
