#![doc = "Goes on when its memory server is lost, and saves what is here."]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program speaks to people")]

use std::error::Error;
use std::time::Duration;

use outboard::{BufferSize, FarError, Outboard};

/// Counts in far memory until its memory server is lost, and saves what is here. Returns how many counters those are.
fn live_on(outboard: &Outboard) -> Result<usize, Box<dyn Error>> {
    let far = outboard.far_with(outboard.far_options().with_buffer(BufferSize::Bytes(16 << 20)))?;
    far.when_lost(|loss| eprintln!("{loss}"))?;
    let mut counters = far.allocate::<u64>(8 << 20)?; // 64 MiB, a quarter of it here at a time
    let patience = Duration::from_secs(60);
    let mut at = 0;
    loop {
        let mut counter = [0];
        let counted = counters.try_read(at, &mut counter, patience).and_then(|()| {
            counter[0] += 1;
            counters.try_write(at, &counter, patience)
        });
        match counted {
            Err(FarError::Lost { .. }) => break,
            counted => counted?,
        }
        if at == 0 {
            println!("counting");
        }
        at = (at + 40_961) % counters.len();
    }
    // What is here can be read without waiting; what is not is lost.
    let mut saved = vec![0; counters.mapping().chunk() / size_of::<u64>()];
    let mut count = 0;
    for start in (0..counters.len()).step_by(saved.len()) {
        match counters.try_read(start, &mut saved, Duration::ZERO) {
            Ok(()) => count += saved.len(), // here a program would write them to a file
            Err(FarError::Lost { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(count)
}

/// Does so at the memory server that the first argument names.
pub fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).ok_or("name a memory server: living_on tcp:127.0.0.1:7411")?;
    println!("saved {} counters", live_on(&Outboard::at(server.parse()?))?);
    Ok(())
}
