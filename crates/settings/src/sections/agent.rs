//! The settings of an agent.

use std::time::Duration;

use outboard_link::Address;
use outboard_link::shaped::Wire;

use super::memory::not_empty;
use crate::section::section;
use crate::{Percent, default_socket};

section! {
    /// The settings of an agent.
    "agent" => pub struct AgentSettings {
        /// The name by which others speak of it; the first 32 bytes travel.
        pub name: String = "agent".to_owned(),
        /// Where it listens.
        pub listen: Vec<Address> where not_empty = vec![default_socket("agent")],
        /// The memory servers it uses. One that does not answer yet is tried again.
        pub memory_servers: Vec<Address> = vec![default_socket("memory")],
        /// The agents of other nodes that it connects to.
        pub peers: Vec<Address> = Vec::new(),
        /// How many threads serve its links.
        pub workers: usize where positive = 2,
        /// How long an idle thread looks for work before it sleeps: longer answers faster and costs processor
        /// time.
        pub spin: Duration = Duration::from_micros(20),
        /// A slower wire to imitate on its links, as bandwidth and latency; none leaves them as fast as they
        /// are.
        pub wire: Option<Wire> = None,
        /// How much processor time it may use, in percent of one core; none is no limit.
        pub quota: Option<Percent> where some_time = None,
    }
}

fn positive(workers: &usize) -> Result<(), &'static str> {
    if *workers == 0 { Err("there must be at least one worker") } else { Ok(()) }
}

fn some_time(quota: &Option<Percent>) -> Result<(), &'static str> {
    match quota {
        Some(quota) if *quota < Percent::from_percent(1) => Err("it must be at least 1%; none is no limit"),
        _ => Ok(()),
    }
}
