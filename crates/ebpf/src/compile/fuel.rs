//! Where compiled code looks at its fuel.
//!
//! Every basic block has to be paid when it is entered. But where there is enough for everything that can follow
//! until the next milestone, the code need not look on the way. So every function is there twice: code that looks only
//! at milestones, and code that looks at every block, which goes on from a milestone where fuel is short.

use crate::analysis::{Flow, successors};
use crate::insn::Insn;
use crate::program::Program;

/// For every block that is a milestone: how much fuel is enough to reach the next ones.
fn milestones(program: &Program, flow: &Flow) -> Vec<Option<u64>> {
    let mut is_milestone = flow.is_head.clone();
    is_milestone[0] = true;
    for block in &flow.blocks {
        if matches!(program.code()[block.last as usize], Insn::CallLocal { .. } | Insn::CallHelper { .. }) {
            is_milestone[flow.number_of(block.after)] = true;
        }
    }
    // Blocks that are no milestones come behind all that lead to them.
    let mut ahead = vec![0; flow.blocks.len()];
    for (number, block) in flow.blocks.iter().enumerate().rev() {
        let next = successors(program, block).map(|first| flow.number_of(first));
        let most = next.map(|next| if is_milestone[next] { 0 } else { ahead[next] }).max();
        ahead[number] = u64::from(block.after - block.first) + most.unwrap_or(0);
    }
    is_milestone.into_iter().zip(ahead).map(|(is, ahead)| is.then_some(ahead)).collect()
}

/// Longer functions look at every block, so that they need not be there twice.
const MAX_SLOTS_TWICE: usize = 1024;

/// Where a function of the proven code looks at its fuel, and how much it must have to be entered.
pub(super) struct Looks {
    /// By block; nothing if it looks at every block.
    pub(super) milestones: Option<Vec<Option<u64>>>,
    /// What the code that enters the function has to look for, because the function does not.
    pub(super) at_start: u64,
}

impl Looks {
    /// For a function at this depth. Those that runs start in are entered with enough.
    pub(super) fn new(program: &Program, flow: &Flow, depth: u32) -> Looks {
        if flow.blocks.iter().map(|block| (block.after - block.first) as usize).sum::<usize>()
            > MAX_SLOTS_TWICE
        {
            return Looks { milestones: None, at_start: 0 };
        }
        let mut milestones = milestones(program, flow);
        let enters_once = depth == 0 && !flow.is_head[0];
        let at_start = if enters_once { milestones[0].take() } else { None };
        Looks { milestones: Some(milestones), at_start: at_start.unwrap_or(0) }
    }
}
