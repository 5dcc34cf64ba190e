//! Why a folder cannot be kept regions in.

use outboard_keep::JournalError;
use rustix::io::Errno;
use thiserror::Error;

/// Why a server cannot keep its regions in a folder. Nothing in the folder was changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeepError {
    /// The operating system refused.
    #[error("{path} cannot be used to keep regions: {what}: {source}")]
    System {
        /// Which file or folder.
        path: String,
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: Errno,
    },
    /// Others may enter the folder.
    #[error(
        "{path} cannot be used to keep regions: users other than its owner may enter it; run `chmod 700 {path}`"
    )]
    NotPrivate {
        /// Which folder.
        path: String,
    },
    /// It belongs to another user.
    #[error(
        "{path} cannot be used to keep regions: it belongs to user {owner}, and the server runs as user {user}; start the server as \
         its owner, or give it to the server's user"
    )]
    NotOurs {
        /// Which folder.
        path: String,
        /// Whose it is.
        owner: u32,
        /// Who wants to use it.
        user: u32,
    },
    /// Another server keeps its regions there.
    #[error(
        "{path} is in use by another memory server (process {pid}); end that, or give this one a folder of its own"
    )]
    InUse {
        /// Which folder.
        path: String,
        /// The number of the other server's process.
        pid: String,
    },
    /// It has files and no journal.
    #[error(
        "{path} has files in it and no journal of a memory server; give the server an empty folder, or the one that it had"
    )]
    NotEmpty {
        /// Which folder.
        path: String,
    },
    /// Its journal cannot be read.
    #[error("the regions that were kept cannot be found again by the journal {path}: {source}")]
    Journal {
        /// Which journal.
        path: String,
        /// Why not.
        source: JournalError,
    },
    /// A region's file is not there, or not as long as it was.
    #[error(
        "the region “{name}” cannot be found again: its file {path} {found}; bring an intact copy of the folder back, or remove \
         the folder if its regions are of no use"
    )]
    Region {
        /// The region's name.
        name: String,
        /// Its file.
        path: String,
        /// How that is.
        found: String,
    },
}
