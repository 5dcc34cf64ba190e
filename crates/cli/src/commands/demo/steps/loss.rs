//! How applications learn of an agent's death.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use outboard::{AskError, Client};
use outboard_link::{Address, ConnectError, LinkError};

use super::Finding;
use crate::commands::demo::stage::{By, PATIENCE, Stage};
use crate::numbers;

/// Kills the agent without warning. Every link to it has to report that by name.
pub(super) fn told_by_name(stage: &mut Stage) -> Result<Finding> {
    let (agent, victim) = (stage.agent_address()?, stage.victim()?);
    let links: Vec<Client> = By::BOTH
        .into_iter()
        .map(|by| {
            let address = by.address(stage.agent()?)?.clone();
            stage.connect(&address)
        })
        .collect::<Result<_>>()?;
    victim.kill()?;
    let killed = Instant::now();
    let mut finding = Finding::text("");
    let mut parts = Vec::new();
    let mut words = String::new();
    for mut link in links {
        let name = link.link_name();
        let error = loss(&mut link)?;
        let after = killed.elapsed();
        ensure!(
            error.peer.intro().pid == victim.pid,
            "the loss of process {} was told as “{error}”",
            victim.pid
        );
        parts.push(format!("{name} after {}", numbers::time(after)));
        finding = finding.with(format!("loss_{name}_ms"), after.as_secs_f64() * 1e3);
        let intro = error.peer.intro();
        words = format!("lost {} {}: {}", intro.role, intro.name, error.loss);
    }
    stage.bury_agent()?;
    await_silence(stage, &agent)?;
    let text = format!("kill -9: “{words}”, told by {}", parts.join(", "));
    Ok(Finding { text, gain: "the loss has a name, at once".to_owned(), ..finding })
}

/// Connections that came just before the end may still hang up; after it there is no answer.
fn await_silence(stage: &Stage, address: &Address) -> Result<()> {
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
    bail!("connections to {address} still hang up {PATIENCE:?} after the agent was killed")
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
