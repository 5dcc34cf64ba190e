//! What can go wrong with a table.

use outboard::{AskError, CallError, ImageError, Peer, RegisterError};
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
    /// A table cannot be made whose keys have no byte.
    #[error("a table needs a longest key of at least 1 byte")]
    NoKey,
    /// There is no table of that name.
    #[error(
        "{server} has no table “{name}”; make it with `outboard kv create --table {name}` or `Table::create`"
    )]
    NoSuchTable {
        /// Which server.
        server: Peer,
        /// The name.
        name: String,
    },
    /// The region has no table.
    #[error("the region “{name}” holds no table that this program knows; choose another name")]
    NoTable {
        /// Its name.
        name: String,
    },
    /// The key is empty, or key or value are longer than the table takes.
    #[error("{}", unfit(*key, *value, *key_max, *value_max))]
    DoesNotFit {
        /// Bytes of the key.
        key: usize,
        /// Bytes of the value.
        value: usize,
        /// The longest key.
        key_max: usize,
        /// The longest value.
        value_max: usize,
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

/// Only the part that does not fit is named.
fn unfit(key: usize, value: usize, key_max: usize, value_max: usize) -> String {
    match key {
        0 => "the key is empty; a key has at least one byte".to_owned(),
        _ if key > key_max => {
            format!(
                "the key has {key} bytes; keys of this table have at most {key_max} (--key-max of `outboard kv create`)"
            )
        }
        _ => format!(
            "the value has {value} bytes; values of this table have at most {value_max} (--value-max of `outboard kv create`)"
        ),
    }
}
