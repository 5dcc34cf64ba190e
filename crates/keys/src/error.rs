//! What goes wrong with keys, and what to do about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why keys could not be made or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeysError {
    /// There are keys already, and they are not replaced.
    #[error("{path} exists, and keys are not replaced; move the folder away first", path = .path.display())]
    Exists {
        /// Which file.
        path: PathBuf,
    },
    /// A name that no certificate can have.
    #[error("“{name}” is no name for a node: use up to 63 letters, digits, dots and dashes")]
    BadName {
        /// The name.
        name: String,
    },
    /// A time that makes no sense.
    #[error("a certificate cannot be valid for {days} days; from 1 to 36500 will do")]
    BadDays {
        /// How many.
        days: u32,
    },
    /// The folder has no authority's key, so it cannot issue certificates.
    #[error(
        "{path} is not there: certificates are issued where `outboard keys init` was run",
        path = .path.display()
    )]
    NoAuthority {
        /// Which file.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{action} {path}: {source}", path = .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{path} is not what it should be: {why}", path = .path.display())]
    Unfit {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The library refuses.
    #[error("no certificate could be made: {0}")]
    Library(#[from] rcgen::Error),
}
