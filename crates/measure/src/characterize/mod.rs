//! What do the links between an application, its agent and its memory server carry?
//!
//! Bandwidth and latency by operation, direction, size and memory node, taken by the application from daemons that
//! run as they always do: they answer trial frames and lend a region that holds nothing.

mod chart;
mod conclusions;
mod flow;
mod measurement;
mod mover;
#[allow(unsafe_code)]
mod node;
mod operation;
mod words;

use std::time::Duration;

use indicatif::ProgressBar;
use outboard::Settings;
use outboard_agent::{STATUS_GRANT, StatusView};
use outboard_link::{Address, Exports, Identity, Link, RemoteMemory, Waiter, shm, tcp};
use outboard_wire::Role;

pub use chart::chart;
pub use conclusions::{CachingAdvice, ChunkAdvice, Conclusions, NodeAdvice, ProtocolAdvice, SizeSpan};
pub use measurement::{AtWork, Characterization, Leg, Measurement, SIZES};
pub use operation::{Direction, MeasuredOperation, Party, Sides};

use crate::error::Named;
use crate::{Effort, Environment, MeasureError, bar};
use mover::{BUFFER_LEN, Mover};
use node::Nodes;

/// A daemon to measure with.
#[derive(Clone, Debug)]
pub struct MeasuredDaemon {
    /// What it has to be.
    pub party: Party,
    /// Where it is.
    pub address: Address,
}

/// Measures with each target in turn, over links with these settings.
pub fn characterize(
    targets: &[MeasuredDaemon],
    effort: Effort,
    settings: &Settings,
) -> Result<Characterization, MeasureError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Not pinned: neither are applications.
    let environment = Environment::survey(effort, cores, Vec::new());
    let Nodes { choices, remark } = Nodes::survey();
    let points = targets.len() * choices.len() * SIZES.len() * MeasuredOperation::ALL.len();
    let mut tour = Tour {
        time: time(effort),
        choices,
        bar: bar(points as u64),
        measurements: Vec::new(),
        agent_at_work: None,
    };
    for target in targets {
        tour.visit(target, settings)?;
    }
    let Tour { measurements, bar, agent_at_work, .. } = tour;
    bar.finish_and_clear();
    let conclusions = Conclusions::draw(&measurements);
    let remarks = remark.into_iter().collect();
    Ok(Characterization { measurements, conclusions, agent_at_work, remarks, environment })
}

/// How long one figure may take.
fn time(effort: Effort) -> Duration {
    match effort {
        Effort::Tiny => Duration::ZERO,
        Effort::Quick => Duration::from_millis(8),
        Effort::Full => Duration::from_millis(80),
    }
}

/// On the way from one daemon to the next.
struct Tour {
    time: Duration,
    choices: Vec<Option<u32>>,
    bar: ProgressBar,
    measurements: Vec<Measurement>,
    agent_at_work: Option<AtWork>,
}

impl Tour {
    fn visit(&mut self, target: &MeasuredDaemon, settings: &Settings) -> Result<(), MeasureError> {
        self.bar.set_message(format!("{} at {}", target.party, target.address));
        let identity = Identity::new(Role::Tool, "outboard characterize");
        match &target.address {
            Address::Tcp(address) => {
                let link = tcp::connect(*address, identity, Exports::new(), settings.link.tcp())?;
                self.measure(target, link)
            }
            address => {
                let link = shm::connect(address, identity, Exports::new(), settings.link.shm())?;
                self.measure(target, link)
            }
        }
    }

    fn measure<L: Link + RemoteMemory>(
        &mut self,
        target: &MeasuredDaemon,
        mut link: L,
    ) -> Result<(), MeasureError> {
        check_role(target, &link)?;
        let waiter = Waiter::new();
        for node in self.choices.clone() {
            let buffer = node::allocate(BUFFER_LEN, node).named("memory for a buffer")?;
            let mut mover = Mover::open(&mut link, waiter, &buffer)?;
            mover.prove()?;
            for (size, operation) in points() {
                let measurement = Measurement {
                    party: target.party,
                    link: mover.link_name(),
                    operation,
                    size,
                    node,
                    bandwidth: mover.bandwidth(operation, size, self.time)?,
                    latency_ns: mover.latency_ns(operation, size, self.time)?,
                };
                self.measurements.push(measurement);
                self.bar.inc(1);
            }
            mover.close();
        }
        if target.party == Party::Agent {
            self.agent_at_work = seen_at_work(&mut link, waiter)?;
        }
        link.close("that was all");
        Ok(())
    }
}

/// All operations of one size beside each other, so that what changes slowly changes all of them alike.
fn points() -> impl Iterator<Item = (usize, MeasuredOperation)> {
    SIZES.into_iter().flat_map(|size| MeasuredOperation::ALL.map(|operation| (size, operation)))
}

/// What the agent's page says of both bandwidths; one that serves no far memory says nothing.
fn seen_at_work<L: Link + RemoteMemory>(
    link: &mut L,
    waiter: Waiter,
) -> Result<Option<AtWork>, MeasureError> {
    let page = mover::read_region(link, waiter, &STATUS_GRANT)?;
    let Ok(view) = StatusView::read(&page) else { return Ok(None) };
    let number = |name| view.get(name).unwrap_or(0);
    Ok(AtWork::seen(number("net_bytes_per_second"), number("intra_bytes_per_second")))
}

fn check_role(target: &MeasuredDaemon, link: &impl Link) -> Result<(), MeasureError> {
    let expected = match target.party {
        Party::Agent => Role::Agent,
        Party::MemoryServer => Role::MemoryServer,
    };
    let peer = link.peer();
    if peer.intro().role == expected {
        return Ok(());
    }
    Err(MeasureError::WrongParty { expected: target.party, found: peer.clone() })
}

#[cfg(test)]
mod tests;
