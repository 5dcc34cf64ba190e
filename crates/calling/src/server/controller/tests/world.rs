//! Callers and sites in virtual time: queues, workers, and processes that take their cores away. Callers go elsewhere when
//! a site is silent, and probe sites that have no calls, as dispatchers do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use fastrand::Rng;
use outboard_steering::Site;
use outboard_wire::Time;
use outboard_wire::calling::{Observed, Seen, SiteLoad};

use crate::{CallerNumber, Controller, ControllerConfig};

/// How calls come.
#[derive(Clone, Copy)]
pub(super) enum Demand {
    /// So many a second, whatever becomes of them.
    Open(f64),
    /// So many at a time, each followed by another when it is answered.
    Closed(usize),
}

/// How long work takes at a site.
#[derive(Clone, Copy)]
pub(super) struct Nature {
    /// On average.
    pub(super) service_ns: f64,
    /// How far off a call may be: evenly by so much of the mean, or exponentially.
    pub(super) scatter: Scatter,
    /// There and back.
    pub(super) latency_ns: f64,
}

#[derive(Clone, Copy)]
pub(super) enum Scatter {
    Even(f64),
    Exponential,
}

/// One worker, first come first served.
struct Station {
    nature: Nature,
    queue: VecDeque<(u64, u64)>,
    serving: Option<(u64, u64)>,
    /// Since when another process has the core, for so long out of so long.
    competitor: Option<(u64, u64, u64)>,
    is_silent: bool,
    load: SiteLoad,
    reported_at: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin,
    Arrive(u8, u64),
    Finish(u8),
    Answer(u8, u64),
    Tick,
}

pub(super) struct World {
    pub(super) controller: Controller,
    random: Rng,
    now: u64,
    next: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    stations: [Station; 3],
    usable: [bool; 3],
    demand: Demand,
    /// When calls under way began, by site.
    under_way: [BTreeMap<u64, u64>; 3],
    observed: Observed,
    /// Since when a site has not been heard that has calls, and whether callers go elsewhere because of that.
    quiet_since: [u64; 3],
    pub(super) is_silent: [bool; 3],
    /// Whether calls may write, and stay where they are.
    pub(super) writes: bool,
    /// The call that is a probe, and when it began; and when the next is due.
    probes: [(Option<(u64, u64)>, u64); 3],
    /// One that says what it likes.
    pub(super) liar: Option<Observed>,
    pub(super) done: u64,
    /// When load was moved, and where slots were then.
    pub(super) shifts: Vec<(u64, [usize; 3])>,
}

pub(super) const MS: u64 = 1_000_000;

impl World {
    pub(super) fn new(seed: u64, demand: Demand, natures: [Nature; 3], config: ControllerConfig) -> Self {
        let station = |nature| Station {
            nature,
            queue: VecDeque::new(),
            serving: None,
            competitor: None,
            is_silent: false,
            load: SiteLoad::default(),
            reported_at: 0,
        };
        let mut world = Self {
            controller: Controller::new(config, Time::ZERO),
            random: Rng::with_seed(seed),
            now: 0,
            next: 0,
            events: BinaryHeap::new(),
            stations: natures.map(station),
            usable: [false, true, true],
            demand,
            under_way: Default::default(),
            observed: Observed::default(),
            quiet_since: [0; 3],
            is_silent: [false; 3],
            writes: false,
            probes: [(None, 0); 3],
            liar: None,
            done: 0,
            shifts: Vec::new(),
        };
        world.plan(MS, Event::Tick);
        world.demand(demand);
        world
    }

    /// From now on this demand. What is under way stays so.
    pub(super) fn demand(&mut self, demand: Demand) {
        self.demand = demand;
        self.events.retain(|Reverse((.., event))| *event != Event::Begin);
        let count = match demand {
            Demand::Open(_) => 1,
            Demand::Closed(depth) => depth,
        };
        (0..count).for_each(|_| self.plan(0, Event::Begin));
    }

    pub(super) fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    pub(super) fn counts(&self) -> [usize; 3] {
        self.controller.table().counts()
    }

    /// From then on another process takes a site's core, for so long out of so long; or it goes.
    pub(super) fn compete(&mut self, site: Site, competitor: Option<(u64, u64, u64)>) {
        self.stations[site as usize].competitor = competitor;
    }

    pub(super) fn silence(&mut self, site: Site, is_silent: bool) {
        self.stations[site as usize].is_silent = is_silent;
    }

    /// A site is lost, or comes. Calls under way there begin again.
    pub(super) fn set_usable(&mut self, site: Site, is_usable: bool) {
        self.usable[site as usize] = is_usable;
        let lost =
            if is_usable { BTreeMap::new() } else { std::mem::take(&mut self.under_way[site as usize]) };
        lost.iter().for_each(|_| self.plan(0, Event::Begin));
    }

    pub(super) fn run(&mut self, span: Duration) {
        let until = self.now + span.as_nanos() as u64;
        self.run_until(until, |_| false);
    }

    /// Runs until something holds, and says when, or until then.
    pub(super) fn run_until(&mut self, until: u64, mut done: impl FnMut(&Self) -> bool) -> Option<u64> {
        while let Some(Reverse((at, _, event))) = self.events.peek().copied() {
            if at > until {
                break;
            }
            self.events.pop();
            self.now = at;
            self.happen(event);
            if event == Event::Tick && done(self) {
                return Some(at);
            }
        }
        self.now = until;
        None
    }

    fn plan(&mut self, after: u64, event: Event) {
        self.next += 1;
        self.events.push(Reverse((self.now + after, self.next, event)));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Begin => self.begin(),
            Event::Arrive(site, call) => {
                self.stations[usize::from(site)].queue.push_back((self.now, call));
                self.serve(site);
            }
            Event::Finish(site) => self.finish(site),
            Event::Answer(site, call) => self.answer(site, call),
            Event::Tick => self.tick(),
        }
    }

    fn begin(&mut self) {
        if let Demand::Open(per_second) = self.demand {
            let pause = -self.random.f64().max(1e-9).ln() * 1e9 / per_second;
            self.plan(pause as u64, Event::Begin);
        }
        let slot = self.random.u8(..);
        let meant = self.controller.table().site(slot);
        let can_go = |site: &Site| self.usable[*site as usize] && !self.is_silent[*site as usize];
        let another = [Site::Server, Site::Agent].into_iter().find(can_go).unwrap_or(Site::Server);
        let site = if can_go(&meant) { meant } else { another };
        self.next += 1;
        self.begin_at(site, self.next);
        self.probe(site);
    }

    fn begin_at(&mut self, site: Site, call: u64) {
        if self.under_way[site as usize].is_empty() {
            self.quiet_since[site as usize] = self.now;
        }
        self.under_way[site as usize].insert(call, self.now);
        self.send(site, call);
    }

    fn send(&mut self, site: Site, call: u64) {
        let latency = self.stations[site as usize].nature.latency_ns / 2.0;
        self.plan(latency as u64, Event::Arrive(site as u8, call));
    }

    fn probe(&mut self, meant: Site) {
        for site in Site::ALL.into_iter().filter(|site| *site != meant) {
            let (probe, due) = self.probes[site as usize];
            let is_idle = self.usable[site as usize] && self.under_way[site as usize].is_empty();
            if is_idle && probe.is_none() && self.now >= due {
                self.next += 1;
                self.probes[site as usize].0 = Some((self.next, self.now));
                self.send(site, self.next);
            }
        }
    }

    /// Calls leave sites that have been silent for a millisecond.
    fn detour(&mut self) {
        for (site, other) in [(Site::Agent, Site::Server), (Site::Server, Site::Agent)] {
            let index = site as usize;
            let is_quiet = !self.under_way[index].is_empty() && self.now - self.quiet_since[index] >= MS;
            if !is_quiet || self.is_silent[index] || !self.usable[other as usize] {
                continue;
            }
            self.is_silent[index] = true;
            if self.writes || self.is_silent[other as usize] {
                continue;
            }
            let seen = &mut self.observed.sites[index];
            let left = std::mem::take(&mut self.under_way[index]);
            seen.left += left.len() as u32;
            seen.left_ns += left.len() as u64 * (self.now - self.quiet_since[index]);
            left.into_keys().for_each(|call| self.begin_at(other, call));
        }
    }

    fn serve(&mut self, site: u8) {
        let station = &mut self.stations[usize::from(site)];
        if station.serving.is_some() || station.is_silent {
            return;
        }
        let Some((arrived, call)) = station.queue.pop_front() else { return };
        let Nature { service_ns, scatter, .. } = station.nature;
        let factor = match scatter {
            Scatter::Even(part) => 1.0 + part * (2.0 * self.random.f64() - 1.0),
            Scatter::Exponential => -self.random.f64().max(1e-9).ln(),
        };
        let work = (service_ns * factor) as u64 + 1;
        let begun = station.free_from(self.now);
        let end = station.after(begun, work);
        station.serving = Some((arrived, call));
        station.load.queueing_ns += begun - arrived;
        station.load.service_ns += end - begun;
        station.load.busy_ns += end - begun;
        self.plan(end - self.now, Event::Finish(site));
    }

    fn finish(&mut self, site: u8) {
        let station = &mut self.stations[usize::from(site)];
        let Some((_, call)) = station.serving.take() else { return };
        station.load.calls += 1;
        let latency = station.nature.latency_ns / 2.0;
        self.plan(latency as u64, Event::Answer(site, call));
        self.serve(site);
    }

    fn answer(&mut self, site: u8, call: u64) {
        self.quiet_since[usize::from(site)] = self.now;
        self.is_silent[usize::from(site)] = false;
        if let (Some((_, begun)), _) = self.probes[usize::from(site)]
            && self.probes[usize::from(site)].0 == Some((call, begun))
        {
            let took = self.now - begun;
            self.probes[usize::from(site)] = (None, self.now + (4 * MS).max(32 * took));
            let seen = &mut self.observed.sites[usize::from(site)];
            (seen.calls, seen.round_trips_ns) = (seen.calls + 1, seen.round_trips_ns + took);
        }
        let Some(begun) = self.under_way[usize::from(site)].remove(&call) else { return };
        let seen = &mut self.observed.sites[usize::from(site)];
        seen.calls += 1;
        seen.round_trips_ns += self.now - begun;
        self.done += 1;
        if let Demand::Closed(depth) = self.demand
            && self.under_way.iter().map(BTreeMap::len).sum::<usize>() < depth
        {
            self.plan(0, Event::Begin);
        }
    }

    fn tick(&mut self) {
        self.plan(MS, Event::Tick);
        self.detour();
        let now = self.now();
        // What callers say comes by way of the server's workers, who may be kept from running.
        if self.stations[Site::Server as usize].free_from(self.now) == self.now {
            let mut observed = std::mem::take(&mut self.observed);
            for (site, seen) in observed.sites.iter_mut().enumerate() {
                let oldest = self.under_way[site].values().min().copied();
                let oldest = oldest.into_iter().chain(self.probes[site].0.map(|(_, begun)| begun)).min();
                let oldest_ns = oldest.map_or(0, |begun| self.now - begun);
                *seen = Seen { is_usable: self.usable[site], oldest_ns, ..*seen };
            }
            self.controller.on_observed(now, CallerNumber(0), &observed);
            if let Some(lie) = self.liar {
                // There are several others who say the same.
                self.controller.on_observed(now, CallerNumber(1), &observed);
                self.controller.on_observed(now, CallerNumber(2), &lie);
            }
        }
        for site in [Site::Agent, Site::Server] {
            let station = &mut self.stations[site as usize];
            if !station.is_silent && self.usable[site as usize] && station.free_from(self.now) == self.now {
                let mut load = std::mem::take(&mut station.load);
                (load.span_ns, load.workers) = (self.now - station.reported_at, 1);
                station.reported_at = self.now;
                self.controller.on_load(now, site, &load);
            } else if site == Site::Server {
                // The controller runs by itself and sees that a worker does not get on.
                let oldest_ns = station.queue.front().map_or(0, |(arrived, _)| self.now - arrived);
                self.controller.on_load(now, site, &SiteLoad { oldest_ns, ..SiteLoad::default() });
            }
        }
        let (before, epoch) = (self.controller.shifts_total(), self.controller.table().epoch());
        assert_eq!(self.controller.on_time(now), self.controller.table().epoch() > epoch);
        if self.controller.shifts_total() > before {
            self.shifts.push((self.now, self.counts()));
        }
    }
}

impl Station {
    /// When the worker runs, at `at` or after.
    fn free_from(&self, at: u64) -> u64 {
        match self.competitor {
            Some((since, taken, of)) if at >= since && (at - since) % of < taken => {
                at - (at - since) % of + taken
            }
            _ => at,
        }
    }

    /// When so much work is done that begins at `at`.
    fn after(&self, mut at: u64, mut work: u64) -> u64 {
        let Some((since, _, of)) = self.competitor else { return at + work };
        loop {
            at = self.free_from(at);
            let left = of - at.saturating_sub(since) % of;
            if work <= left {
                return at + work;
            }
            (at, work) = (at + left, work - left);
        }
    }
}
