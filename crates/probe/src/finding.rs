//! One thing that was found out.

use std::fmt;

use serde::Serialize;

/// One thing that was found out about this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it belongs to.
    pub area: Area,
    /// What was looked at.
    pub name: String,
    /// How it stands.
    pub state: FindingState,
    /// What was seen, and what it means for Outboard.
    pub detail: String,
    /// What to do about it, where something can be done.
    pub fix: Option<String>,
}

/// What a finding belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Area {
    /// Far memory behind plain pointers.
    Paging,
    /// Who this process is and what it may use.
    Privileges,
    /// What the control group allows.
    Cgroup,
    /// Cores, caches and memory nodes.
    Processors,
    /// Memory and how the kernel deals it out.
    Memory,
    /// The kernel and what else it offers.
    Kernel,
    /// How other processes are reached.
    Links,
    /// What daemons and applications choose here unless they are told otherwise.
    Defaults,
}

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    /// It is there, and where it could be tried, it works.
    Good,
    /// It is weak or absent, and something slower or narrower takes its place.
    Limited,
    /// It is needed and absent, and nothing takes its place.
    Missing,
    /// It could not be found out.
    Unknown,
}

impl Finding {
    pub(crate) fn new(area: Area, name: &str, state: FindingState, detail: impl Into<String>) -> Self {
        Self { area, name: name.to_owned(), state, detail: detail.into(), fix: None }
    }

    /// This finding, with advice about it.
    pub(crate) fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// This finding if `is_good`; otherwise limited, which `fix` mends.
    pub(crate) fn limited_unless(self, is_good: bool, fix: impl Into<String>) -> Self {
        if is_good { self } else { Self { state: FindingState::Limited, fix: Some(fix.into()), ..self } }
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paging => "paging",
            Self::Privileges => "privileges",
            Self::Cgroup => "cgroup",
            Self::Processors => "processors",
            Self::Memory => "memory",
            Self::Kernel => "kernel",
            Self::Links => "links",
            Self::Defaults => "defaults",
        })
    }
}

impl fmt::Display for FindingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "good",
            Self::Limited => "limited",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        })
    }
}
