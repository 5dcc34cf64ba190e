//! The true cost of work, and whether the choice follows it.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use outboard_steering::{Decision, Reason, Site, SteeringConfig};
use outboard_wire::Time;

use crate::Recorder;

/// The chosen site has become dear.
#[derive(Clone, Copy)]
struct Onset {
    site: Site,
    /// When it must have been left.
    limit: Time,
}

/// Knows the truth. The only one that does: choosers see measurements.
pub(super) struct Watch {
    recorder: Recorder,
    cost_ns: Cell<[f64; 3]>,
    onset: Cell<Option<Onset>>,
    /// When moves that were a choice were made.
    moves: RefCell<Vec<Time>>,
    /// Whether sites come and go, so that nothing is promised about speed.
    is_stormy: bool,
}

impl Watch {
    pub(super) fn new(recorder: Recorder, cost_ns: [f64; 3], is_stormy: bool) -> Self {
        let (cost_ns, onset) = (Cell::new(cost_ns), Cell::new(None));
        Self { recorder, cost_ns, onset, moves: RefCell::default(), is_stormy }
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    pub(super) fn cost_ns(&self, site: Site) -> f64 {
        self.cost_ns.get()[site as usize]
    }

    /// Makes the chosen site `factor` times as dear as the cheapest other one, which must be measured.
    pub(super) fn burden(&self, now: Time, site: Site, factor: f64) {
        let mut costs = self.cost_ns.get();
        let others = Site::ALL.into_iter().filter(|other| *other != site);
        let cheapest = others.map(|other| costs[other as usize]).fold(f64::MAX, f64::min);
        costs[site as usize] = cheapest * factor;
        self.cost_ns.set(costs);
        self.recorder.leave(now);
        self.recorder.note("burden", &[("site", site as u64), ("cost_ns", costs[site as usize] as u64)]);
        // Five buckets, one dwell and two reviews, from when the first dear piece of work has ended.
        let SteeringConfig { window, dwell, switch_burst, .. } = SteeringConfig::default();
        let patience = window * 5 + dwell + Duration::from_nanos(costs[site as usize] as u64 * 2);
        let is_promised = !self.is_stormy && self.moves.borrow().len() < switch_burst as usize;
        self.onset.set(is_promised.then(|| Onset { site, limit: now + patience }));
    }

    /// The chooser stays with `chosen`.
    pub(super) fn stays(&self, now: Time, chosen: Site) {
        match self.onset.get() {
            Some(Onset { site, limit }) if site == chosen => self.recorder.expect(now <= limit, || {
                format!("a site that is twice as dear is left in time: {site} is not, {:?} late", now - limit)
            }),
            _ => self.onset.set(None),
        }
    }

    /// The chooser moves.
    pub(super) fn moves(&self, now: Time, decision: &Decision<Site>) {
        let (to, from) = (decision.chosen, decision.former.unwrap_or(decision.chosen));
        self.recorder.note("move", &[("from", from as u64), ("to", to as u64)]);
        if decision.reason == Reason::FormerExcluded {
            return;
        }
        let (cost, former) = (self.cost_ns(to), self.cost_ns(from));
        self.recorder.expect(self.is_stormy || cost < former, || {
            format!("the choice moves to what is cheaper, not from {former:.0} ns to {cost:.0} ns")
        });
        let mut moves = self.moves.borrow_mut();
        moves.push(now);
        let SteeringConfig { switch_burst, switch_period, .. } = SteeringConfig::default();
        for (index, first) in moves.iter().enumerate() {
            let (count, span) = (moves.len() - index, now.since(*first));
            let most = f64::from(switch_burst) + span.as_secs_f64() / switch_period.as_secs_f64();
            self.recorder.expect(count as f64 <= most + 1e-9, || {
                format!("{count} moves within {span:?} are too many")
            });
        }
    }
}
