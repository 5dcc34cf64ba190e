//! The basic blocks of a function and the ways between them.

use crate::insn::Insn;
use crate::program::{Function, Program};

/// A basic block: the slots from `first` to `last`, where the last instruction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// The slot behind it.
    pub(crate) after: u32,
}

/// The blocks that can be reached, those that come before others first, apart from ways back.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) blocks: Vec<Block>,
    /// Which block begins at a slot of the function, counted from its start.
    numbers: Vec<u32>,
    start: u32,
    /// Whether a way back leads to the block.
    pub(crate) is_head: Vec<bool>,
}

const NONE: u32 = u32::MAX;

impl Flow {
    pub(crate) fn new(program: &Program, function: &Function) -> Flow {
        let (start, end) = (function.start, function.end);
        let mut numbers = vec![NONE; (end - start) as usize];
        let mut blocks = Vec::new();
        // Depth first, without recursion: a block is put down when all that it leads to was.
        let mut seen = vec![false; (end - start) as usize];
        let mut path = vec![(block_at(program, start), 0)];
        seen[0] = true;
        while let Some((block, next)) = path.last_mut() {
            let successor = successors(program, block).nth(*next);
            *next += 1;
            match successor {
                Some(first) => {
                    if !std::mem::replace(&mut seen[(first - start) as usize], true) {
                        path.push((block_at(program, first), 0));
                    }
                }
                None => {
                    blocks.push(*block);
                    path.pop();
                }
            }
        }
        blocks.reverse();
        for (number, block) in blocks.iter().enumerate() {
            numbers[(block.first - start) as usize] = number as u32;
        }
        let mut flow = Flow { is_head: vec![false; blocks.len()], blocks, numbers, start };
        for number in 0..flow.blocks.len() {
            for first in successors(program, &flow.blocks[number]) {
                let target = flow.number_of(first);
                if target <= number {
                    flow.is_head[target] = true;
                }
            }
        }
        flow
    }

    /// The number of the block that begins at this slot, which can be reached.
    pub(crate) fn number_of(&self, first: u32) -> usize {
        self.numbers[(first - self.start) as usize] as usize
    }
}

fn block_at(program: &Program, first: u32) -> Block {
    let after = first + program.block_cost(first);
    let is_half = program.code()[after as usize - 1] == Insn::SecondHalf;
    Block { first, last: after - 1 - u32::from(is_half), after }
}

/// The first slots of the blocks that can follow: the next one before the one that is jumped to.
pub(crate) fn successors(program: &Program, block: &Block) -> impl Iterator<Item = u32> + use<> {
    let insn = program.code()[block.last as usize];
    let next = insn.falls_through().then_some(block.after);
    next.into_iter().chain(insn.jump_target())
}
