//! The library for programs in C and C++: what `outboard` has, as functions with plain arguments. It decides nothing itself: each
//! function checks what it is given, calls `outboard`, and turns the answer into a status and a text.
//!
//! `include/outboard.h` is made of these files by `cargo xtask header`, and so are the manual pages of section 3: a comment of a
//! function here is what its users read. `link.sh` makes the shared library of the archive that cargo builds.
//!
//! - A handle is a number that looks like a pointer (`handles`): it is looked up and never followed, so one that was closed, or is
//!   of another kind, is refused.
//! - A structure of options begins with its size (`structures`): it can become longer, and programs that know less of it go on.
//! - No panic leaves a function (`status`).
//! - What C promises with its pointers, all functions take as granted in one place (`arguments`).
#![allow(
    non_camel_case_types,
    reason = "types have the names here that they have in C, which is what cbindgen reads"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "what callers promise is in the head of the header, once for all functions"
)]

#[macro_use]
mod arguments;
mod bytes;
mod caller;
mod daemons;
mod far;
mod function;
mod handles;
mod job;
mod mapping;
mod memory;
mod messenger;
mod region;
mod status;
mod structures;
mod writer;

pub use arguments::*;
pub use bytes::*;
pub use caller::*;
pub use daemons::*;
pub use far::*;
pub use function::*;
pub use job::*;
pub use mapping::*;
pub use memory::*;
pub use messenger::*;
pub use region::*;
pub use status::*;
pub use writer::*;
