//! Spinning, but not for ever.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::Cores;
use crate::BenchError;

/// How long either process waits for the other before it gives up, on the busiest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How a process waits for the other. Which is faster depends on the machine and on what else it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Waits {
    /// By asking again and again.
    Spinning,
    /// In the kernel, which wakes us.
    Asleep,
}

impl Waits {
    /// Both ways, to try them by turns.
    pub(crate) const BOTH: [Self; 2] = [Self::Spinning, Self::Asleep];
}

/// How many spins lie between two looks at the clock.
const SPINS_PER_LOOK: u32 = 4096;

/// Calls `step` until it returns something. Burns the core; with only one core, gives it to the other process.
#[inline]
pub(crate) fn spin_until<T>(
    awaited: &'static str,
    mut step: impl FnMut() -> Option<T>,
) -> Result<T, BenchError> {
    match step() {
        Some(value) => Ok(value),
        None => spin_on(awaited, step),
    }
}

fn spin_on<T>(awaited: &'static str, mut step: impl FnMut() -> Option<T>) -> Result<T, BenchError> {
    let began = Instant::now();
    loop {
        for _ in 0..SPINS_PER_LOOK {
            if let Some(value) = step() {
                return Ok(value);
            }
            if Cores::is_single() {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        if began.elapsed() > PATIENCE {
            return Err(BenchError::Stalled { waited: PATIENCE, awaited });
        }
    }
}

/// The monotonic clock, which is the same in both processes.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
