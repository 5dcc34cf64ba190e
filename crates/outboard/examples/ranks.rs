//! Ranks that say where they are, on one machine or on several.
//!
//!     cargo build --release -p outboard --examples
//!     outboard run -n 4 -- target/release/examples/ranks
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use std::collections::BTreeMap;

use outboard::Job;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job::join()?; // from the environment that `outboard run`, mpirun, srun or torchrun has set
    let mut messenger = job.messenger()?;
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    messenger.send(0, machine.trim().as_bytes())?;
    let mut machines = BTreeMap::new();
    messenger.quiesce(0, |_, rank, name| {
        machines.insert(rank, String::from_utf8_lossy(name).into_owned());
    })?;
    for (rank, machine) in &machines {
        println!("rank {rank} of {} is at {machine}", job.size()); // all of them arrive at rank 0
    }
    Ok(())
}
