//! `outboard demo-rank`: one rank of the demo's job, started by `outboard demo`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use outboard::{Configuration, FarRegion, Inputs, Job, Memory};
use outboard_wire::Rights;

use crate::terminal;

/// How the demo calls this command.
pub(super) const NAME: &str = "demo-rank";

/// How large a region the ranks need: two counters.
pub(super) const REGION_BYTES: u64 = 4096;
const TOTAL_AT: u64 = 0;
const DONE_AT: u64 = 64;

/// What each rank adds, one at a time.
const INCREMENTS: u64 = 1_000;

/// Play one rank of the demo's job; started by `outboard demo`
#[derive(clap::Args)]
#[command(name = NAME, hide = true, after_help = "Examples:
  outboard demo                starts this command by itself")]
pub(crate) struct Args {
    /// The region where the ranks count
    region: String,
}

/// Meets the others, counts with them, and as rank 0 checks what came out.
pub(crate) fn run(args: &Args) -> Result<()> {
    let configuration = Configuration::load(&Inputs::from_process().config("none"))?;
    let mut job = Job::with_settings(&configuration.settings)?;
    let (rank, size) = (job.rank(), job.size());
    let agent = job.agent().context("no agent; this command is started by `outboard demo`")?;
    agent.echo(b"a rank is here")?;
    let memory = job.memory().context("no memory server; this command is started by `outboard demo`")?;
    let region = memory.open_shared(&args.region, Rights::READ.and(Rights::WRITE))?;
    for _ in 0..INCREMENTS {
        memory.fetch_add(&region, TOTAL_AT, 1)?;
    }
    memory.fetch_add(&region, DONE_AT, 1)?;
    if rank > 0 {
        return Ok(());
    }
    await_all(memory, &region, size)?;
    let (total, expected) = (memory.fetch_add(&region, TOTAL_AT, 0)?, u64::from(size) * INCREMENTS);
    ensure!(total == expected, "{size} ranks added {expected} and the counter says {total}");
    terminal::print(&format!("{size} ranks met, and counted to {total} in far memory together, none lost"))
}

/// Waits until every rank has said that it is done.
fn await_all(memory: &mut Memory, region: &FarRegion, size: u32) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(10);
    const PAUSE: Duration = Duration::from_micros(200);
    let began = Instant::now();
    loop {
        let done = memory.fetch_add(region, DONE_AT, 0)?;
        if done == u64::from(size) {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            bail!("only {done} of {size} ranks were done after {PATIENCE:?}");
        }
        std::thread::park_timeout(PAUSE);
    }
}
