//! One run of a function: its memory and what is kept while it is suspended. Made once and used for one run
//! after the other, so that a run allocates nothing.

use std::sync::Arc;

use crate::compile::Native;
use crate::executor::{Answered, Pending};
use crate::helper::{ARGUMENTS, HelperAnswer, HelperHost, HelperMemory};
use crate::memory::{MAX_FRAMES, ProgramLimits, ProgramMemory};
use crate::program::{FunctionId, Program};
use crate::trap::Why;

/// What is kept of a function that waits for one that it has called, or for a helper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CallFrame {
    /// Registers r6 to r9.
    pub saved: [u64; 4],
    /// The slot of the call it waits for.
    pub index: u32,
    /// How many of the lowest bytes of its stack frame were not zeroed when it was entered, because it can never
    /// access them. They do not travel.
    pub unused: u32,
}

/// Where a run is between two calls of an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceState {
    /// Not in the middle of a run.
    Idle,
    /// Waits for a helper, and everything in it was put there by an executor of this process.
    Suspended,
    /// Waits for a helper, and came as bytes from outside, now or earlier in the same run: nothing the analysis
    /// proves may be taken for granted.
    Restored,
}

/// A context that is longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a context of {length} bytes is longer than the limit of {limit}")]
pub struct ContextError {
    /// How many bytes.
    pub length: usize,
    /// How many are allowed.
    pub limit: usize,
}

/// The state of one run, and the room for the next.
#[derive(Debug)]
#[repr(C)]
pub struct Instance {
    pub(crate) memory: ProgramMemory,
    pub(crate) fuel: u64,
    /// What compiled code needs while it runs.
    pub(crate) native: Native,
    /// The frames of all functions that wait, the outermost first; while suspended, the last one is that of the
    /// function that called the helper.
    pub(crate) frames: [CallFrame; MAX_FRAMES],
    /// How many frames lie below the innermost function's.
    pub(crate) depth: u32,
    pub(crate) function: FunctionId,
    pub(crate) state: InstanceState,
    /// Whether the run came as bytes from outside, however often it went on and was suspended since.
    pub(crate) is_foreign: bool,
    pub(crate) helper: u32,
    pub(crate) arguments: [u64; ARGUMENTS],
    /// What was run last. It also keeps alive what the memory's area of constants points to.
    program: Option<Arc<Program>>,
}

impl Default for Instance {
    fn default() -> Instance {
        Instance::new(ProgramLimits::default())
    }
}

impl Instance {
    /// An instance that may take so much memory.
    pub fn new(limits: ProgramLimits) -> Instance {
        Instance {
            memory: ProgramMemory::new(limits),
            fuel: 0,
            native: Native::default(),
            frames: [CallFrame::default(); MAX_FRAMES],
            depth: 0,
            function: FunctionId(0),
            state: InstanceState::Idle,
            is_foreign: false,
            helper: 0,
            arguments: [0; ARGUMENTS],
            program: None,
        }
    }

    /// What the program finds at the address in r1. It stays from run to run, with what they have written. A
    /// suspended run is lost, as it may already know how long its context is.
    #[inline]
    pub fn set_context(&mut self, bytes: &[u8]) -> Result<(), ContextError> {
        let length = bytes.len();
        self.state = InstanceState::Idle;
        self.memory.set_context(bytes).map_err(|limit| ContextError { length, limit })
    }

    /// The context.
    pub fn context(&self) -> &[u8] {
        self.memory.context()
    }

    /// The context, to be changed in place.
    pub fn context_mut(&mut self) -> &mut [u8] {
        self.memory.context_mut()
    }

    /// What the last run has left, or the suspended one has.
    pub fn fuel(&self) -> u64 {
        self.fuel
    }

    /// Whether it is in the middle of a run.
    pub fn state(&self) -> InstanceState {
        self.state
    }

    /// What a suspended run waits for.
    pub fn pending(&self) -> Option<Pending<'_>> {
        let (program, _) = self.suspended()?;
        let helper = program.helpers().get(self.helper)?;
        Some(Pending { helper, arguments: self.arguments })
    }

    /// Registers r1 to r5 of the helper call that a suspended run waits for.
    #[inline]
    pub fn pending_arguments(&self) -> Option<[u64; ARGUMENTS]> {
        (self.state != InstanceState::Idle).then_some(self.arguments)
    }

    /// The instruction that a suspended run waits at: the call of the helper.
    pub fn pending_index(&self) -> Option<u32> {
        self.suspended().map(|(_, frame)| frame.index)
    }

    /// What a suspended run has at `address`, if it has that much.
    pub fn pending_bytes(&self, address: u64, length: usize) -> Option<&[u8]> {
        self.suspended()?;
        self.memory.read(address, length).ok()
    }

    /// The memory of a suspended run, as far as the helper it waits for may reach: to leave what it has asked
    /// for before the run is resumed.
    #[inline]
    pub fn pending_memory(&mut self) -> Option<HelperMemory<'_>> {
        let program = self.program.as_ref().filter(|_| self.state != InstanceState::Idle)?;
        Some(HelperMemory::new(&mut self.memory, program.helpers().get(self.helper)?, &self.arguments))
    }

    /// The program of a suspended run, and its innermost frame.
    #[inline]
    pub(crate) fn suspended(&self) -> Option<(&Arc<Program>, &CallFrame)> {
        let program = self.program.as_ref().filter(|_| self.state != InstanceState::Idle)?;
        Some((program, &self.frames[self.depth as usize]))
    }

    /// Begins a run, for an executor: the memory is as it has to be, apart from the first frame.
    ///
    /// What a suspended run had is lost.
    #[inline]
    pub(crate) fn begin(&mut self, program: &Arc<Program>, function: FunctionId, fuel: u64) {
        if !self.program.as_ref().is_some_and(|bound| Arc::ptr_eq(bound, program)) {
            // SAFETY: it is kept below, until another takes its place or the instance goes with its memory.
            unsafe { self.memory.bind(program) };
            self.program = Some(program.clone());
        }
        self.memory.begin(program, || !program.function(function).may_suspend);
        self.fuel = fuel;
        self.depth = 0;
        self.function = function;
        self.is_foreign = false;
        self.state = InstanceState::Idle;
    }

    /// As [`begin`](Self::begin), for a function that makes no calls and has no variables: does only what such a run
    /// can see, or nothing if that is not enough.
    #[inline]
    pub(crate) fn begin_quietly(&mut self, program: &Option<Arc<Program>>, fuel: u64) -> bool {
        let address = |program: &Option<Arc<Program>>| program.as_ref().map_or(std::ptr::null(), Arc::as_ptr);
        if address(&self.program) != address(program) {
            return false;
        }
        self.fuel = fuel;
        self.state = InstanceState::Idle;
        true
    }

    /// Suspends the run, for an executor, after everything is where it is kept.
    #[inline]
    pub(crate) fn suspend(&mut self) {
        self.state = if self.is_foreign { InstanceState::Restored } else { InstanceState::Suspended };
    }

    /// Asks the host, for an executor. `helper` is an index into the program's table of helpers.
    #[inline]
    pub(crate) fn call_helper(
        &mut self,
        program: &Program,
        host: &mut dyn HelperHost,
        helper: usize,
        arguments: &[u64; ARGUMENTS],
    ) -> Result<Answered, Why> {
        let declaration = &program.helpers().all()[helper];
        let mut memory = HelperMemory::new(&mut self.memory, declaration, arguments);
        match host.call(declaration, arguments, &mut memory) {
            HelperAnswer::Value(value) if memory.allows(value) => Ok(Answered::Value(value)),
            HelperAnswer::Pending if declaration.may_suspend => {
                self.helper = declaration.id;
                self.arguments = *arguments;
                Ok(Answered::Pending)
            }
            HelperAnswer::Trap(code) => Err(Why::Helper { code }),
            HelperAnswer::Value(_) | HelperAnswer::Pending => Err(Why::Undeclared),
        }
    }

    /// Ends a suspension, for an executor: says whether the value is one that the helper may answer.
    ///
    /// # Panics
    ///
    /// If no run of this program is suspended.
    #[inline]
    pub(crate) fn end_suspension(
        &mut self,
        program: &Arc<Program>,
        value: u64,
    ) -> Result<InstanceState, Why> {
        let (bound, _) = self.suspended().expect("only a suspended run can be resumed");
        assert!(Arc::ptr_eq(bound, program), "a run is resumed by an executor of its own program");
        let Some(helper) = program.helpers().get(self.helper) else { return Err(Why::Undeclared) };
        let state = std::mem::replace(&mut self.state, InstanceState::Idle);
        let memory = HelperMemory::new(&mut self.memory, helper, &self.arguments);
        if memory.allows(value) { Ok(state) } else { Err(Why::Undeclared) }
    }
}
