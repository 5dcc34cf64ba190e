//! What can go wrong in an application.

use outboard::{JobError, MessengerError, SendError};
use outboard_graph_format::GenerateError;
use thiserror::Error;

/// Why an application could not do its work.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AppError {
    /// A size that makes no sense.
    #[error("{name} is {value}, and must be from {least} to {most}")]
    Size {
        /// Of what.
        name: &'static str,
        /// What it is.
        value: u64,
        /// What it must be at least.
        least: u64,
        /// And at most.
        most: u64,
    },
    /// A mesh that cannot be divided.
    #[error(
        "a mesh of {x}x{y}x{z} cells cannot be cut into {ranks} blocks; use a larger one, or fewer ranks"
    )]
    Mesh {
        /// How many cells in the first direction.
        x: u32,
        /// In the second.
        y: u32,
        /// In the third.
        z: u32,
        /// How many ranks.
        ranks: u32,
    },
    /// No memory.
    #[error("no memory for {count} elements of {bytes} bytes; choose smaller sizes")]
    Memory {
        /// How many elements.
        count: u64,
        /// How large each is.
        bytes: usize,
    },
    /// The graph cannot be made.
    #[error("cannot make the graph: {0}")]
    Graph(#[from] GenerateError),
    /// The rank has no job.
    #[error(transparent)]
    Job(#[from] JobError),
    /// Messages cannot be exchanged.
    #[error(transparent)]
    Messenger(#[from] MessengerError),
    /// A message that no rank of this application can have meant.
    #[error("rank {rank} sent {what}; all ranks have to run the same program with the same sizes")]
    Nonsense {
        /// Whose message it is.
        rank: u32,
        /// What it is.
        what: &'static str,
    },
}

impl From<SendError> for AppError {
    fn from(error: SendError) -> Self {
        Self::Messenger(error.into())
    }
}

/// Says whether a size is within its bounds.
pub(crate) fn require(name: &'static str, value: u64, least: u64, most: u64) -> Result<(), AppError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(AppError::Size { name, value, least, most }) }
}

/// An array of so many equal elements, if there is memory for it.
pub(crate) fn array<T: Clone>(count: u64, element: T) -> Result<Vec<T>, AppError> {
    let failed = || AppError::Memory { count, bytes: size_of::<T>() };
    let len = usize::try_from(count).map_err(|_| failed())?;
    let mut array = Vec::new();
    array.try_reserve_exact(len).map_err(|_| failed())?;
    array.resize(len, element);
    Ok(array)
}
