//! The way from compiled code to the host and back.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::layout::{HELPER_FAILED, Outcome, RETURNED, SUSPENDED};
use crate::executor::Answered;
use crate::helper::HelperHost;
use crate::instance::Instance;
use crate::program::Program;
use crate::trap::Why;

/// What a run needs beside its instance. It lives as long as one call of the executor.
pub(super) struct Run<'a> {
    pub(super) program: &'a Program,
    pub(super) host: &'a mut dyn HelperHost,
    pub(super) failure: Option<Failure>,
}

/// Why a helper ended the run.
pub(super) enum Failure {
    /// It is the end of the run.
    Trap(Why),
    /// The host panicked; this goes on where compiled code was called, because it cannot pass through it.
    Panic(Box<dyn Any + Send>),
}

/// What compiled code calls to call a helper.
///
/// # Safety
///
/// `instance` is the one that was given to the compiled function, and no other code uses it meanwhile; its
/// [`Native`](super::layout::Native) part has the address of a live [`Run`] of the same program.
pub(super) unsafe extern "C" fn call_host(
    instance: *mut Instance,
    r1: u64,
    r2: u64,
    r3: u64,
    r4: u64,
    r5: u64,
) -> Outcome {
    // SAFETY: the caller's promise.
    let instance = unsafe { &mut *instance };
    // SAFETY: as above. The address was exposed when the run began.
    let run = unsafe { &mut *std::ptr::with_exposed_provenance_mut::<Run<'_>>(instance.native.run) };
    let (program, host, helper) = (run.program, &mut *run.host, instance.native.helper as usize);
    let call = || instance.call_helper(program, host, helper, &[r1, r2, r3, r4, r5]);
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(Answered::Value(value))) => return Outcome { value, status: RETURNED },
        Ok(Ok(Answered::Pending)) => return Outcome { value: 0, status: SUSPENDED },
        Ok(Err(why)) => Failure::Trap(why),
        Err(panic) => Failure::Panic(panic),
    };
    run.failure = Some(failure);
    Outcome { value: 0, status: HELPER_FAILED }
}
