//! The daemons of a demo: started and stopped.

use anyhow::{Result, ensure};
use outboard_link::Address;

use super::Finding;
use crate::children::GRACE;
use crate::commands::demo::stage::Stage;
use crate::survey;

pub(super) fn start(stage: &mut Stage) -> Result<Finding> {
    let memory = stage.start_memory()?.process.pid();
    let agent = stage.agent()?.process.pid();
    let text = format!("a memory server (process {memory}) and an agent (process {agent})");
    Ok(Finding::text(text)
        .gained("no installation, no privilege, no settings")
        .with("memory_pid", memory.into())
        .with("agent_pid", agent.into()))
}

/// Stops what still runs and looks whether anything is left of it.
pub(super) fn stop(stage: &mut Stage) -> Result<Finding> {
    let mut parts = Vec::new();
    for child in stage.take_daemons() {
        let name = child.process.name().to_owned();
        let end = child.process.stop(GRACE);
        ensure!(end.is_success(), "{name} {end} when it was asked to end");
        parts.push(format!("{name} {end}"));
    }
    let listening = survey::listening();
    let places = stage.settings.memory.listen.iter().chain(&stage.settings.agent.listen);
    for place in places {
        if let Address::Abstract(name) = place {
            ensure!(!listening.contains(name), "a process still listens at {place}");
        }
    }
    let text = if parts.is_empty() { "no daemon ran any more".to_owned() } else { parts.join(", ") };
    Ok(Finding::text(text).gained("no process and no socket is left"))
}
