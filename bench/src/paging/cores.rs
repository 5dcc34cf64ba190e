//! Where the threads of this process run while they are measured.
//!
//! A fault is two wake-ups. On one core they cost two switches; between cores, the one that sleeps has to be woken by
//! an interrupt, which in a virtual machine takes longer than all the rest. The scheduler decides between the two
//! as it likes and for a long time, so both are tried, on both sides, and the better counts.

use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::BenchError;
use crate::error::Named;
use crate::harness::Round;

/// Where the threads of this process run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cores {
    /// Where the scheduler puts them.
    Anywhere,
    /// All on the core of the one that asks.
    Together,
}

/// Runs `round` on both choices of cores, with all threads that there are here and in the processes of `others`; the one
/// with the shorter time counts.
pub(crate) fn best_placed(
    others: &[u32],
    mut round: impl FnMut() -> Result<Round, BenchError>,
) -> Result<Round, BenchError> {
    let mut placed = |cores| {
        let _placed = Placed::take(cores, others)?;
        round()
    };
    let (anywhere, together) = (placed(Cores::Anywhere)?, placed(Cores::Together)?);
    Ok(if anywhere.score <= together.score { anywhere } else { together })
}

/// Gives all threads their old freedom back when dropped.
struct Placed {
    before: Vec<(Pid, CpuSet)>,
}

impl Placed {
    fn take(cores: Cores, others: &[u32]) -> Result<Self, BenchError> {
        let mut placed = Self { before: Vec::new() };
        if cores == Cores::Anywhere {
            return Ok(placed);
        }
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        let processes = others.iter().copied().chain([std::process::id()]);
        for thread in processes.map(threads).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            match sched_getaffinity(Some(thread)) {
                Ok(before) => placed.before.push((thread, before)),
                // It has ended.
                Err(Errno::SRCH) => continue,
                Err(errno) => return Err(errno).named("sched_getaffinity"),
            }
            match sched_setaffinity(Some(thread), &here) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(errno) => return Err(errno).named("sched_setaffinity"),
            }
        }
        Ok(placed)
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        for (thread, before) in &self.before {
            // It was allowed before; a thread that has ended needs nothing.
            let _ = sched_setaffinity(Some(*thread), before);
        }
    }
}

/// The threads of a process.
fn threads(process: u32) -> Result<Vec<Pid>, BenchError> {
    let entries = std::fs::read_dir(format!("/proc/{process}/task")).named("opendir")?;
    let number = |name: std::ffi::OsString| name.to_str()?.parse().ok();
    Ok(entries.flatten().filter_map(|entry| number(entry.file_name())).filter_map(Pid::from_raw).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// One test: it moves all threads of the process, so no other may do that meanwhile.
    #[test]
    fn all_threads_come_together_are_free_again_and_the_shorter_time_counts() {
        let (told, listens) = mpsc::channel::<()>();
        let (ready, waits) = mpsc::channel();
        let other = std::thread::spawn(move || {
            ready.send(rustix::thread::gettid()).unwrap();
            // Ends when the channel is closed.
            let _ = listens.recv();
        });
        let other_id = waits.recv().unwrap();
        let before = sched_getaffinity(Some(other_id)).unwrap();
        let mut scores = [7.0, 5.0].into_iter();
        let mut places = Vec::new();
        let best = best_placed(&[], || {
            places.push([None, Some(other_id)].map(|thread| sched_getaffinity(thread).unwrap()));
            Ok(Round { score: scores.next().unwrap(), samples_ns: Vec::new() })
        });
        assert_eq!(best.unwrap().score, 5.0);
        let [anywhere, [ours, others]] = places[..] else { panic!("there are two") };
        assert_eq!(anywhere[1], before);
        assert_eq!((ours.count(), ours), (1, others));
        assert_eq!(sched_getaffinity(Some(other_id)).unwrap(), before);
        drop(told);
        other.join().unwrap();
    }
}
