//! Frames to the agent and back.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Finding;
use crate::commands::demo::stage::{By, Stage};
use crate::numbers;

const SIZES: [(&str, usize); 3] = [("64B", 64), ("4KiB", 4 << 10), ("64KiB", 64 << 10)];
const TIMES: usize = 200;

pub(super) fn through_shared_memory(stage: &mut Stage) -> Result<Finding> {
    echo(stage, By::Shm)
}

pub(super) fn over_tcp(stage: &mut Stage) -> Result<Finding> {
    echo(stage, By::Tcp)
}

fn echo(stage: &mut Stage, by: By) -> Result<Finding> {
    let link = stage.agent_links.iter_mut().find(|link| link.link_name().starts_with(by.name()));
    let link = link.with_context(|| format!("no {} link to the agent is open", by.name()))?;
    let mut parts = Vec::new();
    let mut finding = Finding::text("");
    for (name, size) in SIZES {
        let payload: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let mut times = (0..TIMES).map(|_| link.echo(&payload)).collect::<Result<Vec<Duration>, _>>()?;
        times.sort_unstable();
        let median = times[TIMES / 2];
        parts.push(format!("{} {}", numbers::bytes(size as u64), numbers::time(median)));
        finding = finding.with(format!("echo_{}_{name}_p50_us", by.name()), median.as_secs_f64() * 1e6);
    }
    Ok(Finding { text: format!("{} there and back (median of {TIMES})", parts.join(", ")), ..finding })
}
