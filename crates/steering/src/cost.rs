//! What one option costs, and how sure that is.

use core::ops::Add;

use outboard_wire::time::Time;

use crate::signal::{Estimate, MAGNITUDE_MAX};

/// The cost of a piece of work in nanoseconds, with its uncertainty and the age of what it rests on.
///
/// Costs are ordered by nanoseconds, then by spread. They are never negative, infinite or NaN.
///
/// A model is arithmetic on costs. Caching at the agent pays when the hit rate exceeds `B_net / B_intra`,
/// which is the comparison of two costs that share the chooser's margin, dwell and explanation:
///
/// ```
/// use outboard_steering::{Cost, Estimate, Time};
///
/// let from_server = Cost::known(30_000.0); // one chunk over the network
/// let from_agent = Cost::known(10_000.0); // the same chunk over the host's own bus
/// let hits = Estimate { value: 0.5, spread: 0.01, measured_at: Time::ZERO, samples: 900 };
/// let misses = Estimate { value: 1.0 - hits.value, ..hits };
///
/// let cached = from_agent + from_server.scaled_by(misses);
/// assert!(cached < from_server); // 0.5 > 10/30
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Cost {
    ns: f64,
    spread_ns: f64,
    measured_at: Time,
}

impl Cost {
    /// A constant, known for ever.
    pub fn known(ns: f64) -> Self {
        Self::new(ns, 0.0, Time::MAX)
    }

    /// The cost in nanoseconds.
    pub fn ns(self) -> f64 {
        self.ns
    }

    /// How much the cost typically varies, in nanoseconds.
    pub fn spread_ns(self) -> f64 {
        self.spread_ns
    }

    /// When the oldest part of it was measured; [`Time::MAX`] for a constant.
    pub fn measured_at(self) -> Time {
        self.measured_at
    }

    /// This cost times a measured factor: a miss rate, a number of round trips.
    pub fn scaled_by(self, factor: Estimate) -> Self {
        Self::new(
            self.ns * factor.value,
            self.ns * factor.spread + self.spread_ns * factor.value.abs(),
            self.measured_at.min(factor.measured_at),
        )
    }

    fn new(ns: f64, spread_ns: f64, measured_at: Time) -> Self {
        Self { ns: sane(ns), spread_ns: sane(spread_ns), measured_at }
    }
}

/// Whatever cannot be a cost is read as the worst one, so that a broken measurement never wins.
fn sane(ns: f64) -> f64 {
    if ns.is_nan() { MAGNITUDE_MAX } else { ns.clamp(0.0, MAGNITUDE_MAX) }
}

/// Reads an estimate whose unit is the nanosecond.
impl From<Estimate> for Cost {
    fn from(estimate: Estimate) -> Self {
        Self::new(estimate.value, estimate.spread, estimate.measured_at)
    }
}

/// The cost of doing both. Spreads add up, because parts of one path are seldom independent.
impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(
            self.ns + other.ns,
            self.spread_ns + other.spread_ns,
            self.measured_at.min(other.measured_at),
        )
    }
}
