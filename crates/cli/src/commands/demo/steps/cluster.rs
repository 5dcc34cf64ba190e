//! The daemons of a demo: started, attached to, stopped.

use std::time::Instant;

use anyhow::{Result, ensure};
use outboard_link::Address;

use super::Finding;
use crate::children::{Child, GRACE};
use crate::commands::demo::stage::{By, Stage};
use crate::{daemon_ready, numbers, survey};

pub(super) fn start_memory(stage: &mut Stage) -> Result<Finding> {
    let child = Child::memory(&stage.settings, stage.sink())?;
    // The agent and the ranks are told where it is, and which port it was given.
    stage.settings.agent.memory_servers = vec![child.local()?.clone()];
    let finding = started(&child);
    stage.memory = Some(child);
    Ok(finding)
}

pub(super) fn start_agent(stage: &mut Stage) -> Result<Finding> {
    let child = Child::agent(&stage.settings, None, stage.sink())?;
    let finding = started(&child);
    stage.agent = Some(child);
    Ok(finding)
}

fn started(child: &Child) -> Finding {
    Finding::text(format!("process {} at {}", child.process.pid(), daemon_ready::show(&child.listening)))
}

/// Attaches several times over each kind of link and keeps the last connection.
pub(super) fn attach(stage: &mut Stage) -> Result<Finding> {
    const TIMES: usize = 9;
    let mut parts = Vec::new();
    let mut finding = Finding::text("");
    for by in [By::Shm, By::Tcp] {
        let address = by.address(stage.agent()?)?.clone();
        let mut times = Vec::new();
        for left in (0..TIMES).rev() {
            let began = Instant::now();
            let client = stage.connect(&address)?;
            times.push(began.elapsed());
            match left {
                0 => stage.agent_links.push(client),
                _ => client.close("only tried"),
            }
        }
        times.sort_unstable();
        let median = times[TIMES / 2];
        parts.push(format!("{} in {}", by.name(), numbers::time(median)));
        finding = finding.with(format!("attach_{}_p50_us", by.name()), median.as_secs_f64() * 1e6);
    }
    Ok(Finding { text: format!("{} (median of {TIMES})", parts.join(", ")), ..finding })
}

/// Stops what still runs and looks whether anything is left of it.
pub(super) fn stop(stage: &mut Stage) -> Result<Finding> {
    stage.agent_links.clear();
    let mut parts = Vec::new();
    for child in [stage.agent.take(), stage.memory.take()].into_iter().flatten() {
        let name = child.process.name().to_owned();
        let end = child.process.stop(GRACE);
        ensure!(end.is_success(), "{name} {end} when it was asked to end");
        parts.push(format!("{name} {end}"));
    }
    let listening = survey::listening();
    let places = stage.settings.memory.listen.iter().chain(&stage.settings.agent.listen);
    for place in places {
        if let Address::Abstract(name) = place {
            ensure!(!listening.contains(name), "somebody still listens at {place}");
        }
    }
    let text = if parts.is_empty() { "nothing ran any more".to_owned() } else { parts.join(", ") };
    Ok(Finding::text(format!("{text}; no process and no socket is left")))
}
