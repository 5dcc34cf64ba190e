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

struct Departed {
    _endpoint: Endpoint,
    side: Side,
    since: Instant,
}

static DEPARTED: Mutex<Vec<Departed>> = Mutex::new(Vec::new());

/// Keeps an endpoint until its peer has hung up, and closes those whose time has come.
pub(super) fn keep(endpoint: Endpoint, side: Side) {
    sweep(Some(Departed { _endpoint: endpoint, side, since: Instant::now() }));
}

/// Closes endpoints whose time has come.
pub(super) fn close_due() {
    sweep(None);
}

fn sweep(newcomer: Option<Departed>) {
    let mut departed = DEPARTED.lock().unwrap_or_else(PoisonError::into_inner);
    departed.extend(newcomer);
    let surplus = departed.len().saturating_sub(KEPT_MAX);
    departed.drain(..surplus);
    departed.retain_mut(|one| {
        let is_well = one.side.look().is_ok();
        is_well && !one.side.is_over() && one.since.elapsed() < PATIENCE
    });
}
