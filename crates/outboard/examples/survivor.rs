//! Goes on when its agent dies; end the agent meanwhile. In other terminals: `outboard memory` and `outboard agent`.
//!
//!     cargo run --release -p outboard --example survivor
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use std::time::Duration;

use outboard::{Outboard, Path, RegionOptions};

const PASSES: u64 = 40;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outboard = Outboard::find()?; // this user's `outboard up`, or these two
    let far = outboard.far_with(outboard.far_options().with_buffer("4MiB".parse()?))?;
    let options = RegionOptions::default().with_path(Path::Agent); // all of it by the agent, as long as there is one
    let mut counters = far.allocate_with::<u64>(2 << 20, &options)?; // 16 MiB, of which 4 MiB are here at a time
    let has_agent = far.wait_for_agent(Duration::from_secs(5));
    println!("counting, {} an agent", if has_agent { "by" } else { "without" });
    for _ in 0..PASSES {
        // Three quarters of it leave and come back in each pass. What the agent had when it died was kept here.
        counters.iter_mut().for_each(|counter| *counter += 1);
    }
    assert!(counters.iter().all(|counter| *counter == PASSES));
    println!("every counter is {PASSES}; {} links to the agent were lost", far.stats().agent_losses);
    Ok(())
}
