//! The library that `outboard far` loads into a program that was not changed (`LD_PRELOAD`): it stands in front of the C library's
//! calls for memory, and takes what they give from one mapping of far memory.
//!
//! It does not link into anything, has no interface of its own but the variable `OUTBOARD_PRELOAD` (`settings`), and does nothing in
//! a process that lacks it. Programs that allocate by system calls of their own are not reached.
//!
//! Two levels (`docs/any-program.md` has the table of all calls):
//!
//! | level | calls | files |
//! |---|---|---|
//! | mmap | anonymous private mappings from a threshold on, and all that is done to them | `calls`, `ranges`, `room` |
//! | malloc | the C library's allocator, in programs that have no other | `malloc` |
//!
//! The memory of the library itself stays out by construction: its allocator takes pages by system calls (`heap`), tables of
//! blocks lie in pages of their own, and what the dynamic linker and the C library allocate for themselves is told by the address
//! that they call from (`origin`).

mod calls;
mod directory;
mod far;
mod fork;
mod heap;
mod keeper;
mod ledger;
mod lock;
mod malloc;
mod next;
mod origin;
mod pages;
mod ranges;
mod room;
mod settings;
mod start;
