//! What every daemon counts, whatever it serves.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use outboard_link::Peer;
use outboard_wire::Role;

use crate::attendance::Attendance;
use crate::errors::ErrorLog;
use crate::status::{Gauge, StatusPage};

/// What every daemon counts.
pub(crate) struct Counts {
    pub(crate) clients: Gauge,
    pub(crate) clients_total: Gauge,
    pub(crate) clients_lost_total: Gauge,
    pub(crate) clients_refused_total: Gauge,
    pub(crate) questions_total: Gauge,
    pub(crate) questions_refused_total: Gauge,
    pub(crate) echoes_total: Gauge,
    pub(crate) errors: ErrorLog,
    pub(crate) losses: Pace,
    pub(crate) attendance: Attendance,
}

impl Counts {
    pub(crate) fn new(page: &StatusPage) -> Self {
        Self {
            clients: page.gauge("clients"),
            clients_total: page.gauge("clients_total"),
            clients_lost_total: page.gauge("clients_lost_total"),
            clients_refused_total: page.gauge("clients_refused_total"),
            questions_total: page.gauge("questions_total"),
            questions_refused_total: page.gauge("questions_refused_total"),
            echoes_total: page.gauge("echoes_total"),
            errors: ErrorLog::new(page.gauge("errors_total"), page.gauge("errors_distinct")),
            losses: Pace::new(),
            attendance: Attendance::new(),
        }
    }

    /// A client has come.
    pub(crate) fn came(&self, peer: &Peer) {
        if is_tool(peer) {
            return;
        }
        self.clients.add(1);
        self.clients_total.add(1);
        self.attendance.came(peer.intro().role);
    }

    /// A client has gone, by its own will or not.
    pub(crate) fn went(&self, peer: &Peer, by_its_own_will: bool) {
        if is_tool(peer) {
            return;
        }
        self.clients.add(u64::MAX);
        self.attendance.went(peer.intro().role);
        if !by_its_own_will {
            self.clients_lost_total.add(1);
        }
    }
}

/// A process that only looks is not a client: looking must not change what is seen.
fn is_tool(peer: &Peer) -> bool {
    peer.intro().role == Role::Tool
}

/// How many lines may come at once, and how long it takes until another may.
const LINES_AT_ONCE: u32 = 256;
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Lets each of a few lines through, and of a flood only some: each is told until they are too many.
pub(crate) struct Pace {
    state: Mutex<PaceState>,
}

struct PaceState {
    left: u32,
    refilled: Instant,
    unsaid: u64,
}

impl Pace {
    pub(crate) fn new() -> Self {
        let state = PaceState { left: LINES_AT_ONCE, refilled: Instant::now(), unsaid: 0 };
        Self { state: Mutex::new(state) }
    }

    /// Whether another line may be written, with how many were not since the last.
    pub(crate) fn say(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let due = state.refilled.elapsed().as_secs() / LINE_EVERY.as_secs();
        if due > 0 {
            state.left = state.left.saturating_add(due.min(LINES_AT_ONCE.into()) as u32).min(LINES_AT_ONCE);
            state.refilled = Instant::now();
        }
        match state.left.checked_sub(1) {
            Some(left) => {
                state.left = left;
                Some(std::mem::take(&mut state.unsaid))
            }
            None => {
                state.unsaid += 1;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_losses_is_told_in_part() {
        let pace = Pace::new();
        assert!((0..LINES_AT_ONCE).all(|_| pace.say() == Some(0)));
        let told = (0..100_000).filter(|_| pace.say().is_some()).count();
        assert!(told < 1000, "{told} of a flood were told");
    }
}
