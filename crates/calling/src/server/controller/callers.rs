//! What callers say of sites. Each has one voice, whatever it says: a move needs more than half of them.

use std::collections::BTreeMap;
use std::time::Duration;

use outboard_steering::Site;
use outboard_wire::Time;
use outboard_wire::calling::{Observed, Seen};

/// How fast what a caller has said loses weight: the time in which it falls to a third. It outlasts a turn of two
/// processes that share a core.
const FADING: Duration = Duration::from_millis(12);
/// A caller that has said nothing for so long has no voice.
const ABSENT_AFTER: Duration = Duration::from_millis(100);
/// No caller has seen more than this between two reports: what a stranger says counts no more than that.
const CALLS_MAX: u32 = 1 << 20;
const MEAN_NS_MAX: u64 = 10_000_000_000;

/// A caller, by the number that the memory server has given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerNumber(pub u64);

/// What one caller has said of one site.
#[derive(Clone, Copy, Debug, Default)]
struct View {
    /// Calls and what they took, the older ones faded.
    calls: f64,
    sum_ns: f64,
    /// The age of the oldest call, as it was last told.
    oldest_ns: u64,
    is_usable: bool,
    /// When it last told of a call.
    told_at: Option<Time>,
}

impl View {
    fn hear(&mut self, seen: &Seen, now: Time) {
        let bound = |ns: u64, calls: u32| ns.min(u64::from(calls) * MEAN_NS_MAX) as f64;
        let (calls, left) = (seen.calls.min(CALLS_MAX), seen.left.min(CALLS_MAX));
        self.calls += f64::from(calls) + f64::from(left);
        self.sum_ns += bound(seen.round_trips_ns, calls) + bound(seen.left_ns, left);
        self.oldest_ns = seen.oldest_ns.min(MEAN_NS_MAX);
        self.is_usable = seen.is_usable;
        if calls + left > 0 || seen.oldest_ns > 0 {
            self.told_at = Some(now);
        }
    }

    /// What a call costs. One that has waited for longer than others took counts by its age. Calls that were answered before
    /// the caller looked at the clock cost next to nothing, which is not the same as nothing known.
    fn cost_ns(&self) -> Option<f64> {
        let mean = if self.calls > 0.0 { self.sum_ns / self.calls } else { 0.0 };
        let oldest_ns = self.oldest_ns as f64;
        let cost = if oldest_ns > mean { (self.sum_ns + oldest_ns) / (self.calls + 1.0) } else { mean };
        (self.calls > 0.0 || oldest_ns > 0.0).then_some(cost.max(1.0))
    }
}

/// What most callers say of a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Opinion {
    /// Half of those who know the site say that calls cost at least this.
    pub(super) at_least_ns: f64,
    /// Half of all callers say that calls cost at most this; infinite if half know nothing of it.
    pub(super) at_most_ns: f64,
    /// For half of those who know it the oldest call is at least as old.
    pub(super) oldest_ns: f64,
}

/// The value that so many others are not above. There may be thousands of callers, so they are not sorted.
fn nth(values: &mut [f64], place: usize) -> f64 {
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}

/// What all callers say.
#[derive(Debug, Default)]
pub(super) struct Callers {
    known: BTreeMap<CallerNumber, (Time, [View; 3])>,
    /// Calls that have left a site.
    left_total: [u64; 3],
}

impl Callers {
    pub(super) fn hear(&mut self, now: Time, caller: CallerNumber, observed: &Observed) {
        let (heard_at, views) = self.known.entry(caller).or_insert((now, [View::default(); 3]));
        *heard_at = now;
        for (number, (view, seen)) in views.iter_mut().zip(&observed.sites).enumerate() {
            view.hear(seen, now);
            self.left_total[number] += u64::from(seen.left.min(CALLS_MAX));
        }
    }

    pub(super) fn forget(&mut self, caller: CallerNumber) {
        self.known.remove(&caller);
    }

    /// Lets what was said so long ago lose weight, and forgets who is absent.
    pub(super) fn fade(&mut self, now: Time, elapsed: Duration, stale_after: Duration) {
        let factor = (-elapsed.as_secs_f64() / FADING.as_secs_f64()).exp();
        for (_, views) in self.known.values_mut() {
            for view in views {
                (view.calls, view.sum_ns) = (view.calls * factor, view.sum_ns * factor);
                if view.told_at.is_some_and(|at| now - at > stale_after) {
                    *view = View { is_usable: view.is_usable, ..View::default() };
                }
            }
        }
        self.known.retain(|_, (heard_at, _)| now - *heard_at <= stale_after);
    }

    fn present(&self, now: Time) -> impl Iterator<Item = &[View; 3]> {
        let is_present = move |(heard_at, _): &&(Time, [View; 3])| now - *heard_at <= ABSENT_AFTER;
        self.known.values().filter(is_present).map(|(_, views)| views)
    }

    /// Whether a caller can use a site; `None` without callers.
    pub(super) fn is_usable(&self, now: Time, site: Site) -> Option<bool> {
        self.present(now).map(|views| views[site as usize].is_usable).reduce(|a, b| a | b)
    }

    /// What most callers say of a site, if one has said something since the time `since`.
    pub(super) fn opinion(&self, now: Time, since: Time, site: Site) -> Option<Opinion> {
        let views = || self.present(now).map(|views| &views[site as usize]);
        if !views().any(|view| view.told_at.is_some_and(|at| at >= since)) {
            return None;
        }
        let mut costs: Vec<f64> = views().map(|view| view.cost_ns().unwrap_or(f64::INFINITY)).collect();
        let knowing = costs.iter().filter(|cost| cost.is_finite()).count();
        let told = views().filter(|view| view.told_at.is_some());
        let mut ages: Vec<f64> = told.map(|view| view.oldest_ns as f64).collect();
        let (half, lower_half) = (costs.len() / 2, ages.len().checked_sub(1)? / 2);
        Some(Opinion {
            at_least_ns: nth(&mut costs, knowing.checked_sub(1)? / 2),
            at_most_ns: nth(&mut costs, half),
            oldest_ns: nth(&mut ages, lower_half),
        })
    }

    /// How many calls have left a site because it was silent.
    pub(super) fn left_total(&self, site: Site) -> u64 {
        self.left_total[site as usize]
    }
}
