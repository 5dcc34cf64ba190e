//! The numbers that the daemons of this machine count, read without disturbing them.

mod brief;
mod sockets;
mod view;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use outboard::Client;
use outboard_agent::{STATUS_GRANT, StatusView};
use outboard_link::{Address, Identity};
use outboard_settings::{LinkSettings, default_socket};
use outboard_wire::Role;

pub(crate) use brief::to_brief;
pub(crate) use sockets::listening;
pub(crate) use view::{changes, to_json, to_text};

/// Daemons that are looked at again and again.
pub(crate) struct Survey {
    identity: Identity,
    link: LinkSettings,
    /// The daemons to look at; empty for all that are found.
    asked: Vec<Address>,
    clients: BTreeMap<String, Client>,
    before: BTreeMap<(u32, String), (Instant, StatusView)>,
}

/// The state of one daemon.
pub(crate) struct Sight {
    /// Where it was reached, and where else it listens.
    pub(crate) addresses: Vec<Address>,
    /// Over which kind of link.
    pub(crate) link: &'static str,
    /// Its numbers.
    pub(crate) view: StatusView,
    /// How much each number has grown in a second since the last look, if there was one.
    pub(crate) rates: Option<Vec<f64>>,
}

/// The state of all daemons.
pub(crate) struct Sights {
    /// Those who let us look.
    pub(crate) seen: Vec<Sight>,
    /// Those who did not, and why.
    pub(crate) failed: Vec<(Address, anyhow::Error)>,
}

impl Survey {
    /// A survey of the daemons at these addresses; of everyone who is found here if there are none.
    pub(crate) fn new(asked: Vec<Address>, link: LinkSettings) -> Self {
        let identity = Identity::new(Role::Tool, "outboard status");
        Self { identity, link, asked, clients: BTreeMap::new(), before: BTreeMap::new() }
    }

    /// Looks at all of them.
    pub(crate) fn look(&mut self) -> Sights {
        let addresses = if self.asked.is_empty() { found_here() } else { self.asked.clone() };
        let mut sights = Sights { seen: Vec::new(), failed: Vec::new() };
        for address in addresses {
            match self.look_at(&address) {
                Ok(sight) => sights.add(sight),
                Err(error) => {
                    self.clients.remove(&address.to_string());
                    sights.failed.push((address, error));
                }
            }
        }
        sights
    }

    fn look_at(&mut self, address: &Address) -> Result<Sight> {
        let known = address.to_string();
        if !self.clients.contains_key(&known) {
            let client = Client::connect(address, self.identity.clone(), &self.link)?;
            self.clients.insert(known.clone(), client);
        }
        let Some(client) = self.clients.get_mut(&known) else { bail!("{address} is not connected") };
        let bytes = client.read_region(&STATUS_GRANT)?;
        let view = StatusView::read(&bytes).with_context(|| client.peer().to_string())?;
        let link = client.link_name();
        let now = Instant::now();
        let before = self.before.insert((view.pid, known), (now, view.clone()));
        let rates = before.map(|(then, before)| rates(&before, &view, now - then));
        Ok(Sight { addresses: vec![address.clone()], link, view, rates })
    }
}

impl Drop for Survey {
    fn drop(&mut self) {
        for client in std::mem::take(&mut self.clients).into_values() {
            client.close("seen enough");
        }
    }
}

impl Sights {
    /// A daemon that listens in several places is one daemon.
    fn add(&mut self, sight: Sight) {
        let is_same =
            |known: &&mut Sight| (known.view.pid, known.view.started) == (sight.view.pid, sight.view.started);
        match self.seen.iter_mut().find(is_same) {
            Some(known) => known.addresses.extend(sight.addresses),
            None => self.seen.push(sight),
        }
    }
}

fn rates(before: &StatusView, after: &StatusView, time: Duration) -> Vec<f64> {
    let seconds = time.as_secs_f64().max(1e-3);
    let rate = |(name, value): &(String, u64)| {
        let grown = before.get(name).map_or(0, |before| value.saturating_sub(before));
        grown as f64 / seconds
    };
    after.entries.iter().map(rate).collect()
}

/// The daemons of this user: memory servers and agents at their usual sockets, and others that listen at one whose name
/// begins like theirs.
fn found_here() -> Vec<Address> {
    let prefix = match default_socket("") {
        Address::Abstract(prefix) => prefix,
        Address::Path(_) | Address::Tcp(_) | Address::Ofi(_) => return Vec::new(),
    };
    listening().into_iter().filter(|name| is_own_daemon(name, &prefix)).map(Address::Abstract).collect()
}

/// Whether a socket has the name of a daemon of this user, whose names begin with `prefix`. The names of other users'
/// sockets go on with their number where that of root ends; a daemon counts it as an error when root looks at it.
fn is_own_daemon(name: &str, prefix: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else { return false };
    let is_of_another = rest
        .split_once('-')
        .is_some_and(|(user, _)| !user.is_empty() && user.bytes().all(|letter| letter.is_ascii_digit()));
    !is_of_another && !is_of_a_job(name)
}

/// Ranks meet and reach each other at these; they are no daemons.
fn is_of_a_job(name: &str) -> bool {
    name.contains("-job-") || name.contains("-rank-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_of_other_users_are_left_alone() {
        let found = |prefix: &str| {
            let names =
                ["outboard-memory", "outboard-65534-agent", "outboard-1000-north", "outboard-2nd", "other"];
            names.into_iter().filter(|name| is_own_daemon(name, prefix)).collect::<Vec<_>>()
        };
        assert_eq!(found("outboard-"), ["outboard-memory", "outboard-2nd"]);
        assert_eq!(found("outboard-1000-"), ["outboard-1000-north"]);
        assert!(!is_own_daemon("outboard-job-7", "outboard-"));
    }
}
