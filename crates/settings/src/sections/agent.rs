//! The settings of an agent.

use std::time::Duration;

use outboard_link::Address;
use outboard_link::shaped::Wire;

use super::memory::{an_amount, not_empty, some_workers};
use crate::section::section;
use crate::value::Choice;
use crate::{ByteSize, Capacity, OrAuto, Percent, default_socket};

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
        /// How many threads serve its links. auto is 2, or 1 where affinity mask or processor quota allow no more.
        pub workers: OrAuto<usize> where some_workers = OrAuto::Auto,
        /// How long an idle thread looks for work before it sleeps: longer answers faster and costs processor
        /// time. auto is 20us, or 0s where a processor quota has less than two cores.
        pub spin: OrAuto<Duration> = OrAuto::Auto,
        /// A slower wire to imitate on its links, as bandwidth and latency; none leaves them as fast as they
        /// are.
        pub wire: Option<Wire> = None,
        /// A slower wire to imitate on the links that it dials itself, to memory servers and other agents, in
        /// place of `wire`.
        pub dial_wire: Option<Wire> = None,
        /// How much memory its page cache may use for regions that are cached dynamically: a size, or a share of the
        /// memory that it can have. Memory is used as the cache fills, not before; less than one entry means no such
        /// cache. auto is 256MiB, or an eighth of its memory where that is less.
        pub cache: OrAuto<Capacity> where an_amount = OrAuto::Auto,
        /// The size of an entry of the page cache: a power of two from 4KiB to 16MiB. Large entries need fewer
        /// tables and read further ahead, small ones waste less.
        pub cache_entry: ByteSize where entry_size = ByteSize(1 << 20),
        /// How many entries ahead of a movement through a region it reads at most; 0 reads nothing ahead.
        pub prefetch: usize where an_entry_or_some = 8,
        /// How much memory copies of regions may use that are cached statically, as a whole: a size, or a share of the
        /// memory that it can have. What does not fit is cached dynamically. auto is 1GiB, or an eighth of its memory
        /// where that is less.
        pub static_max: OrAuto<Capacity> where an_amount = OrAuto::Auto,
        /// How it passes requests on to memory servers: serial (one at a time), batched (what has arrived goes out
        /// together, then the next) or pipelined (at once). The first two are for comparison.
        pub forwarding: ForwardingChoice = ForwardingChoice::Pipelined,
        /// How long the parcels are in which it carries messages: a power of two from 4KiB to 1MiB, at least as long as
        /// the bundles of the jobs that it serves.
        pub parcel: ByteSize where parcel_size = ByteSize(64 << 10),
        /// How many parcels each of its threads has. Memory is used as they are needed, not before.
        pub parcels: usize where some_parcels = 256,
        /// How long it keeps a parcel open at most so that it gets full. It does so only while it gets full fast enough.
        pub hold: Duration where a_moment = Duration::from_micros(100),
        /// Whether it passes on messages between agents that are connected with it, but not with each other: for many
        /// nodes in a grid, where every agent is connected with those of its row and of its column.
        pub relay: bool = false,
        /// Whether it ends by itself when the last application that it served is gone, or when none has come for ten seconds.
        pub while_used: bool = false,
        /// How much processor time it may use, in percent of one core; none is no limit.
        pub quota: Option<Percent> where some_time = None,
    }
}

/// How an agent passes requests on to memory servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForwardingChoice {
    /// One at a time.
    Serial,
    /// What has arrived goes out together; then the next.
    Batched,
    /// At once, whatever is under way.
    Pipelined,
}

impl Choice for ForwardingChoice {
    const KIND: &'static str = "forwarding";
    const EXAMPLE: &'static str = "serial, batched or pipelined";
    const ALL: &'static [(&'static str, Self)] =
        &[("serial", Self::Serial), ("batched", Self::Batched), ("pipelined", Self::Pipelined)];
}

fn entry_size(entry: &ByteSize) -> Result<(), &'static str> {
    match entry.0.is_power_of_two() && (4 << 10..=16 << 20).contains(&entry.0) {
        true => Ok(()),
        false => Err("it must be a power of two from 4KiB to 16MiB"),
    }
}

fn an_entry_or_some(prefetch: &usize) -> Result<(), &'static str> {
    if *prefetch > 64 { Err("it must be at most 64") } else { Ok(()) }
}

fn parcel_size(parcel: &ByteSize) -> Result<(), &'static str> {
    match parcel.0.is_power_of_two() && (4 << 10..=1 << 20).contains(&parcel.0) {
        true => Ok(()),
        false => Err("it must be a power of two from 4KiB to 1MiB"),
    }
}

fn some_parcels(parcels: &usize) -> Result<(), &'static str> {
    if (8..=1 << 16).contains(parcels) { Ok(()) } else { Err("it must be from 8 to 65536") }
}

fn a_moment(hold: &Duration) -> Result<(), &'static str> {
    if *hold <= Duration::from_secs(1) { Ok(()) } else { Err("it must be at most 1s") }
}

fn some_time(quota: &Option<Percent>) -> Result<(), &'static str> {
    match quota {
        Some(quota) if *quota < Percent::from_percent(1) => Err("it must be at least 1%; none is no limit"),
        _ => Ok(()),
    }
}
