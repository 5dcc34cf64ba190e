//! How fault threads wait for the next fault: asleep, or awake for a moment, whichever answers faults sooner.
//!
//! To wake a thread that sleeps takes longer than all the rest where its core sleeps too. A thread that looks for the next fault
//! is quicker, but takes a core that the application may need. So both are tried by turns on the faults that there are, and what
//! was faster is done for a while. One thread at a time stays awake, and only for a moment after a fault.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outboard_wire::Time;

/// How long a thread looks for the next fault.
const MOMENT: Duration = Duration::from_micros(30);
/// How many faults are timed at once, and how often each way is tried before one is chosen.
const BLOCK: u32 = 64;
const TRIES: usize = 3;
/// For how many blocks what was chosen is done.
const STAY: usize = 60;
/// From one fault to the next no more than this counts: the application does other things too.
const GAP_MAX: Duration = Duration::from_micros(300);
/// To stay awake takes a core, so it has to save a tenth of the time at least.
const GAIN: f64 = 0.9;

/// The findings of trials.
#[derive(Debug)]
struct Meter {
    last: Time,
    faults: u32,
    took: Duration,
    /// Blocks so far: first the tries, of both ways by turns, then what was chosen.
    blocks: usize,
    /// How long a fault took by each way, asleep first, in this round of tries and in the one before, in nanoseconds.
    trying: [f64; 2],
    found: Option<[f64; 2]>,
}

/// How fault threads wait, for all of them together.
#[derive(Debug)]
pub(super) struct Waiting {
    is_awake: AtomicBool,
    /// Whether a thread is awake now.
    is_taken: AtomicBool,
    meter: Option<Mutex<Meter>>,
}

impl Waiting {
    /// Threads sleep at once, unless they `may_look` where that pays.
    pub(super) fn new(may_look: bool) -> Self {
        let meter = Meter {
            last: Time::ZERO,
            faults: 0,
            took: Duration::ZERO,
            blocks: 0,
            trying: [0.0; 2],
            found: None,
        };
        let [is_awake, is_taken] = [false, false].map(AtomicBool::new);
        Self { is_awake, is_taken, meter: may_look.then(|| Mutex::new(meter)) }
    }

    /// A fault thread has heard of faults.
    pub(super) fn heard(&self, faults: usize, now: Time) {
        let Some(meter) = &self.meter else { return };
        let mut meter = meter.lock().unwrap_or_else(PoisonError::into_inner);
        let gap = now.since(std::mem::replace(&mut meter.last, now));
        meter.took += gap.min(GAP_MAX);
        meter.faults += faults as u32;
        if meter.faults >= BLOCK {
            self.is_awake.store(meter.end_block(), Ordering::Relaxed);
        }
    }

    /// Whether a thread that has found nothing for so long goes on looking; `None` if that is not decided here. It `is_looking`
    /// if it was told to before.
    pub(super) fn looks_on(&self, is_looking: bool, idle: Duration) -> Option<bool> {
        self.meter.as_ref()?;
        let looks = self.is_awake.load(Ordering::Relaxed)
            && idle < MOMENT
            && (is_looking || !self.is_taken.swap(true, Ordering::AcqRel));
        if is_looking && !looks {
            self.is_taken.store(false, Ordering::Release);
        }
        Some(looks)
    }

    /// The findings, for people.
    pub(super) fn explain(&self) -> Option<String> {
        let meter = self.meter.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let [asleep, awake] = meter.found?.map(|ns| ns / 1e3);
        let what =
            if meter.is_awake_better() { "look for the next fault for a moment" } else { "sleep at once" };
        Some(format!(
            "fault threads {what}: from one fault to the next it took {awake:.1} µs with one of them awake, {asleep:.1} µs without"
        ))
    }
}

impl Meter {
    fn is_awake_better(&self) -> bool {
        self.found.is_some_and(|[asleep, awake]| awake < asleep * GAIN)
    }

    /// Returns whether a thread is to stay awake during the next block.
    fn end_block(&mut self) -> bool {
        let per_fault = self.took.as_nanos() as f64 / f64::from(self.faults);
        (self.took, self.faults) = (Duration::ZERO, 0);
        if self.blocks < 2 * TRIES {
            self.trying[self.blocks % 2] += per_fault / TRIES as f64;
        }
        self.blocks += 1;
        if self.blocks == 2 * TRIES {
            self.found = Some(std::mem::take(&mut self.trying));
        }
        if self.blocks == 2 * TRIES + STAY {
            self.blocks = 0;
        }
        if self.blocks < 2 * TRIES { self.blocks % 2 == 1 } else { self.is_awake_better() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In how many of the blocks a thread is awake while faults take so long, in microseconds, asleep and awake.
    fn awake(waiting: &Waiting, now: &mut Time, took: [u64; 2], blocks: u32) -> u32 {
        let mut awake = 0;
        for _ in 0..blocks {
            let is_awake = waiting.is_awake.load(Ordering::Relaxed);
            awake += u32::from(is_awake);
            for _ in 0..BLOCK {
                *now += Duration::from_micros(took[usize::from(is_awake)]);
                waiting.heard(1, *now);
            }
        }
        awake
    }

    #[test]
    fn what_is_faster_is_done_and_what_changes_is_found_out() {
        let (waiting, mut now) = (Waiting::new(true), Time::ZERO);
        let round = (2 * TRIES + STAY) as u32;
        let tries = TRIES as u32;
        assert_eq!(awake(&waiting, &mut now, [30, 10], round), STAY as u32 + tries);
        let told = waiting.explain().unwrap();
        assert!(
            told.contains("look for") && told.contains("10.0 µs with") && told.contains("30.0 µs without")
        );
        assert_eq!(awake(&waiting, &mut now, [30, 40], round), tries);
        assert!(waiting.explain().unwrap().contains("sleep at once"));
        // A wait that saves hardly anything is not worth a core.
        assert_eq!(awake(&waiting, &mut now, [30, 29], round), tries);
        // Pauses of the application tell nothing.
        assert_eq!(awake(&waiting, &mut now, [1_000_000, 2_000_000], round), tries);
    }

    #[test]
    fn one_thread_stays_awake_and_not_for_long() {
        let (waiting, mut now) = (Waiting::new(true), Time::ZERO);
        awake(&waiting, &mut now, [30, 10], 2 * TRIES as u32);
        assert_eq!(waiting.looks_on(false, Duration::ZERO), Some(true));
        assert_eq!(waiting.looks_on(false, Duration::ZERO), Some(false), "another one is awake");
        assert_eq!(waiting.looks_on(true, MOMENT / 2), Some(true));
        assert_eq!(waiting.looks_on(true, MOMENT), Some(false));
        assert_eq!(waiting.looks_on(false, Duration::ZERO), Some(true), "it sleeps now");
    }

    #[test]
    fn where_no_core_is_to_spare_nothing_is_decided() {
        let (waiting, mut now) = (Waiting::new(false), Time::ZERO);
        assert_eq!(awake(&waiting, &mut now, [30, 10], 100), 0);
        assert_eq!((waiting.looks_on(false, Duration::ZERO), waiting.explain()), (None, None));
    }
}
