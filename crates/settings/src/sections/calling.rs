//! The settings of calls at a memory server or an agent.

use crate::ByteSize;
use crate::section::section;

/// As many functions as one caller has numbers for.
const FUNCTIONS_MAX: usize = 4096;
/// As long as the code of a function can be.
const CODE_MAX: u64 = 1 << 20;

section! {
    /// What a memory server or an agent gives to clients that call functions there. Clients and functions are served by
    /// turns whatever these say.
    "calling" => pub struct CallingSettings {
        /// The most fuel that a call can have, about one for each instruction: 1000 to 100,000,000. A million takes about a
        /// millisecond, for which others may wait.
        pub fuel: u64 where some_fuel = 1_000_000,
        /// How many calls of one client wait or are suspended at most; more stay on its link. Each takes its arguments and
        /// its reply, of 16KiB at most.
        pub calls_per_client: usize where some_calls = 512,
        /// How many calls of one function of a client wait for their turn at most; more stay on its link.
        pub calls_per_function: usize where some_calls = 512,
        /// How many functions one client has there at most, and never more than are left for others.
        pub functions_per_client: usize where some_functions = 4096,
        /// How long the code of a function is at most. Machine code takes some ten times as much.
        pub code: ByteSize where some_code = ByteSize(256 << 10),
    }
}

fn some_fuel(fuel: &u64) -> Result<(), &'static str> {
    if (1000..=100_000_000).contains(fuel) { Ok(()) } else { Err("it must be from 1000 to 100000000") }
}

fn some_calls(calls: &usize) -> Result<(), &'static str> {
    if (1..=65_536).contains(calls) { Ok(()) } else { Err("it must be from 1 to 65536") }
}

fn some_functions(functions: &usize) -> Result<(), &'static str> {
    if (1..=FUNCTIONS_MAX).contains(functions) { Ok(()) } else { Err("it must be from 1 to 4096") }
}

fn some_code(code: &ByteSize) -> Result<(), &'static str> {
    if (1024..=CODE_MAX).contains(&code.0) { Ok(()) } else { Err("it must be from 1KiB to 1MiB") }
}
