//! What went wrong between this daemon and strangers: a line for each of them, and a count of the rest.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use outboard_link::ConnectError;

use crate::status::Gauge;

/// How many different errors are told apart; later ones are only counted.
const DISTINCT_MAX: usize = 256;
/// How many machines are told apart, each for every kind of error; later ones are only counted.
const PEERS_MAX: usize = 256;

/// Logs every kind of error once for each machine it came from, and counts the rest: whoever has set up a second node
/// wrongly finds a line about it, and a flood of bad clients does not fill a disk.
pub(crate) struct ErrorLog {
    total: Gauge,
    distinct: Gauge,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    kinds: HashMap<&'static str, u64>,
    peers: HashSet<(&'static str, String)>,
}

impl ErrorLog {
    pub(crate) fn new(total: Gauge, distinct: Gauge) -> Self {
        Self { total, distinct, seen: Mutex::default() }
    }

    /// An error has happened. Returns whether it was logged: the first of its kind from this machine, and whenever the
    /// count of its kind reaches a power of ten.
    pub(crate) fn note(&self, error: &ConnectError) -> bool {
        let kind = kind_of(error);
        self.total.add(1);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.kinds.len() >= DISTINCT_MAX && !seen.kinds.contains_key(kind) {
            return false;
        }
        let count = *seen.kinds.entry(kind).and_modify(|count| *count += 1).or_insert(1);
        self.distinct.set(seen.kinds.len() as u64);
        let is_new = seen.is_new(kind, error);
        let is_told = is_new || count == 1 || (count >= 10 && is_power_of_ten(count));
        // A server that is started later is dialled until it is there.
        let is_expected = matches!(error, ConnectError::Unreachable { .. });
        match (is_told, is_expected) {
            (true, false) => tracing::warn!(count, "{kind}: {error}"),
            (true, true) => tracing::info!(count, "{kind}: {error}"),
            (false, _) => {}
        }
        if is_new && seen.peers.len() == PEERS_MAX {
            tracing::warn!("errors with further machines are only counted (errors_total)");
        }
        is_told
    }
}

impl Seen {
    /// Whether this is the first of its kind from a machine, as far as there is room to know.
    fn is_new(&mut self, kind: &'static str, error: &ConnectError) -> bool {
        let Some(machine) = error.peer().map(machine_of) else { return false };
        self.peers.len() < PEERS_MAX && self.peers.insert((kind, machine))
    }
}

/// What of an address stays the same from one connection to the next.
fn machine_of(address: &str) -> String {
    let (_, place) = address.split_once(':').unwrap_or(("", address));
    let socket: Option<SocketAddr> = place.parse().or_else(|_| address.parse()).ok();
    // Processes of this machine have no address of their own.
    socket.map_or_else(|| "this machine".to_owned(), |socket| socket.ip().to_canonical().to_string())
}

/// What makes errors alike: a thousand strangers are one kind, whatever each of them sent.
fn kind_of(error: &ConnectError) -> &'static str {
    match error {
        ConnectError::Unreachable { .. } => "peer unreachable",
        ConnectError::TimedOut { .. } => "handshake timed out",
        ConnectError::HungUp { .. } => "peer hung up during the handshake",
        ConnectError::Garbage { .. } => "peer speaks another protocol",
        ConnectError::Refused { .. } => "refused by peer",
        ConnectError::TurnedAway { .. } => "turned away",
        ConnectError::Violation { .. } => "peer broke the protocol",
        ConnectError::Untrusted { source, .. } => source.kind(),
        ConnectError::Credential { .. } => "no usable credential",
        _ => "connection failed",
    }
}

fn is_power_of_ten(mut number: u64) -> bool {
    while number >= 10 && number.is_multiple_of(10) {
        number /= 10;
    }
    number == 1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use outboard_wire::Role;

    use super::*;
    use crate::counts::Counts;
    use crate::status::StatusPage;

    fn hung_up(address: &str) -> ConnectError {
        ConnectError::HungUp { address: address.to_owned() }
    }

    #[test]
    fn a_flood_of_one_error_is_logged_a_few_times_and_counted_in_full() {
        let page = StatusPage::create(Role::Agent, "test").unwrap();
        let errors = Counts::new(&page).errors;
        let logged = (0..1000).filter(|port| errors.note(&hung_up(&format!("tcp:10.0.0.3:{port}")))).count();
        assert_eq!(logged, 4, "at 1, 10, 100 and 1000");
        let waited = Duration::from_secs(1);
        assert!(errors.note(&ConnectError::TimedOut { address: "tcp:10.0.0.3:9".to_owned(), waited }));
        let view = page.view().unwrap();
        assert_eq!((view.get("errors_total"), view.get("errors_distinct")), (Some(1001), Some(2)));
    }

    #[test]
    fn every_machine_has_a_line_until_there_are_too_many() {
        let page = StatusPage::create(Role::Agent, "test").unwrap();
        let errors = Counts::new(&page).errors;
        assert!(errors.note(&hung_up("tcp:10.0.0.3:4000")));
        assert!(!errors.note(&hung_up("tcp:10.0.0.3:4001")), "the same machine");
        assert!(errors.note(&hung_up("tcp:10.0.0.4:4000")), "the second node that is set up wrongly");
        assert!(errors.note(&hung_up("tcp:[fd77::1]:4000")));
        assert!(!errors.note(&hung_up("tcp:[fd77::1]:4001")));
        let flood = (0..100_000u32).filter(|number| {
            let [_, a, b, c] = number.to_be_bytes();
            errors.note(&hung_up(&format!("tcp:11.{a}.{b}.{c}:1")))
        });
        assert!(flood.count() < 2 * PEERS_MAX);
    }
}
