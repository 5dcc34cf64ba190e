//! Functions as a caller knows them, and where they are registered.

use std::time::Duration;

use outboard_calling::{Begin, FunctionNeeds, slot_of};
use outboard_wire::calling::Allowed;
use outboard_wire::{Grant, Rights};

use crate::memory::FarRegion;

/// The regions, fuel and replies that a function may use.
#[derive(Clone, Debug)]
pub struct FunctionOptions {
    fuel: u64,
    reply_max: u32,
    regions: Vec<Allowed>,
}

impl Default for FunctionOptions {
    fn default() -> Self {
        Self { fuel: 100_000, reply_max: 4096, regions: Vec::new() }
    }
}

impl FunctionOptions {
    /// Sets the fuel of each call, about one for each instruction; default 100,000. Sites give a million at
    /// most.
    pub fn with_fuel(self, fuel: u64) -> Self {
        Self { fuel, ..self }
    }

    /// Sets the longest reply, in bytes; default 4096. Sites allow 16 KiB at most.
    pub fn with_reply_max(self, reply_max: u32) -> Self {
        Self { reply_max, ..self }
    }

    /// Adds a region, which the function knows by its place in the list: the first is 0. A process that
    /// registers the function needs these rights and [`Rights::CALL`].
    pub fn with_region(mut self, region: &FarRegion, rights: Rights) -> Self {
        let Grant { region, generation, key, size, .. } = region.descriptor().grant;
        self.regions.push(Allowed { region, generation, key, rights, size });
        self
    }

    pub(super) fn into_wanted(self) -> FunctionNeeds {
        let Self { fuel, reply_max, regions } = self;
        FunctionNeeds { regions, fuel, reply_max }
    }
}

/// A function that a [`Caller`](super::Caller) has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionHandle {
    pub(super) handle: u32,
    /// That of calls without a key.
    pub(super) slot: u8,
    /// Where it is registered.
    pub(super) server: u8,
}

impl FunctionHandle {
    /// There are no more servers than a byte counts.
    pub(super) fn new(server: CallServer, handle: u32) -> Self {
        Self { handle, slot: slot_of(&handle.to_le_bytes()), server: server.0 as u8 }
    }

    /// Its number, by which another function of the same caller can go on as this one (`forward`, `forward_to`).
    pub fn number(self) -> u32 {
        self.handle
    }

    /// The memory server where it is registered.
    pub fn server(self) -> CallServer {
        CallServer(self.server.into())
    }

    #[inline]
    pub(super) fn without_key(self, arguments: &[u8], patience: Option<Duration>) -> Begin<'_> {
        self.in_slot(self.slot, arguments, patience)
    }

    #[inline]
    pub(super) fn in_slot(self, slot: u8, arguments: &[u8], patience: Option<Duration>) -> Begin<'_> {
        Begin { handle: self.handle, slot, arguments, patience }
    }
}

/// A memory server of a [`Caller`](super::Caller).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallServer(pub(super) u32);

impl CallServer {
    /// The one that a caller was made with.
    pub const FIRST: Self = Self(0);

    /// Its number, by which functions of the same caller can go on there (`forward_to`): the servers of a caller are counted
    /// in the order in which they were opened.
    pub fn number(self) -> u32 {
        self.0
    }
}
