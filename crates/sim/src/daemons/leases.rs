//! The processes that were given a region, by the answers of the daemon.

use std::collections::BTreeMap;

use outboard_wire::Rights;
use outboard_wire::control::RegionSharing;

/// As what a client was given a region.
#[derive(Clone, Copy)]
pub(super) struct Claim {
    pub(super) writes: bool,
    pub(super) is_leased: bool,
}

impl Claim {
    pub(super) fn new(rights: Rights, sharing: RegionSharing) -> Self {
        Self { writes: rights.includes(Rights::WRITE), is_leased: sharing == RegionSharing::Leased }
    }
}

/// Everything a client was given a region as, and how often it has released it since.
#[derive(Default)]
struct Holding {
    given: Vec<Claim>,
    released: usize,
}

/// The holders of a region.
#[derive(Default)]
pub(super) struct Leases {
    by_client: BTreeMap<u64, Holding>,
}

impl Leases {
    /// Whether `client` can have it as `claim` beside all the others.
    pub(super) fn admit(&self, client: u64, claim: Claim) -> bool {
        let own = self.by_client.get(&client).map_or(&[][..], |holding| &holding.given);
        let others = self.by_client.iter().filter(|(other, _)| **other != client);
        others.map(|(_, holding)| &holding.given).all(|given| {
            let all = || given.iter().chain(own).chain([&claim]);
            // Without a writer no process is disturbed, and a process that does not lease is disturbed by nothing.
            !(all().any(|claim| claim.writes) && all().any(|claim| claim.is_leased))
        })
    }

    pub(super) fn give(&mut self, client: u64, claim: Claim) {
        self.by_client.entry(client).or_default().given.push(claim);
    }

    pub(super) fn is_writer(&self, client: u64) -> bool {
        self.by_client.get(&client).is_some_and(|holding| holding.given.iter().any(|claim| claim.writes))
    }

    /// It has it until it has released it as often as it was given it.
    pub(super) fn release(&mut self, client: u64) {
        if let Some(holding) = self.by_client.get_mut(&client) {
            holding.released += 1;
            if holding.released == holding.given.len() {
                self.by_client.remove(&client);
            }
        }
    }

    pub(super) fn forget(&mut self, client: u64) {
        self.by_client.remove(&client);
    }

    pub(super) fn has(&self, client: u64) -> bool {
        self.by_client.contains_key(&client)
    }
}
