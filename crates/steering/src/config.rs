//! Every constant of steering in one place.

use core::time::Duration;

/// How measurements are smoothed and how readily a choice is changed.
///
/// Every value is legal: fractions are whole percents and "one in n", so none can be negative or NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteeringConfig {
    /// Shortest time whose samples are averaged into one bucket. Default 500 µs.
    pub window: Duration,
    /// Fewest samples averaged into one bucket; 0 counts as 1. Default 4.
    pub min_samples: u32,
    /// Age at which a measurement can no longer make an option the chosen one. Default 2 s.
    pub stale_after: Duration,

    /// How much dearer than a rival, in percent of the rival's cost, the chosen option may be before it is
    /// worth moving. Default 20 %.
    pub margin_percent: u32,
    /// How many spreads of both costs a rival's lead must exceed on top of the margin. Default 2.
    pub noise_factor: u32,
    /// How long a lead that only just exceeds margin and noise must last. A lead n times as large needs an
    /// n-th of it. Default 10 ms.
    pub dwell: Duration,

    /// Time after which one spent move is forgiven: the long-run rate of moves. Default 1 s.
    pub switch_period: Duration,
    /// Moves that can be spent at once; 0 forbids all moves that are a choice. Default 4.
    pub switch_burst: u32,

    /// Age at which an option that is not chosen is explored again. Default 250 ms.
    pub explore_after: Duration,
    /// Picks per exploring pick when the explored option costs as much as the chosen one. A dearer option
    /// is explored proportionally less often, a cheaper one more often; 0 forbids exploring. Default 64.
    pub explore_one_in: u32,
    /// Picks per exploring pick at the very most: the rate for options never measured; 0 counts as 1.
    /// Default 8.
    pub explore_fast_one_in: u32,
}

impl Default for SteeringConfig {
    fn default() -> Self {
        Self {
            window: Duration::from_micros(500),
            min_samples: 4,
            stale_after: Duration::from_secs(2),
            margin_percent: 20,
            noise_factor: 2,
            dwell: Duration::from_millis(10),
            switch_period: Duration::from_secs(1),
            switch_burst: 4,
            explore_after: Duration::from_millis(250),
            explore_one_in: 64,
            explore_fast_one_in: 8,
        }
    }
}

impl SteeringConfig {
    /// What a cost is multiplied by to add the margin: 1.2 for 20 %.
    pub(crate) fn margin_factor(&self) -> f64 {
        1.0 + f64::from(self.margin_percent) / 100.0
    }
}
