//! What steers slots.

use std::time::Duration;

use outboard_steering::{Preference, Site};

/// How readily slots are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// Where slots are wanted. Default: wherever calls are answered soonest, starting at the server. A hinted site counts
    /// as cheaper by the margin; at a fixed one all slots stay.
    pub preference: Preference<Site>,
    /// How long measurements are gathered before they are looked at. Default 1 ms.
    pub tick: Duration,
    /// How much dearer than another, in percent of the other's cost, a site may be before slots leave it. On top of that
    /// comes what measurements usually scatter. Default 50 %.
    pub margin_percent: u32,
    /// For how long a site that is dearer by half an order of magnitude must be so. One that is dearer by far needs
    /// half as long, one that is hardly dearer much longer; and time in which it is not dearer counts against it.
    /// Default 7 ms.
    pub dwell: Duration,
    /// For how long after a move nothing is concluded, since answers of calls that were under way still come. Twice
    /// what calls took at the site that was left, if that is longer. Default 2 ms.
    pub settle: Duration,
    /// Age at which a measurement says nothing about a site any more. Default 5 s.
    pub stale_after: Duration,
    /// Moves that can be made at once; 0 forbids all but those from a site that is lost. Default 12.
    pub shift_burst: u32,
    /// Time after which one move more can be made. Default 250 ms.
    pub shift_period: Duration,
    /// For how long no slots go to a site that has just failed to carry more of them. Doubles at every failure, up to 64
    /// times, until slots have stayed there for as long. Default 50 ms.
    pub retry_after: Duration,
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self {
            preference: Preference::Auto,
            tick: Duration::from_millis(1),
            margin_percent: 50,
            dwell: Duration::from_millis(7),
            settle: Duration::from_millis(2),
            stale_after: Duration::from_secs(5),
            shift_burst: 12,
            shift_period: Duration::from_millis(250),
            retry_after: Duration::from_millis(50),
        }
    }
}

impl ControllerConfig {
    /// What a cost is multiplied by to add the margin.
    pub(super) fn margin(&self) -> f64 {
        1.0 + f64::from(self.margin_percent) / 100.0
    }
}
