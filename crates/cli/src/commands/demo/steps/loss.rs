//! What the death of an agent costs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use outboard::{AskError, Client};
use outboard_link::{Address, ConnectError, LinkError};
use rustix::process::{Pid, Signal, kill_process};

use super::Finding;
use crate::children::GRACE;
use crate::commands::demo::stage::{By, Stage};
use crate::numbers;

/// How long the death of a process may stay unnoticed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kills the agent without warning. Every link to it has to report that by name, and work has to go on without it.
pub(super) fn kill_agent(stage: &mut Stage) -> Result<Finding> {
    let mut direct = stage.connect_memory(By::Shm)?;
    let region = direct.reserve(4096, None)?;
    direct.write(&region, 0, b"before")?;
    let links = std::mem::take(&mut stage.agent_links);
    ensure!(!links.is_empty(), "nobody is attached to the agent");
    let agent = stage.agent()?;
    let (pid, address) = (agent.process.pid(), agent.local()?.clone());
    kill(pid)?;
    let killed = Instant::now();
    let mut finding = Finding::text("");
    let mut parts = Vec::new();
    let mut words = String::new();
    for mut link in links {
        let name = link.link_name();
        let error = loss(&mut link)?;
        let after = killed.elapsed();
        ensure!(error.peer.intro().pid == pid, "the loss of process {pid} was told as “{error}”");
        parts.push(format!("{name} after {}", numbers::time(after)));
        finding = finding.with(format!("loss_{name}_ms"), after.as_secs_f64() * 1e3);
        let intro = error.peer.intro();
        words = format!("lost {} {}: {}", intro.role, intro.name, error.loss);
    }
    let end = stage.agent.take().map(|agent| agent.process.stop(GRACE));
    ensure!(end.is_some_and(|end| !end.is_success()), "the agent has survived");
    await_nobody(stage, &address)?;
    let mut read = *b"------";
    direct.read(&region, 0, &mut read)?;
    ensure!(read == *b"before", "far memory has changed");
    direct.write(&region, 0, b"after ")?;
    direct.free(region)?;
    direct.close("done");
    let text = format!("“{words}” told by {}; work goes on direct", parts.join(", "));
    Ok(Finding { text, ..finding })
}

fn kill(pid: u32) -> Result<()> {
    let process = Pid::from_raw(pid.cast_signed()).context("the agent has no process number")?;
    kill_process(process, Signal::KILL).with_context(|| format!("cannot kill process {pid}"))
}

/// Connections that came just before the end may still hang up; after it nobody is there.
fn await_nobody(stage: &Stage, address: &Address) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match stage.connect(address).map_err(|error| error.downcast()) {
            Ok(client) => bail!("{} has taken the killed agent's place", client.peer()),
            Err(Ok(ConnectError::Unreachable { .. })) => return Ok(()),
            Err(Ok(ConnectError::HungUp { .. })) => {}
            Err(Ok(other)) => return Err(other.into()),
            Err(Err(other)) => return Err(other),
        }
    }
    bail!("somebody still hangs up at {address} {PATIENCE:?} after the agent was killed")
}

/// Asks until the loss is noticed.
fn loss(link: &mut Client) -> Result<LinkError> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match link.echo(b"still there?") {
            Ok(_) => {}
            Err(AskError::Lost(error)) => return Ok(error),
            Err(other) => return Err(other.into()),
        }
    }
    bail!("{} still answers {PATIENCE:?} after it was killed", link.peer())
}
