//! Chooses one of a few options and changes its mind only for good reasons.

use core::fmt;
use core::time::Duration;

use outboard_wire::time::Time;

use crate::budget::Budget;
use crate::explorer::Explorer;
use crate::{
    Cost, Decision, Evidence, Explanation, Preference, Reason, Review, Rival, SteeringConfig, UnknownOption,
};

/// Cap on how many times over a lead may count; also what a lead over a threshold of zero counts for.
const STRENGTH_MAX: f64 = 1e6;

/// Chooses among `N` options.
///
/// An option is left when a rival's lead exceeds margin and noise long enough: the lead, in multiples of
/// what it must exceed, summed over time reaches `dwell`. So a small lead needs all of the dwell, a large
/// one a fraction of it, and a lead that comes and goes starts again from nothing. The sum counts against
/// the chosen option, not for a particular rival, so two good rivals cannot block each other.
#[derive(Clone, Debug)]
pub struct Chooser<O, const N: usize> {
    options: [O; N],
    config: SteeringConfig,
    preference: Preference<usize>,
    chosen: usize,
    decision: Decision<O>,
    switches: u64,
    budget: Budget,
    explorer: Explorer<N>,
    reviewed_at: Time,
    /// Lead times duration so far, in nanoseconds: compared with the dwell.
    pressure_ns: f64,
    comparison: Comparison,
    review: Review,
}

/// The chosen option against its cheapest rival at one review.
#[derive(Clone, Copy, Debug, Default)]
struct Comparison {
    cost: Option<Cost>,
    rival: Option<(usize, Cost)>,
    /// The rival's lead in multiples of what it must exceed; 0 when it does not.
    strength: f64,
}

impl Comparison {
    /// How a choice stands that nothing presses.
    fn settled(&self) -> Review {
        match (self.cost, self.rival) {
            (Some(cost), Some((_, rival))) if rival.ns() < cost.ns() => Review::WithinMargin,
            (Some(_), Some(_)) => Review::Cheapest,
            _ => Review::Alone,
        }
    }
}

impl<O: Copy + PartialEq + fmt::Display, const N: usize> Chooser<O, N> {
    /// A chooser among `options`, which begins with the preferred one or else with the first.
    ///
    /// # Errors
    /// If the preferred option is not among `options`.
    pub fn new(
        options: [O; N],
        preference: Preference<O>,
        config: SteeringConfig,
        now: Time,
    ) -> Result<Self, UnknownOption<O>> {
        const { assert!(N > 0, "a choice needs options") }
        let find = |option| options.iter().position(|known| *known == option).ok_or(UnknownOption { option });
        let (preference, chosen, reason) = match preference {
            Preference::Auto => (Preference::Auto, 0, Reason::Start),
            Preference::Hint(option) => (Preference::Hint(find(option)?), find(option)?, Reason::Hint),
            Preference::Fixed(option) => (Preference::Fixed(find(option)?), find(option)?, Reason::Fixed),
        };
        let chosen_option = options[chosen];
        Ok(Self {
            options,
            config,
            preference,
            chosen,
            decision: Decision {
                chosen: chosen_option,
                since: now,
                reason,
                cost: None,
                former: None,
                former_cost: None,
            },
            switches: 0,
            budget: Budget::default(),
            explorer: Explorer::new(),
            reviewed_at: now,
            pressure_ns: 0.0,
            comparison: Comparison::default(),
            review: Review::Alone,
        })
    }

    /// The option for the next piece of work: the chosen one, or now and then one that needs measuring.
    #[inline]
    pub fn pick(&mut self) -> O {
        self.options[self.explorer.turn().unwrap_or(self.chosen)]
    }

    /// Weighs fresh evidence, given in the order of the options. Returns the decision if it is a new one.
    ///
    /// Call it at least a few times per dwell; it takes some tens of nanoseconds.
    pub fn review(&mut self, now: Time, evidence: &[Evidence; N]) -> Option<Decision<O>> {
        let elapsed = now - self.reviewed_at;
        self.reviewed_at = now;
        let before = self.comparison.strength;
        self.comparison = self.compare(now, evidence);
        if matches!(self.preference, Preference::Fixed(_)) {
            self.review = Review::Fixed;
            return None;
        }
        let target = if evidence[self.chosen] == Evidence::Excluded {
            self.refuge(evidence).map(|refuge| (refuge, Reason::FormerExcluded))
        } else {
            self.weigh(now, elapsed, before)
        };
        if let Some((target, reason)) = target {
            self.switch(now, target, reason, evidence);
        }
        self.explorer.plan(now, &self.config, self.chosen, evidence);
        target.map(|_| self.decision)
    }

    /// The present choice.
    pub fn decision(&self) -> &Decision<O> {
        &self.decision
    }

    /// How often the choice has changed.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// The present choice with the figures of the latest review.
    pub fn explain(&self, now: Time) -> Explanation<O> {
        Explanation {
            chosen: self.decision.chosen,
            held: now - self.decision.since,
            reason: self.decision.reason,
            former: self.decision.former,
            cost: self.comparison.cost,
            rival: self.comparison.rival.map(|(index, cost)| Rival { option: self.options[index], cost }),
            margin_percent: self.config.margin_percent,
            review: self.review,
        }
    }

    fn compare(&self, now: Time, evidence: &[Evidence; N]) -> Comparison {
        let cost = self.fresh(now, evidence[self.chosen]);
        let rival = (0..N)
            .filter(|&index| index != self.chosen)
            .filter_map(|index| Some((index, self.fresh(now, evidence[index])?)))
            .min_by(|a, b| self.rank_ns(a.0, a.1).total_cmp(&self.rank_ns(b.0, b.1)));
        let strength = match (cost, rival) {
            (Some(cost), Some((index, rival))) => self.strength(cost, index, rival),
            // Nothing speaks for a choice that is no longer measured, nothing urgent against it either.
            (None, Some(_)) => 1.0,
            (_, None) => 0.0,
        };
        Comparison { cost, rival, strength }
    }

    fn strength(&self, cost: Cost, rival_index: usize, rival: Cost) -> f64 {
        let rival_ns = self.rank_ns(rival_index, rival);
        let lead = self.rank_ns(self.chosen, cost) - rival_ns;
        let margin = rival_ns * (self.config.margin_factor() - 1.0);
        let noise = f64::from(self.config.noise_factor) * (cost.spread_ns() + rival.spread_ns());
        let threshold = margin + noise;
        if lead > threshold { (lead / threshold).min(STRENGTH_MAX) } else { 0.0 }
    }

    fn fresh(&self, now: Time, evidence: Evidence) -> Option<Cost> {
        match evidence {
            Evidence::Measured(cost) if now - cost.measured_at() < self.config.stale_after => Some(cost),
            _ => None,
        }
    }

    /// The cost as the comparison sees it: a hinted option counts as cheaper by the margin.
    fn rank_ns(&self, index: usize, cost: Cost) -> f64 {
        if self.preference == Preference::Hint(index) {
            cost.ns() / self.config.margin_factor()
        } else {
            cost.ns()
        }
    }

    /// Adds this review to the pressure, and says where to go once that is enough.
    fn weigh(&mut self, now: Time, elapsed: Duration, before: f64) -> Option<(usize, Reason)> {
        let Comparison { cost, rival, strength } = self.comparison;
        let (Some((rival_index, rival_cost)), true) = (rival, strength > 0.0) else {
            self.pressure_ns = 0.0;
            self.review = self.comparison.settled();
            return None;
        };
        // The weaker of two successive leads is what lasted all the time between them.
        self.pressure_ns += strength.min(before) * elapsed.as_nanos() as f64;
        let dwell_ns = self.config.dwell.as_nanos() as f64;
        if self.pressure_ns < dwell_ns {
            self.review = Review::Weighing { percent: (self.pressure_ns / dwell_ns * 100.0) as u8 };
            return None;
        }
        if !self.budget.spend(now, &self.config) {
            self.review = Review::Throttled;
            return None;
        }
        debug_assert!(now - rival_cost.measured_at() < self.config.stale_after);
        Some((rival_index, if cost.is_some() { Reason::Cheaper } else { Reason::FormerStale }))
    }

    /// Where to go from an excluded option: the cheapest rival, else the hint, else whatever is usable.
    fn refuge(&mut self, evidence: &[Evidence; N]) -> Option<usize> {
        self.pressure_ns = 0.0;
        self.review = Review::Excluded;
        let usable = |index: &usize| evidence[*index] != Evidence::Excluded;
        let hinted = match self.preference {
            Preference::Hint(index) => Some(index),
            _ => None,
        };
        let cheapest = self.comparison.rival.map(|(index, _)| index);
        cheapest.or(hinted.filter(usable)).or_else(|| (0..N).find(usable))
    }

    fn switch(&mut self, now: Time, target: usize, reason: Reason, evidence: &[Evidence; N]) {
        let former_cost = self.comparison.cost;
        let former = self.options[self.chosen];
        self.chosen = target;
        self.switches = self.switches.saturating_add(1);
        self.pressure_ns = 0.0;
        self.comparison = self.compare(now, evidence);
        self.decision = Decision {
            chosen: self.options[target],
            since: now,
            reason,
            cost: self.comparison.cost,
            former: Some(former),
            former_cost,
        };
        self.review = self.comparison.settled();
    }
}
