//! Counters that several programs change at once; start some of them. In another terminal: `outboard up`.
//!
//!     cargo run --release -p outboard --example counters
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use std::thread;

use outboard::{AskError, FarRegion, Memory, Outboard, Rights};

const EVENTS: u64 = 1000;
/// Where the counters are: of events, and the highest number so far.
const COUNT: u64 = 0;
const HIGHEST: u64 = 8;

/// Makes a word at least `value`, whatever other programs do to it meanwhile.
fn raise(memory: &mut Memory, counters: &FarRegion, offset: u64, value: u64) -> Result<(), AskError> {
    let mut known = 0;
    while known < value {
        match memory.compare_swap(counters, offset, known, value)? {
            found if found == known => break, // it was as we knew it, and is `value` now
            found => known = found,
        }
    }
    Ok(())
}

fn count(memory: &mut Memory, thread: u64) -> Result<(), AskError> {
    let counters = memory.open_shared("counters", Rights::READ.and(Rights::WRITE))?;
    for event in 0..EVENTS {
        memory.fetch_add(&counters, COUNT, 1)?;
        raise(memory, &counters, HIGHEST, event * 10 + thread)?;
    }
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outboard = Outboard::find()?; // this user's `outboard up`
    let mut memory = outboard.memory()?;
    // The first program makes them. They have a name, and stay: `outboard memory free counters` ends them.
    let made = memory.reserve_shared(4096, "counters");
    let counters = made.or_else(|_| memory.open_shared("counters", Rights::READ))?;
    let mut links = [outboard.memory()?, outboard.memory()?]; // a link is one thread's
    thread::scope(|scope| {
        let threads =
            links.iter_mut().zip(0..).map(|(link, thread)| scope.spawn(move || count(link, thread)));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread that counts does not panic"))
    })?;
    let mut words = [0; 16];
    memory.read(&counters, 0, &mut words)?;
    let word =
        |at: u64| u64::from_le_bytes(words[at as usize..][..8].try_into().expect("a word has 8 bytes"));
    println!("{} events by all programs, the highest is {}", word(COUNT), word(HIGHEST));
    Ok(())
}
