//! What every executor can do.

use std::sync::Arc;

use crate::helper::{ARGUMENTS, Helper, HelperHost};
use crate::instance::Instance;
use crate::program::{FunctionId, Program};
use crate::trap::Trap;

/// How a call of an executor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The function returned r0.
    Returned(u64),
    /// A helper said that it takes longer. The instance has everything that is needed to go on: to be resumed
    /// as it is, or turned into bytes.
    Suspended,
    /// The function did something it must not.
    Trapped(Trap),
}

/// Runs the functions of one program.
pub trait Engine {
    /// The program.
    fn program(&self) -> &Arc<Program>;

    /// Runs a function from its beginning, with the instance's context and so much fuel. If the instance was
    /// suspended, that run is lost.
    ///
    /// # Panics
    ///
    /// If the program has no such function.
    fn start(
        &self,
        instance: &mut Instance,
        function: FunctionId,
        host: &mut dyn HelperHost,
        fuel: u64,
    ) -> Exit;

    /// Goes on with a suspended run: `value` is the answer of the helper it waits for. Whichever executor
    /// suspended it does not matter.
    ///
    /// # Panics
    ///
    /// If the instance is not suspended, or in a run of another program.
    fn resume(&self, instance: &mut Instance, host: &mut dyn HelperHost, value: u64) -> Exit;
}

/// The helper call that a suspended run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending<'a> {
    /// Whom it has called.
    pub helper: &'a Helper,
    /// With what: registers r1 to r5.
    pub arguments: [u64; ARGUMENTS],
}

/// What a host answered, after it was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Goes into r0.
    Value(u64),
    /// The run is to be suspended.
    Pending,
}
