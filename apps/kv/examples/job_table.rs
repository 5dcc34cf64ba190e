//! A table that all ranks of a job share, and that ends with the job. In another terminal: `outboard up`.
//!
//!     cargo build --release -p outboard-kv --examples
//!     outboard run -n 3 -- target/release/examples/job_table
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use std::error::Error;

use outboard::Job;
use outboard_kv::{Kv, KvTable, TableOptions};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let job = Job::join()?;
    let (mut messenger, mut memory) = (job.messenger()?, job.memory()?);
    let name = format!("table-{:016x}", job.id()); // no other job has one of this name
    if job.rank() == 0 {
        let options = TableOptions { keys: 10_000, key_max: 16, value_max: 64 };
        KvTable::create(&mut memory, &name, &options)?; // it has a name, so it stays until it is freed
    }
    messenger.barrier()?; // the table is there
    let table = KvTable::open(&mut memory, &name)?;
    let mut kv = Kv::new(job.caller()?, &table)?;
    kv.put(&key(job.rank()), b"was here")?;
    messenger.barrier()?; // every rank has put its value
    let next = (job.rank() + 1) % job.size();
    let value = kv.get(&key(next))?.ok_or("a rank passed the barrier without its value")?;
    println!("rank {next} {}", String::from_utf8_lossy(&value));
    messenger.barrier()?; // no rank needs the table any more
    if job.rank() == 0 {
        table.free(&mut memory)?;
    }
    Ok(())
}

fn key(rank: u32) -> Vec<u8> {
    format!("rank {rank}").into_bytes()
}
