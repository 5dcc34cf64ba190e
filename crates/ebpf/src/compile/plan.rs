//! What is to be compiled, and what may be taken for granted in it.

use std::ops::Range;

use crate::analysis::{Analysis, Reach};
use crate::memory::FRAME_LEN;
use crate::program::{Function, Program};

/// A function to be compiled: for one depth, or for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Body {
    /// Its place in the program's list.
    pub(super) function: usize,
    /// How many frames lie below its own, if that is always the same.
    pub(super) depth: Option<u32>,
}

/// Everything that is compiled together.
pub(super) struct Plan<'a> {
    pub(super) program: &'a Program,
    pub(super) bodies: Vec<Body>,
    analysis: Option<&'a Analysis>,
}

impl<'a> Plan<'a> {
    /// Nothing is taken for granted: one body per function.
    pub(super) fn checked(program: &'a Program) -> Plan<'a> {
        let functions = 0..program.functions().len();
        let bodies = functions.map(|function| Body { function, depth: None }).collect();
        Plan { program, bodies, analysis: None }
    }

    /// What was proven is taken for granted: one body per function and depth that can be reached.
    pub(super) fn proven(program: &'a Program, analysis: &'a Analysis) -> Plan<'a> {
        let bodies = analysis.bodies().map(|(function, depth)| Body { function, depth: Some(depth) });
        Plan { program, bodies: bodies.collect(), analysis: Some(analysis) }
    }

    /// The function that a body is made of.
    pub(super) fn source(&self, body: usize) -> &'a Function {
        &self.program.functions()[self.bodies[body].function]
    }

    /// Whether anything is taken for granted.
    pub(super) fn is_proven(&self) -> bool {
        self.analysis.is_some()
    }

    /// The body that a call in `caller` of the function at `target` goes to, if there can be such a call.
    pub(super) fn callee(&self, caller: usize, target: u32) -> Option<usize> {
        let function = self.program.function_at(target)?.index();
        match (self.analysis, self.bodies[caller].depth) {
            (Some(analysis), Some(depth)) => analysis.body(function, depth + 1),
            _ => Some(function),
        }
    }

    /// What is known about the access at this slot.
    pub(super) fn reach(&self, body: usize, index: u32) -> Reach {
        self.analysis.map_or(Reach::Anywhere, |analysis| analysis.reach(body, index))
    }

    /// Which bytes of its stack frame have to be zeroed when a body is entered.
    pub(super) fn zeroed(&self, body: usize) -> Range<u32> {
        self.analysis.map_or(0..FRAME_LEN as u32, |analysis| analysis.zeroed(body))
    }

    /// Whether a program could see how much of the stack is accessible.
    pub(super) fn shows_frames(&self, body: usize) -> bool {
        self.analysis.is_none_or(|analysis| !analysis.is_quiet(body))
    }
}
