//! Every instruction of RFC 9669 and its edge cases, as tables.

mod arithmetic;
mod atomics;
mod calls;
mod fuel;
mod jumps;
mod memory;
mod moves;
mod refusals;
