//! What two Outboard processes must agree on: ids, headers, operations, versions.
//!
//! It moves no bytes and reads no clock; `link` does that. Every structure has a fixed little-endian layout
//! whose size is asserted at compile time, and every decoder checks what it reads: bytes come from processes
//! that nobody vouches for.

#![forbid(unsafe_code)]

pub mod access;
pub mod calling;
mod causes;
pub mod control;
mod error;
mod frame;
mod handshake;
mod id;
pub mod liveness;
mod mutant;
pub mod paging;
mod region;
pub mod routing;
mod text;
pub mod time;
pub mod trial;
pub mod writing;

pub use causes::with_causes;
pub use error::DecodeError;
pub use frame::{Flow, FrameHead, FrameHeader, Kind, Room};
pub use handshake::{
    Answer, Auth, HANDSHAKE_LEN, Hello, Introduction, Refusal, RefusalReason, Versions, Wait, Welcome,
};
pub use id::{Generation, Incarnation, JobId, Rank, RegionId, RegionKey, Rights, Role, ServerId};
pub use mutant::mutant;
pub use region::{CHUNK_LOG2_MAX, CHUNK_LOG2_MIN, EXTENTS_MAX, Extent, ExtentRole, Grant, RegionDescriptor};
pub use text::Text;
pub use time::Time;

#[cfg(test)]
mod tests;
