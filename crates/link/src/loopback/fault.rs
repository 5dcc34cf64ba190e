//! Faults on purpose.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The faults that strike frames on their way. Probabilities are per frame, the link's own included, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultPlan {
    /// The shortest time a frame travels. Frames of one direction of one link never overtake each other; those of
    /// different links do.
    pub delay_min: Duration,
    /// The longest.
    pub delay_max: Duration,
    /// A frame arrives twice.
    pub duplicate: f64,
    /// A frame never arrives.
    pub drop: f64,
    /// A frame arrives without its end.
    pub truncate: f64,
    /// The connection breaks instead of taking a frame; what is on its way still arrives.
    pub close: f64,
    /// A one-sided read copies its first words now and the rest in a later turn of the owner. Per read.
    pub tear: f64,
}

impl FaultPlan {
    /// Nothing goes wrong.
    pub const fn none() -> Self {
        Self {
            delay_min: Duration::ZERO,
            delay_max: Duration::ZERO,
            duplicate: 0.0,
            drop: 0.0,
            truncate: 0.0,
            close: 0.0,
            tear: 0.0,
        }
    }

    /// Nothing but travel times, evenly from `min` to `max`.
    pub const fn delayed(min: Duration, max: Duration) -> Self {
        Self { delay_min: min, delay_max: max, ..Self::none() }
    }

    /// Whether single frames are looked at.
    pub(super) fn concerns_frames(&self) -> bool {
        *self != Self { tear: self.tear, ..Self::none() }
    }
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self::none()
    }
}

/// How often each fault happened on a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Frames that travelled for some time.
    pub delayed: u64,
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames that never arrived.
    pub dropped: u64,
    /// Frames that arrived without their end.
    pub truncated: u64,
    /// Connections that broke.
    pub closed: u64,
    /// One-sided reads that were torn.
    pub torn: u64,
}

/// The counts as links on any thread add to them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) delayed: AtomicU64,
    pub(super) duplicated: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) truncated: AtomicU64,
    pub(super) closed: AtomicU64,
    pub(super) torn: AtomicU64,
}

impl Tally {
    pub(super) fn read(&self) -> FaultCounts {
        FaultCounts {
            delayed: self.delayed.load(Relaxed),
            duplicated: self.duplicated.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            truncated: self.truncated.load(Relaxed),
            closed: self.closed.load(Relaxed),
            torn: self.torn.load(Relaxed),
        }
    }
}

/// The fault that strikes one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It arrives.
    Arrive,
    /// It arrives twice.
    Twice,
    /// It does not arrive.
    Drop,
    /// Only so many of its bytes arrive.
    Truncate(usize),
    /// The connection breaks.
    Close,
}

/// The chances of one direction of one link.
pub(super) struct Dice {
    random: fastrand::Rng,
}

impl Dice {
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        // Neighbouring numbers must not give neighbouring sequences.
        let mixed = (seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd1b5_4a32_d192_ed03);
        Self { random: fastrand::Rng::with_seed(mixed ^ (mixed >> 32)) }
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.random.f64() < probability
    }

    pub(super) fn fate(&mut self, plan: &FaultPlan, len: usize) -> Fate {
        if self.chance(plan.close) {
            Fate::Close
        } else if self.chance(plan.drop) {
            Fate::Drop
        } else if self.chance(plan.truncate) {
            Fate::Truncate(self.random.usize(0..len))
        } else if self.chance(plan.duplicate) {
            Fate::Twice
        } else {
            Fate::Arrive
        }
    }

    pub(super) fn delay(&mut self, plan: &FaultPlan) -> Duration {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let (min, max) = (nanos(plan.delay_min), nanos(plan.delay_max));
        Duration::from_nanos(if max > min { self.random.u64(min..=max) } else { min })
    }

    /// Which of `borders` borders a read is torn at, if it is.
    pub(super) fn tear(&mut self, plan: &FaultPlan, borders: usize) -> Option<usize> {
        self.chance(plan.tear).then(|| self.random.usize(1..=borders))
    }
}
