//! What went wrong between this daemon and strangers: a line for each of them, and a count of the rest.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use outboard_link::ConnectError;
use outboard_wire::RefusalReason;

use crate::status::Gauge;

/// How many different errors are told apart; later ones are only counted.
const DISTINCT_MAX: usize = 256;
/// How many machines are told apart for each kind of error; later ones are only counted.
const PEERS_MAX: usize = 128;
/// After how long a machine is forgotten: its next error has a line again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// Logs every kind of error once in ten minutes for each machine it came from, and counts the rest: a user who has set up a second node
/// wrongly finds a line about it, and a flood of bad clients does not fill a disk.
pub(crate) struct ErrorLog {
    total: Gauge,
    distinct: Gauge,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    kinds: HashMap<&'static str, u64>,
    /// The machines of each kind, with when they had their line.
    peers: HashMap<&'static str, HashMap<String, Instant>>,
}

impl ErrorLog {
    pub(crate) fn new(total: Gauge, distinct: Gauge) -> Self {
        Self { total, distinct, seen: Mutex::default() }
    }

    /// An error has happened. Returns whether it was logged: the first of its kind from this machine, and whenever the
    /// count of its kind reaches a power of ten.
    pub(crate) fn note(&self, error: &ConnectError) -> bool {
        self.note_at(error, Instant::now())
    }

    fn note_at(&self, error: &ConnectError, now: Instant) -> bool {
        let kind = kind_of(error);
        self.total.add(1);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.kinds.len() >= DISTINCT_MAX && !seen.kinds.contains_key(kind) {
            return false;
        }
        let count = *seen.kinds.entry(kind).and_modify(|count| *count += 1).or_insert(1);
        self.distinct.set(seen.kinds.len() as u64);
        let (is_new, is_last) = seen.is_new(kind, error, now);
        let is_told = is_new || count == 1 || (count >= 10 && is_power_of_ten(count));
        // A server that is started later is dialled until it is there.
        let is_expected = matches!(error, ConnectError::Unreachable { .. });
        match (is_told, is_expected) {
            (true, false) => tracing::warn!(count, "{kind}: {error}"),
            (true, true) => tracing::info!(count, "{kind}: {error}"),
            (false, _) => {}
        }
        if is_last {
            tracing::warn!(
                "{kind}: errors with further machines are only counted for a while (errors_total)"
            );
        }
        is_told
    }
}

impl Seen {
    /// Whether this is the first of its kind from a machine for a while, as far as there is room to know; and whether
    /// there is no more room now.
    fn is_new(&mut self, kind: &'static str, error: &ConnectError, now: Instant) -> (bool, bool) {
        let Some(machine) = error.peer().map(machine_of) else { return (false, false) };
        let machines = self.peers.entry(kind).or_default();
        if machines.len() >= PEERS_MAX || machines.contains_key(&machine) {
            machines.retain(|_, told| now.saturating_duration_since(*told) < FORGOTTEN_AFTER);
        }
        let is_new = machines.len() < PEERS_MAX && !machines.contains_key(&machine);
        if is_new {
            machines.insert(machine, now);
        }
        (is_new, is_new && machines.len() == PEERS_MAX)
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
        ConnectError::Refused { refusal, .. } | ConnectError::TurnedAway { refusal, .. }
            if refusal.reason == RefusalReason::Version =>
        {
            "peer of another release"
        }
        ConnectError::Refused { .. } => "refused by peer",
        ConnectError::TurnedAway { refusal, .. } if refusal.reason == RefusalReason::Busy => {
            "no room for another client"
        }
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
        assert!(!errors.note(&hung_up("tcp:10.0.0.5:4000")), "there is no room");
        let waited = Duration::from_secs(1);
        let other_kind = ConnectError::TimedOut { address: "tcp:10.0.0.6:9".to_owned(), waited };
        errors.note(&ConnectError::TimedOut { address: "tcp:10.0.0.5:9".to_owned(), waited });
        assert!(errors.note(&other_kind), "a flood of one kind hides no other");
        let later = Instant::now() + FORGOTTEN_AFTER;
        assert!(errors.note_at(&hung_up("tcp:10.0.0.3:4002"), later), "it is wrong again, or still");
        assert!(errors.note_at(&hung_up("tcp:10.0.0.5:4002"), later));
    }
}
