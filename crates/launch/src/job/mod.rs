//! A job: several ranks of one program that end together.

mod guard;
mod launch;
mod outcome;
mod running;
mod stdin;

pub use launch::{Launch, LaunchError};
pub use outcome::{JobOutcome, RankEnd, RankFailure};
pub use running::{Running, WaitError};
pub use stdin::StdinTo;
