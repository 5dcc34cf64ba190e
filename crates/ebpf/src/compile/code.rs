//! Compiled functions, and when they may be called.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::fuel::Looks;
use super::layout::Outcome;
use super::pages::Pages;
use super::plan::Plan;
use super::unit::{self, Unit};
use super::{CompileError, Compiler};
use crate::analysis::{Analysis, Expectations, Flow};
use crate::instance::{Instance, InstanceState};
use crate::memory::MAX_FRAMES;
use crate::near::approach_at;
use crate::program::{FunctionId, Program};

/// How much of a function is brought nearer before it runs, in bytes.
const CODE_APPROACHED: usize = 256;

/// What all compiled functions are, seen from outside: the instance, r1 to r5.
pub(super) type NativeFunction = unsafe extern "C" fn(*mut Instance, u64, u64, u64, u64, u64) -> Outcome;

/// Functions that can be called.
#[derive(Debug)]
pub(super) struct Code {
    pages: Pages,
    starts: Box<[u32]>,
}

impl Code {
    fn new(unit: &Unit) -> Result<Code, CompileError> {
        Ok(Code { pages: Pages::new(&unit.code)?, starts: unit.starts.as_slice().into() })
    }

    pub(super) fn function(&self, body: usize) -> NativeFunction {
        // SAFETY: at this address is the code of a function that was compiled with this signature.
        unsafe { std::mem::transmute::<*const u8, NativeFunction>(self.pages.at(self.starts[body])) }
    }
}

/// Tells that a run could use code that checks everything, and there is none yet.
pub(super) type Miss = Box<dyn Fn() + Send + Sync>;

/// Functions that check everything, compiled when the first run needs them, or when it is told to.
pub(super) struct Checked {
    compiler: Compiler,
    program: Arc<Program>,
    code: OnceLock<Option<Code>>,
    /// If another thread is to compile: what it is told by, once.
    miss: Option<Miss>,
    was_missed: AtomicBool,
}

impl std::fmt::Debug for Checked {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Checked").field("code", &self.code).finish_non_exhaustive()
    }
}

impl Checked {
    pub(super) fn new(compiler: Compiler, program: Arc<Program>, miss: Option<Miss>) -> Checked {
        Checked { compiler, program, code: OnceLock::new(), miss, was_missed: AtomicBool::new(false) }
    }

    /// Compiles now what would be compiled when it is needed.
    pub(super) fn compile(&self) -> Result<(), CompileError> {
        let code = Code::new(&unit::compile(&Plan::checked(&self.program), &self.compiler)?)?;
        self.code.get_or_init(|| Some(code));
        Ok(())
    }

    /// Compiles it unless that was tried before.
    pub(super) fn complete(&self) {
        if self.code.get().is_none() {
            let _ = self.compile().map_err(|_| self.code.get_or_init(|| None));
        }
    }

    /// The code, unless the program is too much for the compiler, or another thread has yet to compile it.
    #[inline]
    pub(super) fn code(&self) -> Option<&Code> {
        if self.code.get().is_none() {
            self.missed();
        }
        self.code.get()?.as_ref()
    }

    #[cold]
    fn missed(&self) {
        match &self.miss {
            None => self.complete(),
            Some(tell) if !self.was_missed.swap(true, Ordering::Relaxed) => tell(),
            Some(_) => {}
        }
    }
}

/// A function that runs can start with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) code: NativeFunction,
    /// How much fuel it must be given.
    fuel: u64,
    /// How long the context has to be.
    context: usize,
    /// Whether it neither has variables, nor needs anything of the instance but the context and the stack.
    pub(super) is_quiet: bool,
}

/// Functions that take for granted what was proven.
#[derive(Debug, Default)]
pub(super) struct Proven {
    /// What was compiled, if anything was.
    program: Option<Arc<Program>>,
    /// By function; none for those that are not started from outside.
    entries: Box<[Option<Entry>]>,
    /// By function and depth.
    bodies: Box<[[Option<NativeFunction>; MAX_FRAMES]]>,
    expectations: Expectations,
    /// Keeps alive what the addresses above point to.
    _code: Option<Code>,
}

impl Proven {
    pub(super) fn new(
        compiler: &Compiler,
        analysis: &Analysis,
        program: &Arc<Program>,
    ) -> Result<Proven, CompileError> {
        if !analysis.is_complete() {
            return Ok(Proven::default());
        }
        let functions = program.functions().len();
        let mut entries = vec![None; functions];
        let mut bodies = vec![[None; MAX_FRAMES]; functions];
        let unit = unit::compile(&Plan::proven(program, analysis), compiler)?;
        let code = Code::new(&unit)?;
        for (number, (function, depth)) in analysis.bodies().enumerate() {
            let native = code.function(number);
            bodies[function][depth as usize] = Some(native);
            if depth == 0 {
                let flow = Flow::new(program, &program.functions()[function]);
                entries[function] = Some(Entry {
                    code: native,
                    fuel: Looks::new(program, &flow, depth).at_start,
                    context: analysis.context_needed(number) as usize,
                    is_quiet: analysis.is_quiet(number) && program.data().is_empty(),
                });
            }
        }
        let expectations = analysis.expectations();
        Ok(Proven {
            program: Some(program.clone()),
            entries: entries.into(),
            bodies: bodies.into(),
            expectations,
            _code: Some(code),
        })
    }

    /// Brings the beginning of a function nearer.
    #[inline]
    pub(super) fn approach(&self, function: FunctionId) {
        if let Some(Some(entry)) = self.entries.get(function.index()) {
            approach_at(entry.code as *const [u8; CODE_APPROACHED]);
        }
    }

    /// Whether there is nothing to start with.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.iter().all(Option::is_none)
    }

    /// What a run starts with, if what is needed for the proofs is there.
    #[inline]
    pub(super) fn start(&self, function: FunctionId, instance: &Instance, fuel: u64) -> Option<&Entry> {
        let entry = self.entries.get(function.index())?.as_ref()?;
        (fuel >= entry.fuel && instance.context().len() >= entry.context).then_some(entry)
    }

    /// Begins a run of a function that needs nothing of the instance but the context and the stack, if this is one
    /// and the last run was of the same program.
    #[inline]
    pub(super) fn start_quietly(
        &self,
        function: FunctionId,
        instance: &mut Instance,
        fuel: u64,
    ) -> Option<NativeFunction> {
        let entry = self.start(function, instance, fuel)?;
        (entry.is_quiet && instance.begin_quietly(&self.program, fuel)).then_some(entry.code)
    }

    /// The function at this depth.
    #[inline]
    pub(super) fn function(&self, function: FunctionId, depth: u32) -> Option<NativeFunction> {
        self.bodies.get(function.index())?[depth as usize]
    }

    /// What a suspended run goes on with, if it has called no other function, was never encoded as bytes, and what
    /// was proven holds in it.
    #[inline]
    pub(super) fn resume_quickly(&self, instance: &Instance) -> Option<NativeFunction> {
        if instance.depth != 0 || instance.state() != InstanceState::Suspended {
            return None;
        }
        self.start(instance.function, instance, u64::MAX)?;
        debug_assert!(self.is_met_by(instance));
        self.function(instance.function, 0)
    }

    /// Whether what was proven holds in a suspended run.
    #[inline]
    pub(super) fn is_met_by(&self, instance: &Instance) -> bool {
        // What was proven holds for runs that start where they were expected to start.
        if self.start(instance.function, instance, u64::MAX).is_none() {
            return false;
        }
        if instance.state() == InstanceState::Suspended {
            debug_assert!(self.expectations.are_met_by(instance), "a run reached what was proven impossible");
            return true;
        }
        self.expectations.are_met_by(instance)
    }
}
