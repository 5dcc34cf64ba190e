//! A small world to steer in: options with true costs, noise on every measurement, virtual time.

use std::time::Duration;

use outboard_steering::{Chooser, Decision, Evidence, Preference, Signal, SteeringConfig, Time};
use proptest::prelude::*;

/// Noise with mean 1 that multiplies a true cost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noise {
    /// Anywhere within ± this fraction.
    Uniform(f64),
    /// Long runs at one end of ± this fraction, then at the other.
    Square(f64),
    Exponential,
    /// One sample in a thousand is a hundred times as large as the others.
    Hiccups,
    /// Infinite variance: tail index 1.5.
    Pareto,
}

/// SplitMix64: small, seeded, good enough to draw noise from.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn noise(&mut self, noise: Noise, now: Time) -> f64 {
        let unit = self.unit();
        match noise {
            Noise::Uniform(width) => 1.0 + width * (2.0 * unit - 1.0),
            Noise::Square(width) if (now.as_nanos() / 30_000_000).is_multiple_of(2) => 1.0 + width,
            Noise::Square(width) => 1.0 - width,
            Noise::Exponential => -(1.0 - unit).ln(),
            Noise::Hiccups => (if unit < 0.001 { 100.0 } else { 1.0 }) / 1.099,
            Noise::Pareto => (1.0 - unit).powf(-1.0 / 1.5) / 3.0,
        }
    }
}

/// Two or more options whose every use yields one sample.
pub(crate) struct World<const N: usize> {
    pub(crate) chooser: Chooser<usize, N>,
    pub(crate) signals: [Signal; N],
    pub(crate) now: Time,
    pub(crate) picks: [u64; N],
    pub(crate) explored: u64,
    pub(crate) moves: Vec<Decision<usize>>,
    draw: Draw,
}

impl<const N: usize> World<N> {
    pub(crate) fn new(config: SteeringConfig, seed: u64) -> Self {
        let options = std::array::from_fn(|index| index);
        Self {
            chooser: Chooser::new(options, Preference::Auto, config, Time::ZERO).expect("no option is named"),
            signals: std::array::from_fn(|_| Signal::new(&config)),
            now: Time::ZERO,
            picks: [0; N],
            explored: 0,
            moves: Vec::new(),
            draw: Draw(seed),
        }
    }

    pub(crate) fn evidence(&self) -> [Evidence; N] {
        self.signals.each_ref().map(Evidence::from_signal)
    }

    /// Does one piece of work every `pace`, reviewing after each, until `span` has passed.
    pub(crate) fn run(&mut self, span: Duration, pace: Duration, noise: Noise, costs_ns: [f64; N]) {
        let end = self.now + span;
        while self.now < end {
            self.now += pace;
            let option = self.chooser.pick();
            self.picks[option] += 1;
            self.explored += u64::from(option != self.chooser.decision().chosen);
            // Options must not share the phase of a square wave, or it cancels out.
            let phase = self.now + Duration::from_millis(30 * option as u64);
            self.signals[option].observe(self.now, costs_ns[option] * self.draw.noise(noise, phase));
            let evidence = self.evidence();
            self.moves.extend(self.chooser.review(self.now, &evidence));
        }
    }
}

/// Work every 1 to 200 µs.
pub(crate) fn pace() -> impl Strategy<Value = Duration> {
    (1_000u64..200_000).prop_map(Duration::from_nanos)
}
