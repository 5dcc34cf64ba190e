//! What writes of about one size cost by each path.

use core::time::Duration;

use outboard_steering::{Chooser, Evidence, Explanation, Preference, Signal, SteeringConfig};
use outboard_wire::Time;

use crate::WritePath;

/// Lessons between two reviews.
const REVIEW: u32 = 32;

/// What is known of the costs, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// An offloaded write whose page was offloaded before, when all goes well.
    pub(super) warm: u64,
    /// An offloaded write to a page that was not.
    pub(super) cold: u64,
    /// An unloaded write.
    pub(super) unload: u64,
}

/// Writes of about one size.
#[derive(Debug)]
pub(super) struct Class {
    cold: Signal,
    unload: Signal,
    /// What becomes of writes to pages that are not hot.
    chooser: Chooser<WritePath, 2>,
    pub(super) chosen: WritePath,
    /// Follows the lowest that warm writes take: quickly down, slowly up. Zero before the first.
    warm_ns: u64,
    known: Option<Costs>,
    left: u32,
}

impl Class {
    pub(super) fn new(config: &SteeringConfig, preference: Preference<WritePath>, now: Time) -> Self {
        let chooser = Chooser::new(WritePath::ALL, preference, *config, now);
        let chooser = chooser.expect("both paths are among the options");
        Self {
            cold: Signal::new(config),
            unload: Signal::new(config),
            chosen: chooser.decision().chosen,
            chooser,
            warm_ns: 0,
            known: None,
            left: REVIEW,
        }
    }

    /// The path of a write to a page that is not hot: the chosen one, or now and then the other to measure it.
    #[inline]
    pub(super) fn pick(&mut self) -> WritePath {
        self.chooser.pick()
    }

    pub(super) fn learn_cold(&mut self, now: Time, took_ns: u64) {
        self.cold.observe(now, took_ns as f64);
        self.learnt(now);
    }

    pub(super) fn learn_unload(&mut self, now: Time, took_ns: u64) {
        self.unload.observe(now, took_ns as f64);
        self.learnt(now);
    }

    /// Returns whether the write was as slow as one to a cold page; `None` while the two cannot be told apart.
    pub(super) fn learn_warm(&mut self, now: Time, took_ns: u64) -> Option<bool> {
        self.warm_ns = match self.warm_ns {
            0 => took_ns,
            warm if took_ns < warm => warm - (warm - took_ns).div_ceil(8),
            warm => warm + (took_ns - warm) / 512,
        };
        self.learnt(now);
        let costs = self.known?;
        Some(took_ns > u64::midpoint(costs.warm, costs.cold))
    }

    fn learnt(&mut self, now: Time) {
        self.left -= 1;
        if self.left == 0 {
            self.review(now);
        }
    }

    #[cold]
    fn review(&mut self, now: Time) {
        self.left = REVIEW;
        let evidence = [Evidence::from_signal(&self.cold), Evidence::from_signal(&self.unload)];
        self.chooser.review(now, &evidence);
        self.chosen = self.chooser.decision().chosen;
        if let (Some(cold), Some(unload)) = (self.cold.estimate(), self.unload.estimate())
            && self.warm_ns > 0
        {
            let (cold, unload) = (cold.value as u64, unload.value as u64);
            self.known = Some(Costs { warm: self.warm_ns, cold, unload });
        }
    }

    pub(super) fn costs(&self) -> Option<Costs> {
        self.known
    }

    /// What offloading costs on average and what unloading does, as far as they were measured.
    pub(super) fn averages(&self) -> Option<(f64, f64)> {
        Some((self.cold.estimate()?.value, self.unload.estimate()?.value))
    }

    pub(super) fn explain(&self, now: Time) -> Explanation<WritePath> {
        self.chooser.explain(now)
    }
}

/// How readily the choice for cold pages follows the measurements. A lead of a few percent is worth following, because
/// changing one's mind costs nothing here.
pub(super) const STEERING: SteeringConfig = SteeringConfig {
    window: Duration::from_micros(50),
    min_samples: 8,
    stale_after: Duration::from_secs(5),
    margin_percent: 3,
    noise_factor: 1,
    dwell: Duration::from_micros(500),
    switch_period: Duration::from_millis(10),
    switch_burst: 8,
    explore_after: Duration::from_millis(200),
    explore_one_in: 256,
    explore_fast_one_in: 16,
};
