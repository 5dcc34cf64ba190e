//! Why a process could not take its place.

use std::time::Duration;

use outboard_link::Address;
use outboard_wire::control::JobSecret;
use thiserror::Error;

use crate::client::AskError;

/// Why a process could not take its place.
#[derive(Error)]
#[non_exhaustive]
pub enum JobError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(Box<dyn std::error::Error + Send + Sync>),
    /// A daemon that was asked for by address is not there.
    #[error("the {daemon} was asked for and is not there: {source}")]
    NotThere {
        /// Which daemon.
        daemon: &'static str,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A job needs all of its settings.
    #[error(
        "a job of {size} ranks needs {missing}; start it with `outboard run`, or set OUTBOARD_JOB_{variable}"
    )]
    Incomplete {
        /// How many ranks it has.
        size: u32,
        /// The setting that is missing.
        missing: &'static str,
        /// The end of its variable's name.
        variable: &'static str,
    },
    /// A secret that does not fit.
    #[error("the job's secret is over {} bytes; choose a shorter one", JobSecret::LEN_MAX)]
    SecretTooLong,
    /// A secret that others can guess.
    #[error("the job's secret is under 16 bytes; choose one that others cannot guess")]
    SecretTooShort,
    /// A rank beyond the size.
    #[error("rank {rank} does not exist in a job of {size}: ranks count from 0")]
    NoSuchRank {
        /// Which rank.
        rank: u32,
        /// How many there are.
        size: u32,
    },
    /// No process hosts the meeting.
    #[error(
        "no process gathers job {job:016x} at {address} after {waited:?}: {source}; start rank 0, `outboard run` or an agent"
    )]
    NoMeeting {
        /// Which job.
        job: u64,
        /// Where.
        address: Address,
        /// How long was waited.
        waited: Duration,
        /// The error of the last attempt.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The meeting could not be held here.
    #[error("the ranks cannot meet here: {0}")]
    Host(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Other ranks could not reach this one.
    #[error("other ranks could not reach this one at {address}: {source}; set OUTBOARD_JOB_LISTEN")]
    Unreachable {
        /// Where it should have listened.
        address: Address,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An address that others cannot be told.
    #[error("{address} is too long an address; choose a shorter one with OUTBOARD_JOB_LISTEN")]
    AddressTooLong {
        /// Which address.
        address: String,
    },
    /// The meeting failed.
    #[error("the ranks did not meet: {0}")]
    Meeting(#[from] AskError),
}

outboard_wire::debug_with_causes!(JobError);
