//! Which core runs which process.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::BenchError;
use crate::error::Named;

static SINGLE: AtomicBool = AtomicBool::new(false);

/// The cores for the two processes. Gives this thread its old freedom back when dropped.
pub(crate) struct Cores {
    before: CpuSet,
    chosen: Vec<usize>,
}

impl Cores {
    /// Pins this thread to the first core it may use; the second is for the peer. With one core, nothing is
    /// pinned.
    pub(crate) fn take() -> Result<Self, BenchError> {
        let before = sched_getaffinity(None).named("sched_getaffinity")?;
        let mut chosen: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core)).collect();
        chosen.truncate(2);
        match chosen[..] {
            [lead, _] => pin(lead)?,
            _ => {
                chosen.clear();
                SINGLE.store(true, Ordering::Relaxed);
            }
        }
        Ok(Self { before, chosen })
    }

    /// The cores of the lead and the peer; empty if nothing is pinned.
    pub(crate) fn chosen(&self) -> &[usize] {
        &self.chosen
    }

    /// Pins this thread, in the peer, to the core the lead chose for it.
    pub(crate) fn settle(core: Option<usize>) -> Result<(), BenchError> {
        SINGLE.store(core.is_none(), Ordering::Relaxed);
        core.map_or(Ok(()), pin)
    }

    /// Whether both processes share one core, so that spinning only keeps the other from working.
    #[inline]
    pub(crate) fn is_single() -> bool {
        SINGLE.load(Ordering::Relaxed)
    }
}

fn pin(core: usize) -> Result<(), BenchError> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).named("sched_setaffinity")
}

impl Drop for Cores {
    fn drop(&mut self) {
        // It was allowed before; if that has changed meanwhile there is nothing to be done.
        let _ = sched_setaffinity(None, &self.before);
    }
}
