//! Says in one line what was chosen and why.

use core::fmt;
use core::time::Duration;

use crate::{Cost, Reason};

/// A choice with the figures it rests on: one line for people by `Display`, fields for programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explanation<O> {
    /// What is chosen.
    pub chosen: O,
    /// For how long it has been.
    pub held: Duration,
    /// Why it was chosen.
    pub reason: Reason,
    /// What it replaced; `None` for the first choice.
    pub former: Option<O>,
    /// What it costs at present; `None` without a recent measurement.
    pub cost: Option<Cost>,
    /// The cheapest other option at present; `None` if no other has a recent measurement.
    pub rival: Option<Rival<O>>,
    /// How much dearer than the rival, in percent of its cost, the choice may be.
    pub margin_percent: u32,
    /// How the choice stands against the rival.
    pub review: Review,
}

/// An option that is not chosen, and its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rival<O> {
    /// Which.
    pub option: O,
    /// What it costs.
    pub cost: Cost,
}

/// How a choice stood at the latest review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// Fixed by the user: nothing else is considered.
    Fixed,
    /// There is nothing to compare it with.
    Alone,
    /// No rival is cheaper.
    Cheapest,
    /// The rival is cheaper, but not by more than margin and noise.
    WithinMargin,
    /// The rival's lead counts, and has lasted for this share of the time it needs.
    Weighing {
        /// 0 to 99.
        percent: u8,
    },
    /// The rival has won, but the budget of moves is spent.
    Throttled,
    /// Unusable, and so is everything else.
    Excluded,
}

impl fmt::Display for Review {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed => f.pad("nothing else is considered"),
            Self::Alone => f.pad("no other choice was measured lately"),
            Self::Cheapest => f.pad("it is the cheapest"),
            Self::WithinMargin => f.pad("the difference is within margin and noise"),
            Self::Weighing { percent } => write!(f, "{percent} % of the way to moving"),
            Self::Throttled => f.pad("it has moved too often and waits"),
            Self::Excluded => f.pad("neither it nor any other can be used"),
        }
    }
}

impl<O: fmt::Display> fmt::Display for Explanation<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}: ", self.chosen, Span::from(self.held))?;
        match self.cost {
            None if self.review == Review::Alone => f.write_str("nothing was measured lately")?,
            Some(cost) => write!(f, "it costs {}", Span::from(cost))?,
            None => f.write_str("its cost was not measured lately")?,
        }
        if let Some(Rival { option, cost }) = &self.rival {
            write!(f, " against {} at {option} (margin {} %)", Span::from(*cost), self.margin_percent)?;
        }
        match (self.cost, self.review) {
            (None, Review::Alone) => f.write_str("; ")?,
            (_, review) => write!(f, "; {review}; ")?,
        }
        match &self.former {
            Some(former) => write!(f, "moved from {former} because {}", self.reason),
            None => write!(f, "chosen {}", self.reason),
        }
    }
}

/// A length of time for people: two digits and the unit they fit.
struct Span {
    ns: f64,
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self { ns: duration.as_nanos() as f64 }
    }
}

impl From<Cost> for Span {
    fn from(cost: Cost) -> Self {
        Self { ns: cost.ns() }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.ns {
            ns if ns < 999.5 => (ns, "ns"),
            ns if ns < 999.5e3 => (ns / 1e3, "µs"),
            ns if ns < 999.5e6 => (ns / 1e6, "ms"),
            ns => (ns / 1e9, "s"),
        };
        let digits = usize::from(value < 9.95 && value > 0.0);
        write!(f, "{value:.digits$} {unit}")
    }
}
