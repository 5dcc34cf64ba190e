//! Whether a rank moves its messages itself or gives them to an agent.

use core::fmt;
use core::time::Duration;

use outboard_steering::{Chooser, Evidence, Explanation, Preference, Signal, SteeringConfig};
use outboard_wire::Time;

/// Who carries messages to other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The rank itself.
    Inline,
    /// The agent, to those ranks that it reaches.
    Agent,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inline => "inline",
            Self::Agent => "the agent",
        })
    }
}

/// How many bytes make a piece of work, which goes one way as a whole and whose time is a measurement; fewer if a rank that
/// sends little has taken so long for them.
const PIECE: u64 = 1 << 20;
const LONG: Duration = Duration::from_millis(10);
/// A piece that took longer still had a pause in it, which says nothing about ways.
const PAUSE: Duration = Duration::from_secs(1);

/// Chooses who carries messages by how fast the rank gets on. All of its time counts, that of its own work too: an agent
/// on the same cores takes from that, and one elsewhere gives to it.
#[derive(Debug)]
pub struct CarrierChooser {
    chooser: Chooser<Carrier, 2>,
    took: [Signal; 2],
    picked: Carrier,
    began: Time,
    bytes: u64,
    /// The first piece after a change is made of both ways.
    is_mixed: bool,
}

impl CarrierChooser {
    /// Begins inline.
    pub fn new(now: Time) -> Self {
        let config = SteeringConfig {
            window: Duration::from_millis(2),
            min_samples: 3,
            stale_after: Duration::from_secs(10),
            margin_percent: 10,
            dwell: Duration::from_millis(50),
            explore_after: Duration::from_millis(500),
            explore_one_in: 64,
            explore_fast_one_in: 16,
            ..SteeringConfig::default()
        };
        let chooser = Chooser::new([Carrier::Inline, Carrier::Agent], Preference::Auto, config, now);
        Self {
            chooser: chooser.expect("nothing is preferred that is not among the options"),
            took: [Signal::new(&config), Signal::new(&config)],
            picked: Carrier::Inline,
            began: now,
            bytes: 0,
            is_mixed: true,
        }
    }

    /// So many bytes are on their way. Returns who carries what comes next.
    pub fn on_sent(&mut self, bytes: u32, has_agent: bool, now: Time) -> Carrier {
        if !has_agent {
            (self.picked, self.bytes, self.began, self.is_mixed) = (Carrier::Inline, 0, now, true);
            return self.picked;
        }
        self.bytes += u64::from(bytes);
        let took = now.since(self.began);
        if self.bytes < PIECE && took < LONG {
            return self.picked;
        }
        if !self.is_mixed && took < PAUSE {
            let ns = took.as_nanos() as f64 * PIECE as f64 / self.bytes as f64;
            self.took[self.picked as usize].observe(now, ns);
            let evidence = self.took.each_ref().map(Evidence::from_signal);
            self.chooser.review(now, &evidence);
        }
        // An exploring piece is repeated once: the first of the two is not measured.
        let next = if self.is_mixed { self.picked } else { self.chooser.pick() };
        self.is_mixed = next != self.picked;
        (self.picked, self.bytes, self.began) = (next, 0, now);
        next
    }

    /// What was chosen and why.
    pub fn explain(&self, now: Time) -> Explanation<Carrier> {
        self.chooser.explain(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(chooser: &mut CarrierChooser, from: Time, inline_us: u64, agent_us: u64) -> (Time, f64) {
        let (mut now, mut by_agent, pieces) = (from, 0, 40_000);
        let mut carriage = Carrier::Inline;
        for _ in 0..pieces {
            now += Duration::from_micros(if carriage == Carrier::Agent { agent_us } else { inline_us });
            by_agent += u32::from(carriage == Carrier::Agent);
            carriage = chooser.on_sent(PIECE as u32 / 4, true, now);
        }
        (now, f64::from(by_agent) / f64::from(pieces))
    }

    #[test]
    fn the_faster_carries_and_the_other_is_tried_now_and_then() {
        let mut chooser = CarrierChooser::new(Time::ZERO);
        let (now, by_agent) = run(&mut chooser, Time::ZERO, 100, 200);
        assert!(by_agent > 0.0 && by_agent < 0.1, "{by_agent}");
        let (now, by_agent) = run(&mut chooser, now, 400, 200);
        assert!(by_agent > 0.8, "{by_agent}");
        assert!(chooser.explain(now).to_string().contains("the agent"), "{}", chooser.explain(now));
        let (_, by_agent) = run(&mut chooser, now, 100, 200);
        assert!(by_agent < 0.3, "{by_agent}");
    }

    #[test]
    fn a_rank_that_sends_little_has_a_choice_too() {
        let mut chooser = CarrierChooser::new(Time::ZERO);
        let (mut now, mut by_agent, mut carriage) = (Time::ZERO, 0, Carrier::Inline);
        // A bundle of 1 KiB every few milliseconds.
        for _ in 0..20_000 {
            now += Duration::from_millis(if carriage == Carrier::Agent { 3 } else { 5 });
            by_agent += u32::from(carriage == Carrier::Agent);
            carriage = chooser.on_sent(1 << 10, true, now);
        }
        assert!(by_agent > 10_000, "{by_agent}");
    }

    #[test]
    fn without_an_agent_there_is_no_choice() {
        let mut chooser = CarrierChooser::new(Time::ZERO);
        let now = Time::ZERO + Duration::from_millis(1);
        assert!((0..100).all(|_| chooser.on_sent(1 << 20, false, now) == Carrier::Inline));
    }
}
