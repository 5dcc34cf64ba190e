//! Whether caching a region pays.
//!
//! Fetching `s` bytes from the server takes `s / B_net`; through a cache with hit rate `h` it takes
//! `s / B_intra + (1 - h) * s / B_net`. So the cache pays when `h > B_net / B_intra`. All three are measured, and the
//! choice has the margin, dwell and budget of every other choice in Outboard.

use core::fmt;

use outboard_steering::{
    Chooser, Cost, Estimate, Evidence, Explanation, Preference, Review, Signal, SteeringConfig, UnknownOption,
};
use outboard_wire::Time;

use super::meter::{ByteRate, ServerMeter};

/// So many requests are one sample of the hit rate.
const SAMPLE_REQUESTS: u32 = 32;

/// The two ways of serving a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Every fetch goes to the server.
    Off,
    /// Fetches are served from the cache where possible.
    On,
}

impl fmt::Display for Caching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Off => "not cached",
            Self::On => "cached",
        })
    }
}

/// Decides for one region whether caching it pays. Begins without: what is not measured is not promised.
#[derive(Clone, Debug)]
pub struct CacheSwitch {
    chooser: Chooser<Caching, 2>,
    hits: Signal,
    hits_in_sample: u32,
    requests_in_sample: u32,
    net: Option<Estimate>,
    intra: Option<Estimate>,
}

impl CacheSwitch {
    /// A switch that is off.
    pub fn new(config: SteeringConfig, now: Time) -> Self {
        let options = [Caching::Off, Caching::On];
        let chooser = match Chooser::new(options, Preference::Auto, config, now) {
            Ok(chooser) => chooser,
            Err(UnknownOption { option }) => unreachable!("{option} is no preference of an automatic choice"),
        };
        Self {
            chooser,
            hits: Signal::new(&config),
            hits_in_sample: 0,
            requests_in_sample: 0,
            net: None,
            intra: None,
        }
    }

    /// Whether the region is to be cached.
    pub fn is_on(&self) -> bool {
        self.chooser.decision().chosen == Caching::On
    }

    /// A request was a hit or not, in the cache or in its shadow.
    pub fn on_request(&mut self, now: Time, is_hit: bool) {
        self.requests_in_sample += 1;
        self.hits_in_sample += u32::from(is_hit);
        if self.requests_in_sample == SAMPLE_REQUESTS {
            self.hits.observe(now, f64::from(self.hits_in_sample) / f64::from(SAMPLE_REQUESTS));
            (self.requests_in_sample, self.hits_in_sample) = (0, 0);
        }
    }

    /// Weighs what was measured. Returns the new choice if it is another than before.
    pub fn review(&mut self, now: Time, net: &ServerMeter, intra: &ServerMeter) -> Option<Caching> {
        (self.net, self.intra) = (net.cost(), intra.cost());
        let (Some(net), Some(intra), Some(hits)) = (self.net, self.intra, self.hits.estimate()) else {
            return None;
        };
        let from_server = Cost::from(net);
        let misses = Estimate { value: (1.0 - hits.value).clamp(0.0, 1.0), ..hits };
        // A measurement that does not fail for want of a hit has to be fresh as well: a cache that always hits reads nothing.
        let from_server = if misses.value == 0.0 { Cost::known(from_server.ns()) } else { from_server };
        let cached = Cost::from(intra) + from_server.scaled_by(misses);
        let evidence = [Evidence::Measured(from_server), Evidence::Measured(cached)];
        self.chooser.review(now, &evidence).map(|decision| decision.chosen)
    }

    /// The present choice with its figures.
    pub fn report(&self, now: Time) -> SwitchReport {
        let rate = |cost: Option<Estimate>| cost.map(|cost| ByteRate(65536.0 * 1e9 / cost.value.max(1.0)));
        SwitchReport {
            hit_rate: self.hits.estimate().map(|hits| hits.value),
            net: rate(self.net),
            intra: rate(self.intra),
            switches: self.chooser.switches(),
            explanation: self.chooser.explain(now),
        }
    }
}

/// Why a region is cached or not: one line for people by `Display`, fields for programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchReport {
    /// The share of requests that are hits, or would be.
    pub hit_rate: Option<f64>,
    /// How fast bytes come from the server.
    pub net: Option<ByteRate>,
    /// How fast bytes go to applications.
    pub intra: Option<ByteRate>,
    /// How often the choice has changed.
    pub switches: u64,
    /// The choice.
    pub explanation: Explanation<Caching>,
}

impl SwitchReport {
    /// The hit rate above which caching pays.
    pub fn threshold(&self) -> Option<f64> {
        Some(self.net?.0 / self.intra?.0.max(1.0))
    }
}

impl fmt::Display for SwitchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { chosen, former, review, .. } = &self.explanation;
        let (Some(hit_rate), Some(net), Some(intra), Some(threshold)) =
            (self.hit_rate, self.net, self.intra, self.threshold())
        else {
            return write!(f, "{chosen}: too little measured yet");
        };
        let sign = if hit_rate > threshold { '>' } else { '≤' };
        // Without a cache nothing hits: the rate is that of what would be in it.
        let what = match chosen {
            Caching::On => "hit rate",
            Caching::Off => "would hit",
        };
        write!(f, "{chosen}: {what} {hit_rate:.2} {sign} {threshold:.2} = {net} / {intra}")?;
        match (former, review) {
            (_, Review::Weighing { .. } | Review::WithinMargin | Review::Throttled) => {
                write!(f, ", {review}")
            }
            (Some(former), _) => write!(f, ", was {former}"),
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    /// A second of requests with this hit rate, 64 KiB each, at these bandwidths.
    fn run(switch: &mut CacheSwitch, from: Time, hit_percent: u64, net_ns: u64, intra_ns: u64) -> Time {
        let config = SteeringConfig::default();
        let (mut net, mut intra) = (ServerMeter::new(&config), ServerMeter::new(&config));
        let mut now = from;
        for request in 0..20_000u64 {
            now += Duration::from_micros(50);
            let is_hit = (request * 37) % 100 < hit_percent;
            switch.on_request(now, is_hit);
            net.add(now, 65536, Duration::from_nanos(net_ns));
            intra.add(now, 65536, Duration::from_nanos(intra_ns));
            switch.review(now, &net, &intra);
        }
        now
    }

    #[test]
    fn it_is_on_while_the_hit_rate_is_above_the_ratio_of_the_bandwidths() {
        let mut switch = CacheSwitch::new(SteeringConfig::default(), Time::ZERO);
        assert!(switch.report(Time::ZERO).to_string().contains("too little"));
        let now = run(&mut switch, Time::ZERO, 93, 60_000, 20_000);
        assert!(switch.is_on());
        let line = switch.report(now).to_string();
        assert!(line.starts_with("cached: hit rate 0.9"), "{line}");
        assert!(line.contains("> 0.33 = 1.1 GB/s / 3.3 GB/s, was not cached"), "{line}");
        let now = run(&mut switch, now, 5, 60_000, 20_000);
        assert!(!switch.is_on(), "{}", switch.report(now));
        let line = switch.report(now).to_string();
        assert!(line.starts_with("not cached: would hit 0.05 ≤ 0.33"), "{line}");
        let now = run(&mut switch, now, 93, 20_000, 20_000);
        assert!(!switch.is_on(), "{}", switch.report(now));
        assert_eq!(switch.report(now).switches, 2);
    }

    #[test]
    fn it_does_not_move_for_little() {
        let mut switch = CacheSwitch::new(SteeringConfig::default(), Time::ZERO);
        let now = run(&mut switch, Time::ZERO, 38, 60_000, 20_000);
        assert!(!switch.is_on(), "{}", switch.report(now));
        assert!(switch.report(now).to_string().contains("within margin"), "{}", switch.report(now));
        run(&mut switch, now, 93, 60_000, 20_000);
        let now = run(&mut switch, now, 30, 60_000, 20_000);
        assert!(switch.is_on(), "{}", switch.report(now));
    }
}
