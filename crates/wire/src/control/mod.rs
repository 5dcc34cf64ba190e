//! What clients ask of daemons: regions, and the ranks of a job finding each other.
//!
//! The frame's tag pairs an answer with its question. None of this is on a hot path.

mod answer;
mod member;
mod question;

pub use answer::{ControlAnswer, ControlFailure, LIST_MAX, ListedRegion, RANKS_MAX};
pub use member::{JobSecret, Member, MemberAddress};
pub use question::{FILE_PREFIX, FilePath, Question, RegionName, RegionSharing};

use crate::DecodeError;

fn unused(what: &'static str, value: u64) -> Result<(), DecodeError> {
    if value == 0 { Ok(()) } else { Err(DecodeError::BadValue { what, value }) }
}
