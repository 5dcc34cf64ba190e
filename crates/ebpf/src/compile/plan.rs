//! What is to be compiled, and what may be taken for granted in it.

use std::ops::Range;

use crate::memory::FRAME_LEN;
use crate::program::Program;

/// What is known about the address of a load, store or atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nothing.
    Anywhere,
    /// It lies in this area, but perhaps behind the end of it.
    Area(usize),
    /// It is allowed. The offset is given if it is always the same.
    Proven {
        /// In which area.
        area: usize,
        /// How far from its beginning.
        offset: Option<u32>,
    },
}

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
}

impl<'a> Plan<'a> {
    /// Nothing is taken for granted: one body per function.
    pub(super) fn checked(program: &'a Program) -> Plan<'a> {
        let functions = 0..program.functions().len();
        Plan { program, bodies: functions.map(|function| Body { function, depth: None }).collect() }
    }

    /// The body that a call in `caller` of the function at `target` goes to.
    pub(super) fn callee(&self, caller: Body, target: u32) -> Option<usize> {
        let function = self.program.function_at(target)?.index();
        let depth = caller.depth.map(|depth| depth + 1);
        self.bodies.iter().position(|body| *body == Body { function, depth })
    }

    /// What is known about the access at this slot.
    pub(super) fn reach(&self, _body: Body, _index: u32) -> Reach {
        Reach::Anywhere
    }

    /// Which bytes of its stack frame have to be zeroed when a body is entered.
    pub(super) fn zeroed(&self, _body: Body) -> Range<u32> {
        0..FRAME_LEN as u32
    }

    /// Whether anybody could see how much of the stack is accessible.
    pub(super) fn shows_frames(&self) -> bool {
        true
    }
}
