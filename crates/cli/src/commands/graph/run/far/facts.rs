//! Far memory as it was during a run, and what it did.

use outboard_link::Address;
use serde_json::{Value, json};

use super::super::Memory;
use super::daemons::Daemons;
use super::figures::Figures;
use super::flags::Plan;
use crate::daemon_ready::show;
use crate::numbers;

/// The facts about far memory after a run.
pub(in super::super) struct Facts<'a> {
    pub(super) plan: &'a Plan,
    /// The size of chunks of the graph's arrays.
    pub(super) chunk: usize,
    pub(super) daemons: &'a Daemons,
    /// Whether the agent has taken the graph's arrays.
    pub(super) is_agent_ready: bool,
    /// How the graph came into far memory.
    pub(super) origin: &'static str,
    pub(super) buffer: usize,
    /// How much far memory the application uses.
    pub(super) footprint: u64,
    pub(super) figures: Figures,
    pub(super) explanation: Vec<String>,
}

impl Facts<'_> {
    /// For people.
    pub(in super::super) fn rows(&self) -> Vec<(&'static str, String)> {
        let Self { plan, buffer, footprint, .. } = self;
        let mut rows = vec![(
            "far memory",
            format!(
                "{}, chunks of {}, {} state",
                room(*buffer as u64, *footprint),
                numbers::bytes(self.chunk as u64),
                self.state(),
            ),
        )];
        let wire = plan.wire.map(|wire| format!(", like {wire}")).unwrap_or_default();
        rows.push(("memory server", format!("{}, graph {}{wire}", show(&self.daemons.servers), self.origin)));
        if let Some(agent) = &self.daemons.agent {
            let absence = if self.is_agent_ready { "" } else { "; it did not take the graph in time" };
            let (path, cache) = (plan.path_name(), plan.cache_name());
            rows.push(("agent", format!("{agent}, path {path}, cache {cache}{absence}")));
        }
        rows.extend(self.figures.rows(self.daemons.agent.is_some()));
        rows
    }

    /// The choices and their reasons, a line each.
    pub(in super::super) fn explanation(&self) -> &[String] {
        &self.explanation
    }

    /// For programs.
    pub(in super::super) fn json(&self) -> Value {
        let Self { plan, daemons, .. } = self;
        let mut json = self.figures.json();
        json["server"] = daemons.servers.first().map(Address::to_string).into();
        json["servers"] = daemons.servers.iter().map(Address::to_string).collect::<Vec<_>>().into();
        json["agent"] = daemons.agent.as_ref().map(Address::to_string).into();
        json["agent_ready"] = self.is_agent_ready.into();
        json["path"] = plan.path_name().into();
        json["cache"] = plan.cache_name().into();
        json["state"] = self.state().into();
        json["wire"] = plan.wire.map(|wire| wire.to_string()).into();
        json["graph"] = self.origin.into();
        json["chunk_bytes"] = self.chunk.into();
        json["buffer_bytes"] = self.buffer.into();
        json["footprint_bytes"] = self.footprint.into();
        if plan.explains {
            json["explanation"] = json!(self.explanation);
        }
        json
    }

    fn state(&self) -> &'static str {
        match self.plan.state {
            Memory::Dram => "dram",
            Memory::Far => "far",
        }
    }
}

/// How much of far memory may be here.
fn room(buffer: u64, footprint: u64) -> String {
    let [buffer_text, footprint_text] = [buffer, footprint].map(numbers::bytes);
    match buffer < footprint {
        true => format!("{buffer_text} of {footprint_text} here at once"),
        false => format!("all {footprint_text} fit into the buffer of {buffer_text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_never_more_than_the_whole() {
        assert_eq!(
            room(256 << 10, 1 << 20),
            "256 KiB of 1 MiB here at once".replace("1 MiB", &numbers::bytes(1 << 20))
        );
        assert_eq!(room(256 << 10, 144), "all 144 B fit into the buffer of 256 KiB");
    }
}
