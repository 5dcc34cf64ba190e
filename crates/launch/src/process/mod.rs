//! Processes: found, started, listened to, ended.

mod crew;
mod end;
mod member;
mod program;
mod spawn;

pub(crate) use crew::{Crew, Other, wait_readable};
pub use end::{End, signal_name};
pub(crate) use member::Member;
pub use program::{ProgramNotFound, find_program};
pub(crate) use spawn::{Spawn, cpu_set};
