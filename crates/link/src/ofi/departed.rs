//! Endpoints whose link is gone and whose peer may still be sending to them.
//!
//! An endpoint that is closed too early takes with it what its peer has not received yet, and a provider that maps the
//! peer's memory may be using it at that moment. So an endpoint stays until the peer has hung up as well, within limits.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::side::Side;

/// How long a peer has to hang up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many endpoints are kept; when another comes, the oldest is closed.
const KEPT_MAX: usize = 128;

/// How many times the socket of one that departed is read in a row.
const LOOKS_MAX: usize = 64;

struct Departed {
    endpoint: Endpoint,
    side: Side,
    since: Instant,
}

static DEPARTED: Mutex<Vec<Departed>> = Mutex::new(Vec::new());

/// Keeps an endpoint until its peer has hung up, and closes those whose time has come.
pub(super) fn keep(endpoint: Endpoint, side: Side) {
    sweep(Some(Departed { endpoint, side, since: Instant::now() }));
}

/// Closes endpoints whose time has come.
pub(super) fn close_due() {
    sweep(None);
}

fn sweep(newcomer: Option<Departed>) {
    let mut departed = DEPARTED.lock().unwrap_or_else(PoisonError::into_inner);
    departed.extend(newcomer);
    let surplus = departed.len().saturating_sub(KEPT_MAX);
    let mut due: Vec<Departed> = departed.drain(..surplus).collect();
    due.extend(departed.extract_if(.., |one| {
        // A peer that fills the socket faster than it is read has its time all the same.
        let is_broken =
            (0..LOOKS_MAX).map_while(|_| one.side.look().map(|has_more| has_more.then_some(())).transpose());
        let is_broken = is_broken.last().is_some_and(|look| look.is_err());
        is_broken || one.side.is_over() || one.since.elapsed() >= PATIENCE
    }));
    // All of them before any is closed: two may be each other's peer.
    due.iter_mut().for_each(|one| one.endpoint.drain());
}
