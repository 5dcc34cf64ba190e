//! What can go wrong with a table.

use outboard::{AskError, CallError, ImageError, RegisterError};
use thiserror::Error;

/// Why something was not done.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KvError {
    /// A table cannot be made so.
    #[error("a table with {what} of {value} cannot be made: at most {max}")]
    TooLarge {
        /// Of what there is too much.
        what: &'static str,
        /// How much.
        value: u64,
        /// How much there can be.
        max: u64,
    },
    /// The region has no table.
    #[error("the region “{name}” holds no table that this program knows")]
    NoTable {
        /// Its name.
        name: String,
    },
    /// The key is empty, or key and value are longer than the table takes.
    #[error(
        "a key of {key} and a value of {value} bytes do not fit: keys have 1 to {key_max} bytes, and both together {both_max}"
    )]
    DoesNotFit {
        /// Bytes of the key.
        key: usize,
        /// Bytes of the value.
        value: usize,
        /// The longest key.
        key_max: usize,
        /// What a slot holds, each of them rounded up to 8 bytes.
        both_max: usize,
    },
    /// All slots are in use, or all places of one bucket.
    #[error("the table is full: delete something, or make a larger one")]
    Full,
    /// Others changed the same keys all the time.
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
