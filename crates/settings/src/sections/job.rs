//! The settings of a process of a job. A launcher passes them by environment.

use std::path::PathBuf;
use std::time::Duration;

use outboard_link::Address;
use outboard_wire::{JobId, Rank};

use crate::literal::{AUTO, NONE};
use crate::section::section;
use crate::value::Value;
use crate::{Literal, Secret, ValueError, default_socket};

section! {
    /// The settings of a process that belongs to a job, or looks for services on its own.
    "job" => pub struct JobSettings {
        /// The agent: an address, none for going without, or auto for the one at this user's default socket
        /// if there is one.
        pub agent: AddressChoice = AddressChoice::Auto,
        /// The memory server: an address, none for going without, or auto for the one at this user's default
        /// socket if there is one.
        pub memory: AddressChoice = AddressChoice::Auto,
        /// Whether the ranks start an agent on each node where agent is auto and none runs: one for all ranks there, which
        /// ends with the last of them. A process that mpirun, srun or torchrun has started does, unless told otherwise.
        pub start_agent: bool = false,
        /// The program that they start as their agent; none is outboard, wherever PATH finds it.
        pub agent_program: Option<PathBuf> = None,
        /// Where the ranks of the job find each other.
        pub rendezvous: Option<Address> = None,
        /// Whether rank 0 hosts the meeting at that place; otherwise another process does, like outboard run. Without a
        /// place it always does, unless there is an agent to meet at.
        pub rank0_hosts: bool = false,
        /// Where other ranks reach this one; none is a socket that only this node sees. On several nodes: tcp:ip:0.
        pub listen: Option<Address> = None,
        /// Which job this is.
        pub id: Option<JobId> = None,
        /// This process's number in the job, from 0.
        pub rank: Option<Rank> = None,
        /// How many ranks the job has.
        pub size: Option<u32> where positive = None,
        /// What the ranks of the job know and others do not.
        pub secret: Option<Secret> = None,
        /// How long the ranks wait for each other at the start.
        pub join_timeout: Duration = Duration::from_secs(30),
    }
}

fn positive(size: &Option<u32>) -> Result<(), &'static str> {
    if *size == Some(0) { Err("a job has at least one rank") } else { Ok(()) }
}

impl JobSettings {
    /// Where the agent is that the ranks of a node have started for themselves, if they may.
    pub fn own_agent(&self) -> Option<Address> {
        let may =
            self.start_agent && self.agent == AddressChoice::Auto && self.size.is_some_and(|size| size > 1);
        self.id.filter(|_| may).map(|id| default_socket(&format!("agent-{:016x}", id.0)))
    }
}

/// Where a service is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressChoice {
    /// At this user's default socket, if a daemon listens there.
    Auto,
    /// It is not to be used.
    None,
    /// There, and it is an error if it is not.
    At(Address),
}

impl AddressChoice {
    /// Where to look for `daemon` (`agent`, `memory`), if at all.
    pub fn address(&self, daemon: &str) -> Option<Address> {
        match self {
            Self::Auto => Some(default_socket(daemon)),
            Self::None => None,
            Self::At(address) => Some(address.clone()),
        }
    }
}

impl Value for AddressChoice {
    const KIND: &'static str = "address";
    const EXAMPLE: &'static str = "unix:@name, unix:/path, tcp:ip:port, auto or none";

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        match Self::text(literal)? {
            AUTO => Ok(Self::Auto),
            NONE => Ok(Self::None),
            text => Ok(Self::At(text.parse()?)),
        }
    }

    fn show(&self) -> Literal {
        match self {
            Self::Auto => Literal::text(AUTO),
            Self::None => Literal::text(NONE),
            Self::At(address) => Literal::text(address),
        }
    }
}
