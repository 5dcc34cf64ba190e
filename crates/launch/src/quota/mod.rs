//! Holds a process to a share of a processor.

mod group;
mod launcher;

use std::fmt;
use std::io;
use std::str::FromStr;

use outboard_limits::{GroupVersion, Groups};
use rustix::process::{Pid, setpriority_process};
use thiserror::Error;

use group::{Folder, Group};

/// The least important a process can be.
const NICE: i32 = 19;

/// A share of one processor's time. More than 100 % is more than one processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    percent: u32,
}

/// Why a quota is not one, or cannot be applied.
#[derive(Debug, Error)]
pub enum QuotaError {
    /// Not a number of percents.
    #[error("`{text}` is no quota; write a percentage of one processor from 1% to 100000%, such as 30%")]
    Malformed {
        /// What was written.
        text: String,
    },
    /// The process can be neither limited nor made nicer; it has ended, most likely.
    #[error("cannot limit process {pid}")]
    Process {
        /// Which.
        pid: u32,
        /// Why.
        source: io::Error,
    },
}

/// A quota in force, until this is dropped or the process ends. Its `Display` says by what means.
#[derive(Debug)]
pub struct Limit {
    quota: Quota,
    group: Option<Group>,
    warning: Option<String>,
}

impl Quota {
    /// A share in percents of one processor, 1 to 100,000.
    pub fn percent(percent: u32) -> Option<Self> {
        (1..=100_000).contains(&percent).then_some(Self { percent })
    }

    /// Applies it to a process, and to all that this process will start.
    ///
    /// A control group enforces it where this user may make one: version 2, else version 1. Otherwise the process
    /// is made nice, which is not a limit, and [`Limit::warning`] says so. Groups that killed launchers left
    /// behind are removed on the way.
    pub fn apply(self, pid: u32) -> Result<Limit, QuotaError> {
        let groups = Groups::of_this_process();
        let places = [GroupVersion::V2, GroupVersion::V1].into_iter().flat_map(|it| groups.places(it, "cpu"));
        // The group of this process before those around it.
        let folders = places.flat_map(|place| {
            let upwards = place.upwards().map(|path| Folder { version: place.version, path: path.into() });
            upwards.collect::<Vec<_>>()
        });
        self.apply_in(&folders.collect::<Vec<_>>(), pid)
    }

    fn apply_in(self, folders: &[Folder], pid: u32) -> Result<Limit, QuotaError> {
        let mut refusal = None;
        for folder in folders {
            group::remove_abandoned(&folder.path);
            match Group::with(folder, self, pid) {
                Ok(group) => return Ok(Limit { quota: self, group: Some(group), warning: None }),
                // The nearest folder's reason tells most.
                Err(error) => refusal = refusal.or(Some((&folder.path, error))),
            }
        }
        let reason = match refusal {
            None => "no control group with a cpu controller is mounted".to_owned(),
            Some((path, error)) => format!("no control group can be made in {}: {error}", path.display()),
        };
        let process = Pid::from_raw(pid.cast_signed());
        let nice =
            process.ok_or(rustix::io::Errno::SRCH).and_then(|pid| setpriority_process(Some(pid), NICE));
        nice.map_err(|error| QuotaError::Process { pid, source: error.into() })?;
        let warning = format!(
            "the quota of {self} is not enforced ({reason}); process {pid} runs at nice {NICE} instead, which yields \
             to others but has no upper limit. Run as root, or have a control group with the cpu controller delegated"
        );
        Ok(Limit { quota: self, group: None, warning: Some(warning) })
    }

    /// Microseconds of processor time in each period of this many microseconds.
    fn per_period(self, period_us: u64) -> u64 {
        u64::from(self.percent) * period_us / 100
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent)
    }
}

impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
        number.and_then(Self::percent).ok_or_else(|| QuotaError::Malformed { text: text.to_owned() })
    }
}

impl Limit {
    /// What the user should know if the quota is not enforced.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.group {
            Some(group) => {
                write!(f, "{} of a processor by control group {}", self.quota, group.path().display())
            }
            None => write!(f, "nice {NICE} instead of {} of a processor", self.quota),
        }
    }
}

#[cfg(test)]
mod tests;
