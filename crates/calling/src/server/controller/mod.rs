//! Moves slots between sites.
//!
//! It hears what callers see of sites and what sites say of themselves, looks at it once a tick, and moves slots away from a
//! site where calls cost more than they would elsewhere:
//!
//! - **Cost** is what a call takes as callers see it, waiting included, on average of the last tens of milliseconds; one
//!   that went elsewhere because nothing was heard counts by what it had waited. So it rises where too many calls wait,
//!   where a worker is kept from running, and where no site answers. A site that stands still for some milliseconds and is
//!   faster otherwise may be the cheaper one nevertheless: callers go elsewhere for that time by themselves.
//! - **Callers** have one voice each. A site is as dear as half of them say at least, and another as cheap as half of them
//!   say at most, so that one that lies moves nothing.
//! - **Leaving** takes some milliseconds of being dearer by more than margin and scatter, the longer the less dear it is. A
//!   site that has become far worse than usual is left by all slots at once, as far as the other can carry them; otherwise
//!   the other gets a few slots, then four times as many, as long as it remains cheaper.
//! - **Balance.** Calls cost the more the more there are, so slots end up divided such that all sites in use cost about the
//!   same: in proportion to what each can carry.
//! - **Probes.** Callers have single calls run at sites that have none, so that what calls cost there is known before it is
//!   needed, and shows when a site that was left has recovered.
//! - **Quiet.** A site that could not carry what it was given gets nothing for a while, twice as long each time; and any
//!   span `T` holds at most `shift_burst + T / shift_period` moves, not counting those away from a site that is lost.
//!
//! It knows calls and times, nothing of what they are for.

mod callers;
mod config;
mod explain;
mod record;
mod shift;
#[cfg(test)]
mod tests;

pub use callers::CallerNumber;
pub use config::ControllerConfig;
pub use shift::Shift;

use std::collections::VecDeque;
use std::time::Duration;

use outboard_steering::{Preference, Reason, Site};
use outboard_wire::calling::{Observed, SiteLoad};
use outboard_wire::{Time, mutant};

use crate::slots::{SLOTS, SlotTable};
use callers::Callers;
use record::Record;

/// Shifts that are remembered for people.
const SHIFTS_MAX: usize = 8;
/// Slots that a site gets at first, and by how many times what it has it grows.
const FIRST_SLOTS: usize = 8;
const GROWTH: usize = 3;
/// Fewer are not worth a move, unless there are no more.
const FEWEST_SLOTS: usize = 8;
/// So many times what is usual is a site that has become far worse.
const WORSE: f64 = 3.0;
/// How much of a site's time calls may fill when they are moved there in a hurry.
const FULL: f64 = 0.9;
/// How many scatters a difference must exceed on top of the margin.
const NOISE: f64 = 1.5;
/// How much a tick can count for and against leaving.
const FOR_MAX: f64 = 2.0;
const AGAINST_MAX: f64 = 1.0;
/// Time without a tick that counts as if it were none.
const GAP_MAX: Duration = Duration::from_millis(4);
/// Without reports for so long there is nothing to steer.
const QUIET_AFTER: Duration = Duration::from_millis(100);
/// Failures that lengthen the pause before a site is tried again.
const FAILURES_MAX: u32 = 6;
/// The longest time that answers of old calls are waited for.
const SETTLE_MAX: Duration = Duration::from_millis(20);

/// Decides which site runs the calls of which slot.
#[derive(Debug)]
pub struct Controller {
    config: ControllerConfig,
    table: SlotTable,
    records: [Record; 3],
    callers: Callers,
    /// The point at which every move made so far is forgiven.
    forgiven_at: Time,
    settled_at: Time,
    ticked_at: Time,
    heard_at: Option<Time>,
    /// The latest first.
    shifts: VecDeque<Shift>,
    shifts_total: u64,
    /// Where the search for slots to move goes on.
    cursor: u8,
}

impl Controller {
    /// All slots where they are wanted, or else at the server.
    pub fn new(config: ControllerConfig, now: Time) -> Self {
        let mut table = SlotTable::default();
        if let Preference::Hint(site) | Preference::Fixed(site) = config.preference {
            table.assign(0..=u8::MAX, site);
        }
        let records = Site::ALL.map(|site| Record::new(site == Site::Server));
        Self {
            config,
            table,
            records,
            callers: Callers::default(),
            forgiven_at: now,
            settled_at: now,
            ticked_at: now,
            heard_at: None,
            shifts: VecDeque::with_capacity(SHIFTS_MAX),
            shifts_total: 0,
            cursor: 0,
        }
    }

    /// Which site runs which slots.
    pub fn table(&self) -> &SlotTable {
        &self.table
    }

    /// How often slots were moved.
    pub fn shifts_total(&self) -> u64 {
        self.shifts_total
    }

    /// The latest moves, the last first.
    pub fn shifts(&self) -> impl Iterator<Item = &Shift> {
        self.shifts.iter()
    }

    /// A site says how it fares.
    pub fn on_load(&mut self, now: Time, site: Site, load: &SiteLoad) {
        // A server reports also while there are no calls.
        if load.calls > 0 || load.oldest_ns > 0 {
            self.hear(now);
        }
        self.records[site as usize].on_load(load);
    }

    /// A caller says what it sees.
    pub fn on_observed(&mut self, now: Time, caller: CallerNumber, observed: &Observed) {
        self.hear(now);
        self.callers.hear(now, caller, observed);
    }

    /// A caller is gone.
    pub fn forget_caller(&mut self, caller: CallerNumber) {
        self.callers.forget(caller);
    }

    fn hear(&mut self, now: Time) {
        if self.next_deadline().is_none() {
            // Time without calls says nothing.
            self.ticked_at = now;
        }
        self.heard_at = Some(now);
    }

    /// When there is something to look at.
    pub fn next_deadline(&self) -> Option<Time> {
        let heard_at = self.heard_at?;
        (self.ticked_at - heard_at < QUIET_AFTER).then(|| self.ticked_at + self.config.tick)
    }

    /// Looks at what has come. Returns whether the table has changed.
    pub fn on_time(&mut self, now: Time) -> bool {
        if self.next_deadline().is_none_or(|due| now < due) {
            return false;
        }
        let (before, elapsed) = (self.ticked_at, now - self.ticked_at);
        self.ticked_at = now;
        let epoch = self.table.epoch();
        for (record, site) in self.records.iter_mut().zip(Site::ALL) {
            let opinion = self.callers.opinion(now, before, site);
            record.look(now, elapsed, opinion, self.config.stale_after);
            // The server hears the callers, so it is there.
            let is_usable = self.callers.is_usable(now, site).unwrap_or(record.is_usable);
            record.is_usable = is_usable || site == Site::Server;
        }
        self.callers.fade(now, elapsed, self.config.stale_after);
        if matches!(self.config.preference, Preference::Fixed(_)) {
            return false;
        }
        self.flee(now);
        if now >= self.settled_at {
            self.weigh(now, elapsed.min(GAP_MAX));
        }
        self.table.epoch() != epoch
    }

    fn record(&self, site: Site) -> &Record {
        &self.records[site as usize]
    }

    fn count(&self, site: Site) -> usize {
        self.table.counts()[site as usize]
    }

    /// What a call costs at a site, for comparing: a hinted site counts as cheaper.
    fn rank_ns(&self, site: Site, ns: f64) -> f64 {
        if self.config.preference == Preference::Hint(site) { ns / self.config.margin() } else { ns }
    }

    /// The site other than `from` where calls must be expected to cost least.
    fn cheapest_but(&self, from: Site) -> Option<(Site, f64)> {
        let others = Site::ALL.into_iter().filter(|site| *site != from && self.record(*site).is_usable);
        let known =
            others.filter_map(|site| Some((site, self.rank_ns(site, self.record(site).expected_ns()?))));
        known.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Everything leaves sites that cannot be used.
    fn flee(&mut self, now: Time) {
        for from in Site::ALL {
            let slots = self.count(from);
            if slots == 0 || self.record(from).is_usable {
                continue;
            }
            let to = self.cheapest_but(from).map_or(Site::Server, |(site, _)| site);
            self.shift(now, (from, to), slots, Reason::FormerExcluded);
        }
    }

    /// Weighs every site that has slots against the cheapest other, and moves what has been dearer for long enough.
    fn weigh(&mut self, now: Time, elapsed: Duration) {
        let dwell_ns = self.config.dwell.as_nanos() as f64;
        let mut leaving: Option<(Site, Site, f64)> = None;
        for from in Site::ALL {
            let compared = self.cheapest_but(from).zip(self.record(from).recent_ns());
            let Some(((to, expected_ns), recent_ns)) = compared.filter(|_| self.count(from) > 0) else {
                self.records[from as usize].pressure_ns = 0.0;
                continue;
            };
            let ratio = self.rank_ns(from, recent_ns) / expected_ns.max(1.0);
            let noise = NOISE * (self.record(from).scatter() + self.record(to).doubt());
            let lead = ratio.max(f64::MIN_POSITIVE).ln() - self.config.margin().ln() - noise;
            let record = &mut self.records[from as usize];
            let weight = lead.clamp(-AGAINST_MAX, FOR_MAX);
            record.pressure_ns = (record.pressure_ns + weight * elapsed.as_nanos() as f64).max(0.0);
            if record.pressure_ns >= dwell_ns && leaving.is_none_or(|(.., most)| ratio > most) {
                leaving = Some((from, to, ratio));
            }
        }
        if let Some((from, to, ratio)) = leaving {
            self.leave(now, (from, to), ratio);
        }
    }

    /// Moves as many slots as is prudent.
    fn leave(&mut self, now: Time, (from, to): (Site, Site), ratio: f64) {
        let (former, next) = (self.record(from), self.record(to));
        let (is_worse, is_hindered) = (former.worsening() >= WORSE, former.is_hindered());
        // Where both are full, which of them has the longer queue is a matter of luck.
        if !is_hindered && next.is_full() || !is_worse && now < next.retry_at {
            return;
        }
        let spare = self.count(from);
        // Where calls cost in proportion to their number, this halves the distance on a logarithmic scale.
        let fair = (spare as f64 * (1.0 - ratio.max(1.0).sqrt().recip())).ceil() as usize;
        let grown = FIRST_SLOTS.max(GROWTH * self.count(to));
        let hurried = self.room_at(to).max(grown);
        let slots = match self.overgrown(now, from) {
            _ if is_worse && is_hindered => hurried,
            Some(too_many) => too_many.div_ceil(2).min(self.imbalance(from, to)),
            None if former.is_busy() => {
                let at_once = if is_worse { hurried } else { grown.min(next.step_max) };
                fair.min(at_once).min(self.imbalance(from, to))
            }
            None => grown.min(next.step_max).min(self.room_at(to)),
        };
        let slots = slots.min(spare);
        if slots < FEWEST_SLOTS.min(spare) || slots == 0 || !self.spend(now) {
            return;
        }
        self.judge(now, from);
        self.shift(now, (from, to), slots, Reason::Cheaper);
    }

    /// For how many more slots a site has time, if it says how busy it is.
    fn room_at(&self, site: Site) -> usize {
        let Some(work) = self.record(site).work.filter(|work| work.call_ns > 0.0) else { return SLOTS };
        let rate: f64 = self.records.iter().map(|record| record.rate).sum();
        let slot_share = rate / SLOTS as f64 * work.call_ns / work.workers;
        // Conversions of floats to integers saturate, and infinity is no trouble.
        ((FULL - work.busy).max(0.0) / slot_share) as usize
    }

    /// How many more slots a site has than its share of those of both, if both say what they can carry.
    fn imbalance(&self, from: Site, to: Site) -> usize {
        let capacity = |site| self.record(site).work.and_then(|work| work.capacity());
        let Some((here, there)) = capacity(from).zip(capacity(to)) else { return SLOTS };
        let both = self.count(from) + self.count(to);
        let share = both as f64 * here / (here + there);
        self.count(from).saturating_sub(share as usize)
    }

    fn spend(&mut self, now: Time) -> bool {
        let Some(others) = self.config.shift_burst.checked_sub(1) else { return false };
        let is_spent = self.forgiven_at - now > self.config.shift_period.saturating_mul(others);
        if is_spent && !mutant("calling.shift-budget-ignored") {
            return false;
        }
        self.forgiven_at = self.forgiven_at.max(now) + self.config.shift_period;
        true
    }

    /// How long a site is left alone that has failed so many times.
    fn pause(&self, failures: u32) -> Duration {
        self.config.retry_after.saturating_mul(1 << failures.min(FAILURES_MAX))
    }

    /// How many slots came to a site lately, which may have been too many.
    fn overgrown(&self, now: Time, site: Site) -> Option<usize> {
        let record = self.record(site);
        let (_, slots) = record.grown.filter(|(at, _)| now - *at <= self.pause(record.failures))?;
        Some(slots)
    }

    /// A site that is left soon after slots came to it has failed: it is tried later the next time, and with fewer.
    fn judge(&mut self, now: Time, site: Site) {
        let overgrown = self.overgrown(now, site);
        let record = &mut self.records[site as usize];
        record.failures = overgrown.map_or(0, |_| (record.failures + 1).min(FAILURES_MAX));
        record.step_max = overgrown.map_or(SLOTS, |slots| slots.div_ceil(2));
        let pause = self.pause(self.record(site).failures);
        self.records[site as usize].retry_at = now + pause;
    }

    /// Moves load.
    fn shift(&mut self, now: Time, (from, to): (Site, Site), slots: usize, reason: Reason) {
        let (former_cost, cost) = (self.record(from).cost(), self.record(to).cost());
        let moved = self.assign((from, to), slots);
        self.shifts_total += 1;
        self.shifts.truncate(SHIFTS_MAX - 1);
        let epoch = self.table.epoch();
        self.shifts.push_front(Shift { at: now, epoch, slots: moved, from, to, reason, former_cost, cost });
        let answers_ns = self.record(from).recent_ns().unwrap_or(0.0);
        let answers = Duration::from_nanos((2.0 * answers_ns) as u64).min(SETTLE_MAX);
        self.settled_at = now + self.config.settle.max(answers);
        self.records.iter_mut().for_each(|record| record.pressure_ns = 0.0);
        self.records[to as usize].grown = Some((now, moved));
    }

    /// Moves so many slots, or as many as there are.
    fn assign(&mut self, (from, to): (Site, Site), slots: usize) -> usize {
        let cursor = self.cursor;
        let all = (0..=u8::MAX).map(|step| cursor.wrapping_add(step));
        let chosen: Vec<u8> = all.filter(|slot| self.table.site(*slot) == from).take(slots).collect();
        self.cursor = chosen.last().map_or(cursor, |last| last.wrapping_add(1));
        self.table.assign(chosen, to)
    }
}
