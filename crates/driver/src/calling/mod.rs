//! The clock, threads and random numbers that calls of functions need. The protocol is `outboard_calling`'s.

mod caller_thread;
mod linked_caller;

use std::time::SystemTime;

use outboard_calling::{Ambient, LaneWork};
use outboard_limits::{MemoryLimits, show_bytes};
use outboard_wire::calling::CallerId;

use crate::allocator::give_memory_back;

pub use caller_thread::CallerThread;
pub use linked_caller::LinkedCaller;

/// A name for a caller that no process can guess.
pub fn draw_caller() -> CallerId {
    CallerId(crate::writing::draw_identity().0)
}

/// The surroundings of functions at a site on this machine, with random numbers that begin anywhere; their messages go to `log`.
pub fn ambient(log: fn(&[u8])) -> Ambient {
    let mut seed = [0; 8];
    // Whatever it is, it is no secret; without random bytes all sites begin alike.
    let _ = rustix::rand::getrandom(&mut seed[..], rustix::rand::GetRandomFlags::empty());
    let time = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    };
    Ambient::new(u64::from_le_bytes(seed), time, log)
}

/// Has a thread of its own look at functions.
pub fn find_thread(work: LaneWork) {
    let run = work.clone();
    let look = move || run.run(within_limits);
    let spawned = std::thread::Builder::new().name("outboard-functions".to_owned()).spawn(look);
    if let Err(error) = spawned {
        work.refuse(&format!("the operating system gave no thread to look at functions: {error}"));
    }
}

/// From how much memory on what was used is given back at once: the allocator keeps it for threads that are gone.
const MUCH: u64 = 16 << 20;

/// Does what takes so much memory at once, unless the kernel would rather kill this process.
fn within_limits(bytes: u64, work: &mut dyn FnMut()) -> Result<(), String> {
    if let Some(limit) = MemoryLimits::of_this_process().tightest().filter(|limit| bytes > limit.spare()) {
        let (bytes, spare, all) = (show_bytes(bytes), show_bytes(limit.spare()), show_bytes(limit.bytes));
        return Err(format!(
            "to compile it may take {bytes} of memory, and of the limit of {all} only {spare} can be used; make it shorter, \
             or raise the limit"
        ));
    }
    work();
    if bytes >= MUCH {
        give_memory_back();
    }
    Ok(())
}
