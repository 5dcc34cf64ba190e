//! The settings of fire-and-forget messages between ranks.

use std::time::Duration;

use crate::ByteSize;
use crate::section::section;
use crate::value::Choice;

section! {
    /// Fire-and-forget messages between the ranks of a job. All ranks need the same.
    "messages" => pub struct MessagesSettings {
        /// Who moves bundles to other ranks: inline (the rank's own thread), agent (the agent, to those ranks that agents
        /// reach) or auto (whatever lets the rank get on faster; it is measured now and then).
        pub placement: MessagesPlacement = MessagesPlacement::Auto,
        /// The size of a bundle of messages: a power of two from 1KiB to 1MiB. Larger ones cost fewer operations for each
        /// message, smaller ones arrive sooner and stay in the processor's caches.
        pub bundle: ByteSize where bundle_size = ByteSize(32 << 10),
        /// How many bundles may be under way to each rank before there is back-pressure, from 2 to 256. A rank has so
        /// many bundles of memory for each rank, and twice as many slots to receive as there are ranks.
        pub buffers: usize where some_buffers = 16,
        /// How much memory a rank uses for all of them at most; large jobs get fewer and smaller bundles.
        pub memory: ByteSize where some_memory = ByteSize(64 << 20),
        /// How long a message may be.
        pub longest: ByteSize = ByteSize(64 << 20),
        /// How long ranks wait for each other to agree that nothing is left, or at a barrier.
        pub patience: Duration = Duration::from_secs(600),
    }
}

/// Who moves bundles to other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessagesPlacement {
    /// The rank's own thread.
    Inline,
    /// The agent, to those ranks that agents reach.
    Agent,
    /// The one of the two with which the rank gets on faster.
    Auto,
}

impl MessagesPlacement {
    /// As the setting `messages.placement` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Agent => "agent",
            Self::Auto => "auto",
        }
    }
}

impl Choice for MessagesPlacement {
    const KIND: &'static str = "placement";
    const EXAMPLE: &'static str = "inline, agent or auto";
    const ALL: &'static [(&'static str, Self)] =
        &[named(Self::Inline), named(Self::Agent), named(Self::Auto)];
}

const fn named(placement: MessagesPlacement) -> (&'static str, MessagesPlacement) {
    (placement.name(), placement)
}

fn bundle_size(bundle: &ByteSize) -> Result<(), &'static str> {
    if bundle.0.is_power_of_two() && (1 << 10..=1 << 20).contains(&bundle.0) {
        Ok(())
    } else {
        Err("it must be a power of two from 1KiB to 1MiB")
    }
}

fn some_buffers(buffers: &usize) -> Result<(), &'static str> {
    if (2..=256).contains(buffers) { Ok(()) } else { Err("it must be from 2 to 256") }
}

fn some_memory(memory: &ByteSize) -> Result<(), &'static str> {
    if memory.0 >= 1 << 20 { Ok(()) } else { Err("it must be at least 1MiB") }
}
