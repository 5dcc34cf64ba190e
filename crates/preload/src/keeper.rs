//! The thread that looks after the buffer: how large it is where it is a part of what is used, and what is counted of it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use outboard::{BufferSize, FarMemory};

use crate::far::Far;
use crate::heap::Calm;
use crate::ledger::{self, Count};
use crate::malloc;

/// How often it looks.
const TURN: Duration = Duration::from_millis(25);
/// How much the size must differ to be set anew: one part of so many.
const STEP: usize = 16;

/// The part of what is used that may be here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) numerator: u32,
    pub(crate) denominator: u32,
    /// The least and the most that the buffer may have.
    pub(crate) least: usize,
    pub(crate) most: usize,
}

impl Share {
    /// How large the buffer should be where so many bytes are used.
    fn of(&self, used: u64) -> usize {
        let part = u128::from(used) * u128::from(self.numerator) / u128::from(self.denominator.max(1));
        usize::try_from(part).unwrap_or(usize::MAX).clamp(self.least, self.most)
    }
}

/// Starts it.
pub(crate) fn start(far: &'static Far, share: Option<Share>) -> std::io::Result<()> {
    let keep = move || {
        let (lock, never) = (Mutex::new(()), Condvar::new());
        loop {
            look(far, share);
            let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
            // It is not woken: nothing else tells that more is used.
            let _ = never.wait_timeout(guard, TURN);
        }
    };
    // It inherits the mask: handlers of the program's signals run in the program's threads.
    let _calm = Calm::new();
    let thread = std::thread::Builder::new().name("outboard-keeper".to_owned()).spawn(keep)?;
    drop(thread);
    Ok(())
}

/// Looks once.
pub(crate) fn look(far: &Far, share: Option<Share>) {
    let used = far.touched();
    let mut buffer = far.memory.buffer();
    if let Some(share) = share {
        let wanted = share.of(used);
        if wanted.abs_diff(buffer) > buffer / STEP {
            buffer = resize(&far.memory, wanted).unwrap_or(buffer);
        }
    }
    malloc::follow_buffer(buffer);
    note(far, used, buffer);
}

fn resize(memory: &FarMemory, bytes: usize) -> Option<usize> {
    // One that is too small for what is pinned is set when that is let go.
    memory.set_buffer(BufferSize::Bytes(bytes)).ok().map(|()| memory.buffer())
}

/// Puts down what is to be told at the end.
fn note(far: &Far, used: u64, buffer: usize) {
    let stats = far.memory.stats();
    ledger::set(Count::Used, used);
    ledger::raise(Count::UsedMost, used);
    ledger::set(Count::Buffer, buffer as u64);
    ledger::raise(Count::BufferMost, buffer as u64);
    ledger::raise(Count::HereMost, stats.buffer_used);
    for (count, value) in [
        (Count::Fetched, stats.faults_fetched),
        (Count::Blank, stats.chunks_blank),
        (Count::Rescued, stats.faults_rescued),
        (Count::Joined, stats.faults_joined),
        (Count::Parked, stats.faults_parked),
        (Count::Ahead, stats.chunks_ahead),
        (Count::Evicted, stats.evictions),
        (Count::Saved, stats.saves),
        (Count::BytesFetched, stats.traffic.demand + stats.traffic.ahead),
        (Count::BytesSaved, stats.traffic.saved),
    ] {
        ledger::set(count, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_stays_within_its_bounds() {
        let share = Share { numerator: 1, denominator: 3, least: 8, most: 1000 };
        assert_eq!([0, 30, 300, 30_000, u64::MAX].map(|used| share.of(used)), [8, 10, 100, 1000, 1000]);
    }
}
