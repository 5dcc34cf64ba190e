//! What is known of one site.

use std::collections::VecDeque;
use std::time::Duration;

use outboard_steering::{Cost, Estimate};
use outboard_wire::Time;
use outboard_wire::calling::SiteLoad;

use super::callers::Opinion;
use crate::slots::SLOTS;

/// Looks at a site that are remembered, and those of them that make its mean: so many, or those of so long. The mean
/// outlasts several turns of two processes that share a core, so that it has its share of those in which nothing ran.
const LOOKS: usize = 32;
const MEAN_LOOKS: usize = 6;
const MEAN_SPAN: Duration = Duration::from_millis(25);
/// How fast averages follow that are not about calls themselves.
const SMOOTH_NS: f64 = 24e6;
/// A site that has not reported for so long has no calls.
const IDLE_AFTER: Duration = Duration::from_millis(50);
/// Calls after which an average of what they keep workers busy has followed half of the way.
const RECENT_CALLS: u64 = 16;
/// The latest looks.
const RECENT_LOOKS: usize = 8;
/// A call that has waited for so many times what is usual tells more than those that were answered.
const OVERDUE: f64 = 4.0;
/// No site reports more than this of one message's time: what a stranger says counts no more than that.
const CALLS_MAX: u32 = 1 << 20;
const AGE_NS_MAX: u64 = 10_000_000_000;
const WORKERS_MAX: u32 = 4096;
const SPAN_NS_MAX: u64 = 10_000_000;
/// How fast what is usual follows, in looks.
const USUAL: f64 = 512.0;
/// How fast the scatter of looks is learnt, what it is taken for at first, and how much one look can add.
const SCATTER: f64 = 256.0;
const SCATTER_FIRST: f64 = 0.3;
const SCATTER_MAX: f64 = 1.5;
/// A site is kept from running if it was stuck at so many of its latest looks, with fewer than so much of the calls it
/// usually answers, or if a call keeps a worker busy so many times as long as usual.
const STUCK: f64 = 0.5;
const HINDERED_LOOKS: usize = 2;
const HINDERED_TIMES: f64 = 3.0;
/// The share of its time from which a site's queue grows long.
const BUSY: f64 = 0.7;
/// The share from which more calls only make others wait.
const FULL: f64 = 0.95;

/// Reports since the latest look.
#[derive(Clone, Copy, Debug, Default)]
struct Reports {
    oldest_ns: u64,
    served: u64,
    busy_ns: u64,
    capacity_ns: u64,
}

/// What calls cost at one look.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Time,
    cost_ns: f64,
    /// How many times as much it may be, since callers do not agree.
    dispute: f64,
    /// A call has waited for long, and few others were answered.
    is_stuck: bool,
}

/// What is known of one site.
#[derive(Debug)]
pub(super) struct Record {
    reports: Reports,
    /// Newest first.
    looks: VecDeque<Look>,
    /// Logarithm of what calls usually cost here.
    usual: Option<f64>,
    /// By how much the logarithm of a look's cost differs from that of the mean, on average.
    scatter: f64,
    pub(super) is_usable: bool,
    /// Calls a nanosecond that ended here, smoothed.
    pub(super) rate: f64,
    /// The busy share of its workers, what a call keeps a worker busy, and how many there are; if it says.
    pub(super) work: Option<Work>,
    /// How long it has been dearer than another, weighted by how much, in nanoseconds.
    pub(super) pressure_ns: f64,
    /// No slots come here before this, except in need.
    pub(super) retry_at: Time,
    pub(super) failures: u32,
    /// When slots came here last, and how many.
    pub(super) grown: Option<(Time, usize)>,
    /// The most slots that come here at once.
    pub(super) step_max: usize,
}

/// How busy a site is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) busy: f64,
    pub(super) call_ns: f64,
    pub(super) usual_call_ns: f64,
    pub(super) workers: f64,
    /// Time that workers had and time that they were busy, in parts of the time that passed, smoothed.
    capacity: f64,
    spent: f64,
    reported_at: Time,
}

/// How much a time of this length counts in an average.
fn smoothing(span_ns: f64) -> f64 {
    (span_ns / SMOOTH_NS).min(1.0)
}

impl Work {
    /// Calls a nanosecond that it can carry.
    pub(super) fn capacity(&self) -> Option<f64> {
        (self.usual_call_ns > 0.0).then(|| self.workers / self.usual_call_ns)
    }

    fn new(now: Time) -> Self {
        let (capacity, spent) = (0.0, 0.0);
        Self { busy: 0.0, call_ns: 0.0, usual_call_ns: 0.0, workers: 1.0, capacity, spent, reported_at: now }
    }

    /// Takes in what came in so long, which may be nothing: reports of a longer time come less often.
    fn learn(&mut self, now: Time, reports: &Reports, span_ns: f64) {
        let weight = smoothing(span_ns);
        self.capacity += (reports.capacity_ns as f64 / span_ns - self.capacity) * weight;
        self.spent += (reports.busy_ns as f64 / span_ns - self.spent) * weight;
        if reports.capacity_ns > 0 {
            self.reported_at = now;
        }
        // Who says nothing for long has no calls, or is far worse than busy.
        let is_idle = now - self.reported_at > IDLE_AFTER;
        self.busy = if is_idle { 0.0 } else { (self.spent / self.capacity).clamp(0.0, 1.0) };
        self.workers = self.capacity.clamp(1.0, WORKERS_MAX.into());
        let calls = reports.served;
        if calls == 0 {
            return;
        }
        let call_ns = reports.busy_ns as f64 / calls as f64;
        let follow = |average: &mut f64, calls_max: f64| {
            let weight = if *average == 0.0 { 1.0 } else { calls as f64 / (calls as f64 + calls_max) };
            *average += (call_ns - *average) * weight;
        };
        follow(&mut self.call_ns, RECENT_CALLS as f64);
        follow(&mut self.usual_call_ns, RECENT_CALLS as f64 * USUAL);
    }
}

impl Record {
    pub(super) fn new(is_usable: bool) -> Self {
        Self {
            reports: Reports::default(),
            looks: VecDeque::with_capacity(LOOKS),
            usual: None,
            scatter: SCATTER_FIRST,
            is_usable,
            rate: 0.0,
            work: None,
            pressure_ns: 0.0,
            retry_at: Time::ZERO,
            failures: 0,
            grown: None,
            step_max: SLOTS,
        }
    }

    pub(super) fn on_load(&mut self, load: &SiteLoad) {
        let calls = u64::from(load.calls.min(CALLS_MAX));
        let reports = &mut self.reports;
        reports.served = reports.served.saturating_add(calls);
        reports.oldest_ns = reports.oldest_ns.max(load.oldest_ns.min(AGE_NS_MAX));
        // Who has not said anything for long tells of a time that is over.
        let workers = u64::from(load.workers.min(WORKERS_MAX));
        let capacity_ns = load.span_ns.min(SPAN_NS_MAX) * workers;
        reports.capacity_ns = reports.capacity_ns.saturating_add(capacity_ns);
        reports.busy_ns = reports.busy_ns.saturating_add(load.busy_ns.min(capacity_ns));
    }

    /// Looks at what has come, and at what callers say. `elapsed` has passed since the look before.
    pub(super) fn look(
        &mut self,
        now: Time,
        elapsed: Duration,
        opinion: Option<Opinion>,
        stale_after: Duration,
    ) {
        let reports = std::mem::take(&mut self.reports);
        let span_ns = elapsed.as_nanos().max(1) as f64;
        let usual_calls = self.rate * span_ns;
        self.rate += (reports.served as f64 / span_ns - self.rate) * smoothing(span_ns);
        if reports.capacity_ns > 0 {
            self.work.get_or_insert_with(|| Work::new(now));
        }
        if let Some(work) = &mut self.work {
            work.learn(now, &reports, span_ns);
        }
        while self.looks.back().is_some_and(|look| now - look.at > stale_after) {
            self.looks.pop_back();
        }
        let Some(Opinion { at_least_ns: cost_ns, at_most_ns, oldest_ns }) = opinion else { return };
        let oldest_ns = oldest_ns.max(reports.oldest_ns as f64);
        let is_overdue = oldest_ns > OVERDUE * self.usual_ns().unwrap_or(cost_ns);
        // A queue that has grown long by itself still gets on.
        let is_stuck = is_overdue && (reports.served as f64) < STUCK * usual_calls;
        self.remember(Look { at: now, cost_ns, dispute: (at_most_ns / cost_ns).max(1.0), is_stuck });
    }

    fn remember(&mut self, look: Look) {
        self.looks.truncate(LOOKS - 1);
        self.looks.push_front(look);
        let (Some(recent), Some(mean)) = (self.recent_ns(), self.mean_ns()) else { return };
        let (recent, mean) = (recent.max(1.0).ln(), mean.max(1.0).ln());
        let usual = self.usual.get_or_insert(recent);
        *usual += (recent - *usual) / USUAL;
        self.scatter += ((recent - mean).abs().min(SCATTER_MAX) - self.scatter) / SCATTER;
    }

    /// What calls cost at the latest look, which has faded traces of those before.
    pub(super) fn recent_ns(&self) -> Option<f64> {
        self.looks.front().map(|look| look.cost_ns)
    }

    /// The looks that make the mean.
    fn counted(&self) -> impl Iterator<Item = &Look> + Clone {
        let newest = self.looks.front().map_or(Time::ZERO, |look| look.at);
        let is_counted =
            move |(index, look): &(usize, &Look)| *index < MEAN_LOOKS || newest - look.at < MEAN_SPAN;
        self.looks.iter().enumerate().take_while(is_counted).map(|(_, look)| look)
    }

    /// What calls cost on average of the last time.
    pub(super) fn mean_ns(&self) -> Option<f64> {
        let (sum, count) =
            self.counted().fold((0.0, 0), |(sum, count), look| (sum + look.cost_ns, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }

    /// How far the mean may be off, as a logarithm.
    pub(super) fn doubt(&self) -> f64 {
        let Some(mean) = self.mean_ns() else { return SCATTER_MAX };
        let off = |look: &Look| (look.cost_ns.max(1.0) / mean.max(1.0)).ln().abs();
        let (sum, count) = self.counted().fold((0.0, 0), |(sum, count), look| (sum + off(look), count + 1));
        sum / f64::from(count).powf(1.5)
    }

    /// What calls must be expected to cost, as most callers say.
    pub(super) fn expected_ns(&self) -> Option<f64> {
        Some(self.recent_ns()?.max(self.mean_ns()?) * self.looks.front()?.dispute)
    }

    /// How many times what is usual calls cost now.
    pub(super) fn worsening(&self) -> f64 {
        match (self.recent_ns(), self.usual) {
            (Some(recent), Some(usual)) => recent / usual.exp().max(1.0),
            _ => 1.0,
        }
    }

    /// Whether its workers are kept from running, so that it carries less than usual.
    pub(super) fn is_hindered(&self) -> bool {
        let stuck = self.looks.iter().take(RECENT_LOOKS).filter(|look| look.is_stuck).count();
        let is_slow = |work: &Work| work.call_ns > HINDERED_TIMES * work.usual_call_ns;
        stuck >= HINDERED_LOOKS || self.work.as_ref().is_some_and(is_slow)
    }

    /// Whether it has no time left.
    pub(super) fn is_full(&self) -> bool {
        self.work.is_some_and(|work| work.busy > FULL)
    }

    /// Whether calls wait because there are many. Who does not say how busy it is may be.
    pub(super) fn is_busy(&self) -> bool {
        self.work.is_none_or(|work| work.busy > BUSY)
    }

    /// What calls usually cost.
    pub(super) fn usual_ns(&self) -> Option<f64> {
        self.usual.map(f64::exp)
    }

    /// How far measurements are usually off, as a logarithm.
    pub(super) fn scatter(&self) -> f64 {
        self.scatter
    }

    /// What calls cost, for people.
    pub(super) fn cost(&self) -> Option<Cost> {
        let (value, look) = (self.recent_ns()?, self.looks.front()?);
        let spread = value * self.scatter;
        Some(Estimate { value, spread, measured_at: look.at, samples: self.looks.len() as u64 }.into())
    }
}
