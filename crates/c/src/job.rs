//! Ranks of a job.

use std::ffi::c_char;

use outboard::{Job, JobOptions};

use crate::arguments::deadline;
use crate::daemons::outboard_t;
use crate::handles::{self, Handle};
use crate::status::outboard_status;
use crate::structures::sized;

/// This process's place in a job: its number, and how many there are.
pub struct outboard_job;

impl Handle for outboard_job {
    type Object = Job;
    const NAME: &'static str = "outboard_job";
}

/// A job that a program describes itself, instead of `outboard run`, mpirun, srun or torchrun.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_job_options {
    /// sizeof(outboard_job_options)
    pub size: usize,
    /// Which rank this process is, from 0 on.
    pub rank: u32,
    /// How many ranks there are.
    pub ranks: u32,
    /// A number that no other job of these machines has at the time.
    pub id: u64,
    /// What the ranks know each other by: 16 to 64 bytes that others cannot guess.
    pub secret: *const c_char,
    /// Where the ranks meet, at rank 0: "tcp:host:port" if there are several machines. NULL: on this machine.
    pub rendezvous: *const c_char,
    /// Where other ranks reach this one: "tcp:host:0" if there are several machines. NULL: on this machine.
    pub listen: *const c_char,
    /// The daemons, which have to be there. NULL: none.
    pub outboard: *mut outboard_t,
    /// How long ranks wait for each other at the start. 0: 30 s.
    pub join_deadline_ms: u64,
}

sized!(outboard_job_options);

/// Takes this process's place, and waits for the other ranks.
///
/// options: NULL: as the environment says that `outboard run` and other launchers have set. A process that none of them has started
/// is the only rank of a job of its own.
/// job: is given the handle; outboard_job_close() ends it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_job_join(
    options: *const outboard_job_options,
    job: *mut *mut outboard_job,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("job", job)?;
        let joined = if options.is_null() {
            Job::join()?
        } else {
            let given = promise.options(options)?;
            let secret = promise.text("outboard_job_options.secret", given.secret)?;
            let mut options = JobOptions::new(given.rank, given.ranks, given.id, secret);
            if let Some(address) =
                promise.optional_text("outboard_job_options.rendezvous", given.rendezvous)?
            {
                options = options.with_rendezvous(address.parse()?);
            }
            if let Some(address) = promise.optional_text("outboard_job_options.listen", given.listen)? {
                options = options.with_listen(address.parse()?);
            }
            if !given.outboard.is_null() {
                let outboard = handles::shared(given.outboard, |outboard| Ok(outboard.clone()))?;
                options = options.with_outboard(outboard);
            }
            if let Some(deadline) = deadline(given.join_deadline_ms) {
                options = options.with_join_deadline(deadline);
            }
            Job::with(options)?
        };
        out.put(handles::open(joined)?);
        Ok(())
    })
}

/// This process's number in the job, and how many ranks there are.
///
/// rank, ranks: are given the numbers; either may be NULL.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_job_rank(
    job: *mut outboard_job,
    rank: *mut u32,
    ranks: *mut u32,
) -> outboard_status {
    body!(|promise| {
        let (own, size) = handles::alone(job, |job| Ok((job.rank(), job.size())))?;
        promise.maybe(rank, own);
        promise.maybe(ranks, size);
        Ok(())
    })
}

/// The daemons of the job, which open the services that need no ranks.
///
/// outboard: is given a handle of its own; outboard_close() ends it.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_job_daemons(
    job: *mut outboard_job,
    outboard: *mut *mut outboard_t,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("outboard", outboard)?;
        let daemons = handles::alone(job, |job| Ok(job.outboard().clone()))?;
        out.put(handles::open(daemons)?);
        Ok(())
    })
}

/// Leaves the job. Close its messenger before.
///
/// Threads: any, but not while another is in a call with this handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_job_close(job: *mut outboard_job) -> outboard_status {
    body!(|_promise| {
        drop(handles::close(job)?);
        Ok(())
    })
}
