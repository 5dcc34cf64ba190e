//! What two Outboard processes must agree on: ids, headers, operations, versions.
//!
//! It moves no bytes and reads no clock; `link` does that. Every structure has a fixed little-endian layout
//! whose size is asserted at compile time, and every decoder checks what it reads: bytes come from processes
//! that are not trusted.

#![forbid(unsafe_code)]

pub mod access;
pub mod calling;
mod causes;
pub mod control;
mod error;
mod fixed;
mod frame;
mod handshake;
mod id;
pub mod liveness;
mod mutant;
pub mod paging;
mod region;
pub mod routing;
mod site;
mod text;
pub mod time;
pub mod trial;
mod versions;
pub mod writing;

pub use causes::with_causes;
pub use error::DecodeError;
pub use fixed::FixedPart;
pub use frame::{Flow, FrameHead, FrameHeader, FrameKind, Room};
pub use handshake::{
    Auth, HANDSHAKE_LEN, HandshakeAnswer, Hello, Introduction, Refusal, RefusalReason, Wait, Welcome,
};
pub use id::{Generation, Incarnation, JobId, Rank, RegionId, RegionKey, Rights, Role, ServerId, StoreId};
pub use mutant::mutant;
pub use region::{CHUNK_LOG2_MAX, CHUNK_LOG2_MIN, EXTENTS_MAX, Extent, ExtentRole, Grant, RegionDescriptor};
pub use site::Site;
pub use text::Text;
pub use time::Time;
pub use versions::Versions;

#[cfg(test)]
mod tests;
