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
    pub standing: Standing,
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
pub enum Standing {
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

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed => f.pad("fixed"),
            Self::Alone => f.pad("nothing to compare with"),
            Self::Cheapest => f.pad("cheapest"),
            Self::WithinMargin => f.pad("within margin and noise"),
            Self::Weighing { percent } => write!(f, "{percent} % of the way to moving"),
            Self::Throttled => f.pad("moved too often, waiting"),
            Self::Excluded => f.pad("unusable, as is everything else"),
        }
    }
}

impl<O: fmt::Display> fmt::Display for Explanation<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, since {}: ", self.chosen, Span::from(self.held))?;
        match self.cost {
            Some(cost) => write!(f, "{}", Span::from(cost))?,
            None => f.write_str("no recent measurement")?,
        }
        if let Some(Rival { option, cost }) = &self.rival {
            write!(f, " against {} at {option}, margin {} %", Span::from(*cost), self.margin_percent)?;
        }
        write!(f, ", {}; ", self.standing)?;
        match &self.former {
            Some(former) => write!(f, "moved from {former}: {}", self.reason),
            None => write!(f, "{}", self.reason),
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
