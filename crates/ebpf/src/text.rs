//! Programs as people read and write them.
//!
//! ```text
//! ; Sums the bytes of the context.
//! .rodata 68656c6c6f        ; constants, in hex; .data for variables
//! .entry sum                ; a function that can be started; .function for one that is only called
//!     mov r0, 0
//! loop:
//!     jeq r2, 0, done       ; labels, or distances such as +3
//!     ldxb r3, [r1+0]
//!     add r0, r3
//!     add r1, 1
//!     sub r2, 1
//!     ja loop
//! done:
//!     exit
//! ```
//!
//! | form | instructions |
//! |---|---|
//! | `add r0, r1` or `add r0, 7` | `add sub mul div sdiv or and lsh rsh mod smod xor mov arsh`, and `neg r0`; with `32` behind it, on the lower half |
//! | `movsx832 r0, r1` | `movsx832 movsx1632 movsx864 movsx1664 movsx3264`: from so many bits, to so many bits |
//! | `be16 r0` | `le be swap`, each with `16`, `32` or `64` |
//! | `lddw r0, 0x1122334455667788` | 64-bit constants |
//! | `ldxw r0, [r1+4]` | `ldxb ldxh ldxw ldxdw`, and with sign `ldxbsx ldxhsx ldxwsx` |
//! | `stw [r1+4], 7`, `stxw [r1+4], r0` | `b h w dw` |
//! | `lock add [r1+4], r0` | `add or and xor`, `fetch_add fetch_or fetch_and fetch_xor xchg cmpxchg`; with `32` behind it, on four bytes |
//! | `jeq r0, 7, target` | `jeq jne jgt jge jlt jle jsgt jsge jslt jsle jset`; with `32` behind it, on the lower half |
//! | `ja target` | `ja32` has a distance of 32 bits |
//! | `call 5`, `call name`, `call local name` | helpers by number or name, functions |
//! | `exit` | |
//!
//! Comments begin with `;` or `#`. Registers may be written `%r0`. A text without `.entry` starts at its first
//! instruction, under the name `main`.

mod assemble;
mod disassemble;
mod names;

pub use assemble::{AssembleError, Mistake, assemble};
pub use disassemble::{disassemble, instruction};

#[cfg(test)]
mod tests;
