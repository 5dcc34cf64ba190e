//! Why a daemon does not run.

use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::process::{End, ProgramNotFound};
use crate::quota::QuotaError;

/// Why a daemon does not run. Nothing of it is left then.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// There is no such program.
    #[error("cannot start {name}")]
    Program {
        /// Which daemon.
        name: String,
        /// What is wrong with the program.
        source: ProgramNotFound,
    },
    /// The system did not start it.
    #[error("cannot start {name}")]
    Start {
        /// Which daemon.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// It could not be limited.
    #[error("cannot limit {name}")]
    Quota {
        /// Which daemon.
        name: String,
        /// Why.
        source: QuotaError,
    },
    /// It ended before it was ready.
    #[error("{name} {end} before it was ready{}", printed(last_lines))]
    Died {
        /// Which daemon.
        name: String,
        /// How it ended.
        end: End,
        /// What it printed last.
        last_lines: Vec<String>,
    },
    /// It did not say in time that it is ready.
    #[error("{name} was not ready after {waited:?} and was killed{}", printed(last_lines))]
    NotReady {
        /// Which daemon.
        name: String,
        /// How long it had.
        waited: Duration,
        /// What it printed last.
        last_lines: Vec<String>,
    },
}

fn printed(last_lines: &[String]) -> String {
    if last_lines.is_empty() {
        return "; it printed nothing".to_owned();
    }
    let lines: String = last_lines.iter().map(|line| format!("\n  {line}")).collect();
    format!("; it printed last:{lines}")
}
