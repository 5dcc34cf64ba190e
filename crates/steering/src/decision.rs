//! What goes into a choice and what comes out of it.

use core::fmt;

use outboard_wire::time::Time;

use crate::{Cost, Signal};

/// What a room knows about one option at a review.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evidence {
    /// Nothing yet: worth exploring.
    Unmeasured,
    /// A cost; its age decides whether it still counts.
    Measured(Cost),
    /// Cannot be used at present: the site is gone, the ring does not exist on this link.
    Excluded,
}

impl Evidence {
    /// Evidence from one signal in nanoseconds.
    pub fn from_signal(signal: &Signal) -> Self {
        signal.estimate().map(Cost::from).into()
    }
}

impl From<Option<Cost>> for Evidence {
    fn from(cost: Option<Cost>) -> Self {
        cost.map_or(Self::Unmeasured, Self::Measured)
    }
}

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference<O> {
    /// Start with the first option, then follow the measurements.
    Auto,
    /// Start here and count this option as cheaper than measured by the margin.
    Hint(O),
    /// Always this one, measured or not, without exploring. An excluded option stays chosen too: a user who
    /// fixed the placement decides what its loss means.
    Fixed(O),
}

/// Why the chosen option was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing was measured yet.
    Start,
    /// The user's hint.
    Hint,
    /// The user fixed it.
    Fixed,
    /// It was cheaper than the former choice by more than margin and noise, for long enough.
    Cheaper,
    /// The former choice had no recent measurement and this one had.
    FormerStale,
    /// The former choice became unusable.
    FormerExcluded,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Start => "at the start",
            Self::Hint => "by a hint of the user",
            Self::Fixed => "by the user",
            Self::Cheaper => "it is cheaper",
            Self::FormerStale => "nothing was measured there lately",
            Self::FormerExcluded => "that cannot be used",
        })
    }
}

/// A choice as it was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision<O> {
    /// What was chosen.
    pub chosen: O,
    /// When.
    pub since: Time,
    /// Why.
    pub reason: Reason,
    /// What it cost then, if that was known.
    pub cost: Option<Cost>,
    /// What had been chosen until then; `None` for the first choice.
    pub former: Option<O>,
    /// What the former choice cost then, if that was known.
    pub former_cost: Option<Cost>,
}

/// A preference named something that is not among a chooser's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option} is not among the options here")]
pub struct UnknownOption<O: fmt::Display> {
    /// What was named.
    pub option: O,
}
