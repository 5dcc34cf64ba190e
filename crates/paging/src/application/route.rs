//! By which way the chunks of a region go: straight to the memory server, or by the agent.

use std::fmt;
use std::time::Duration;

use outboard_steering::{Chooser, Evidence, Explanation, Preference, Signal, SteeringConfig};
use outboard_wire::Time;

/// A way to the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathOption {
    /// Between the application and the memory server.
    Direct,
    /// By the agent.
    Agent,
}

impl fmt::Display for PathOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "the direct path",
            Self::Agent => "the agent",
        })
    }
}

/// How many bytes in a row go by the way that was picked. An agent's cache that sees a fetch here and there learns
/// nothing of where the application is going, so a way is tried by runs of fetches.
const RUN: usize = 4 << 20;
/// How many bytes make a measurement: single fetches that arrive together look as if they had taken no time.
const MEASURED: usize = 256 << 10;

/// Chooses between the ways by what fetches have taken.
#[derive(Debug)]
pub struct PathChooser {
    chooser: Chooser<PathOption, 2>,
    took: [Signal; 2],
    /// The bytes that were fetched by each way since the last measurement, and how long that way was busy with them.
    busy: [(Duration, usize); 2],
    picked: PathOption,
    /// How many bytes are left of the run.
    left: usize,
    reviewed: Time,
    has_agent: bool,
}

impl PathChooser {
    /// Begins with the direct path.
    pub fn new(now: Time) -> Self {
        let config = SteeringConfig {
            window: Duration::from_millis(2),
            min_samples: 4,
            stale_after: Duration::from_secs(5),
            margin_percent: 10,
            dwell: Duration::from_millis(50),
            explore_after: Duration::from_millis(250),
            explore_one_in: 32,
            explore_fast_one_in: 16,
            ..SteeringConfig::default()
        };
        let chooser = Chooser::new([PathOption::Direct, PathOption::Agent], Preference::Auto, config, now);
        Self {
            chooser: chooser.expect("nothing is preferred that is not among the options"),
            took: [Signal::new(&config), Signal::new(&config)],
            busy: [(Duration::ZERO, 0); 2],
            picked: PathOption::Direct,
            left: RUN,
            reviewed: now,
            has_agent: false,
        }
    }

    /// The way for the next fetch of so many bytes.
    pub fn pick(&mut self, has_agent: bool, bytes: usize) -> PathOption {
        self.has_agent = has_agent;
        if !has_agent {
            return PathOption::Direct;
        }
        if self.left == 0 {
            self.picked = self.chooser.pick();
            self.left = RUN;
        }
        self.left = self.left.saturating_sub(bytes);
        self.picked
    }

    /// This way was busy for so long with a fetch of so many bytes: since it was asked for, or since the fetch before it
    /// arrived. So a lone fetch counts its whole way, and one of many what it adds to theirs.
    pub fn took(&mut self, route: PathOption, span: Duration, bytes: usize, now: Time) {
        let (busy, fetched) = &mut self.busy[route as usize];
        *busy += span;
        *fetched += bytes;
        if *fetched < MEASURED {
            return;
        }
        // As if every chunk were as large as usual.
        let scale = (64 << 10) as f64 / *fetched as f64;
        self.took[route as usize].observe(now, busy.as_nanos() as f64 * scale);
        self.busy[route as usize] = (Duration::ZERO, 0);
        if now.since(self.reviewed) > Duration::from_millis(5) {
            self.reviewed = now;
            let direct = Evidence::from_signal(&self.took[PathOption::Direct as usize]);
            let agent = Evidence::from_signal(&self.took[PathOption::Agent as usize]);
            self.chooser.review(now, &[direct, if self.has_agent { agent } else { Evidence::Excluded }]);
        }
    }

    /// The choice and its reason.
    pub fn explain(&self, now: Time) -> Explanation<PathOption> {
        self.chooser.explain(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(chooser: &mut PathChooser, from: Time, direct_us: u64, agent_us: u64) -> (Time, u32) {
        let (mut now, mut by_agent) = (from, 0);
        for _ in 0..40_000 {
            let route = chooser.pick(true, 64 << 10);
            let span = Duration::from_micros(if route == PathOption::Agent { agent_us } else { direct_us });
            now += span;
            by_agent += u32::from(route == PathOption::Agent);
            chooser.took(route, span, 64 << 10, now);
        }
        (now, by_agent)
    }

    #[test]
    fn the_faster_way_gets_the_work_and_the_other_is_tried_now_and_then() {
        let mut chooser = PathChooser::new(Time::ZERO);
        let (now, by_agent) = run(&mut chooser, Time::ZERO, 20, 40);
        assert!(by_agent < 4_000, "{by_agent}");
        let (now, by_agent) = run(&mut chooser, now, 80, 40);
        assert!(by_agent > 30_000, "{by_agent}");
        assert!(chooser.explain(now).to_string().contains("the agent"), "{}", chooser.explain(now));
        let (_, by_agent) = run(&mut chooser, now, 20, 40);
        assert!(by_agent < 20_000, "{by_agent}");
    }

    #[test]
    fn without_an_agent_there_is_no_choice() {
        let mut chooser = PathChooser::new(Time::ZERO);
        assert!((0..1000).all(|_| chooser.pick(false, 1 << 20) == PathOption::Direct));
    }
}
