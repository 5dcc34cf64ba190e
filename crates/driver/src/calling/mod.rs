//! The clock, threads and random numbers that calls of functions need. The protocol is `outboard_calling`'s.

mod caller_thread;

use std::time::SystemTime;

use outboard_calling::{Ambient, LaneWork};
use outboard_wire::calling::CallerId;

pub use caller_thread::{CallerThread, Dial};

/// A name for a caller that nobody can guess.
pub fn draw_caller() -> CallerId {
    CallerId(crate::writing::draw_identity().0)
}

/// What functions find at a site on this machine, with random numbers that begin anywhere; what they say goes to `log`.
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
    let spawned = std::thread::Builder::new().name("outboard-functions".to_owned()).spawn(move || run.run());
    if let Err(error) = spawned {
        work.refuse(&format!("the operating system gave no thread to look at functions: {error}"));
    }
}
