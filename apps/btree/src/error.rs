//! What can go wrong with a tree.

use outboard::{AskError, CallError, ImageError, Peer, RegisterError};
use thiserror::Error;

/// Why something was not done.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BTreeError {
    /// A tree cannot be made so.
    #[error("a tree for {keys} keys cannot be made: at most {max}")]
    TooLarge {
        /// For how many keys.
        keys: u64,
        /// How many there can be.
        max: u64,
    },
    /// The keys that a tree is to be made of are not in order.
    #[error(
        "key {key} does not come behind {before}: a tree is made of keys in order, each once, all below 2^64 - 1"
    )]
    NotInOrder {
        /// The key.
        key: u64,
        /// The one before it.
        before: u64,
    },
    /// There is no tree of that name.
    #[error(
        "{server} has no tree “{name}”; make it with `outboard btree create --tree {name}` or `Tree::create`"
    )]
    NoSuchTree {
        /// Which server.
        server: Peer,
        /// The name.
        name: String,
    },
    /// The region has no tree.
    #[error("the region “{name}” holds no tree that this program knows; choose another name")]
    NoTree {
        /// Its name.
        name: String,
    },
    /// No tree has this key, or a scan asks for too many pairs.
    #[error("keys are below 2^64 - 1, and a scan gives at most {scan_max} pairs")]
    BadArguments {
        /// The most pairs.
        scan_max: usize,
    },
    /// All nodes are in use.
    #[error("the tree is full: make a larger one")]
    Full,
    /// Others changed the same nodes all the time.
    #[error("others change the same keys too fast; try again")]
    Busy,
    /// The server says something that the functions never say.
    #[error("the function gave {value}, which means nothing")]
    Unknown {
        /// What it gave.
        value: u64,
    },
    /// The memory server refuses, or is gone.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The functions are not taken.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The functions cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A call has no reply.
    #[error(transparent)]
    Call(#[from] CallError),
}
