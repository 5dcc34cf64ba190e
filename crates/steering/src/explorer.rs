//! Schedules the picks that measure options which are not chosen.

use outboard_wire::time::Time;

use crate::{Evidence, SteeringConfig};

const NEVER: u64 = u64::MAX;
/// After so many picks that brought no news of an option, its interval doubles.
const FRUITLESS_PICKS: u32 = 16;
/// Doublings at most: an option that never answers still gets one pick in some hundred million.
const DOUBLINGS_MAX: u32 = 24;
/// Beyond this a dearer option is not explored more rarely still: whatever happened to it may be over.
const RATIO_MAX: f64 = 1024.0;
/// 2^32 divided by the golden ratio: its multiples, modulo 2^32, spread evenly without a pattern.
const GOLDEN: u32 = 0x9E37_79B9;

/// Counts picks and interposes exploring ones. Time in here is a number of picks.
#[derive(Clone, Debug)]
pub(crate) struct Explorer<const N: usize> {
    picks: u64,
    next_due: u64,
    explored_at: u64,
    explored: u32,
    spacing: u64,
    targets: [Target; N],
}

#[derive(Clone, Copy, Debug)]
struct Target {
    interval: u64,
    explored_at: u64,
    /// The last news, and the exploring picks since.
    measured_at: Option<Time>,
    fruitless: u32,
}

impl Target {
    fn due(&self) -> u64 {
        self.explored_at.saturating_add(self.interval)
    }
}

impl<const N: usize> Explorer<N> {
    /// An explorer that explores nothing until it has a plan.
    pub(crate) fn new() -> Self {
        let target = Target { interval: NEVER, explored_at: 0, measured_at: None, fruitless: 0 };
        Self { picks: 0, next_due: NEVER, explored_at: 0, explored: 0, spacing: 1, targets: [target; N] }
    }

    /// The option to explore with this pick, if it is time for one.
    #[inline]
    pub(crate) fn turn(&mut self) -> Option<usize> {
        self.picks = self.picks.saturating_add(1);
        if self.picks < self.next_due {
            return None;
        }
        self.explore()
    }

    /// Decides from fresh evidence what is worth exploring, and how often.
    pub(crate) fn plan(
        &mut self,
        now: Time,
        config: &SteeringConfig,
        chosen: usize,
        evidence: &[Evidence; N],
    ) {
        self.spacing = u64::from(config.explore_fast_one_in.max(1));
        let chosen_ns = match evidence[chosen] {
            Evidence::Measured(cost) => Some(cost.ns()),
            _ => None,
        };
        for (index, target) in self.targets.iter_mut().enumerate() {
            let measured_at = match evidence[index] {
                Evidence::Measured(cost) => Some(cost.measured_at()),
                _ => None,
            };
            if measured_at != target.measured_at {
                (target.measured_at, target.fruitless) = (measured_at, 0);
            }
            let ratio = match evidence[index] {
                Evidence::Unmeasured => Some(0.0),
                Evidence::Measured(cost) if now - cost.measured_at() >= config.explore_after => {
                    Some(chosen_ns.map_or(1.0, |ns| cost.ns() / ns.max(1.0)))
                }
                Evidence::Measured(_) | Evidence::Excluded => None,
            };
            target.interval = match ratio {
                Some(ratio) if index != chosen && config.explore_one_in > 0 => {
                    interval::<N>(config, ratio, target.fruitless)
                }
                _ => NEVER,
            };
        }
        self.schedule();
    }

    #[cold]
    fn explore(&mut self) -> Option<usize> {
        let index = (0..N).min_by_key(|&index| self.targets[index].due())?;
        let target = &mut self.targets[index];
        if target.due() > self.picks {
            return None;
        }
        target.explored_at = self.picks;
        target.fruitless = target.fruitless.saturating_add(1);
        self.explored_at = self.picks;
        self.explored = self.explored.wrapping_add(1);
        self.schedule();
        Some(index)
    }

    fn schedule(&mut self) {
        let due = self.targets.iter().map(Target::due).min().unwrap_or(NEVER);
        // Stretching the pause by an uneven part of itself keeps the explorer out of step with work that
        // repeats: every 64th write might be the large one.
        let pause = due.saturating_sub(self.explored_at).max(self.spacing);
        let uneven = (u128::from(pause) * u128::from(self.explored.wrapping_mul(GOLDEN))) >> 33;
        let pause = pause.saturating_add(u64::try_from(uneven).unwrap_or(NEVER));
        self.next_due = if due == NEVER { NEVER } else { self.explored_at.saturating_add(pause) };
    }
}

/// Picks between two that explore one option which costs `ratio` times the chosen one.
fn interval<const N: usize>(config: &SteeringConfig, ratio: f64, fruitless: u32) -> u64 {
    // The share is divided among the rivals, so that together they stay within it.
    let rivals = N.saturating_sub(1).max(1) as f64;
    let fair = f64::from(config.explore_one_in) * ratio.min(RATIO_MAX) * rivals;
    // Float to integer conversion saturates, and no operand is NaN.
    let picks = (fair.ceil() as u64).max(u64::from(config.explore_fast_one_in));
    picks.max(1).saturating_mul(1 << (fruitless / FRUITLESS_PICKS).min(DOUBLINGS_MAX))
}
