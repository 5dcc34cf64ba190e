//! Endpoints whose link is gone and whose peer may still be sending to them.
//!
//! An endpoint that is closed too early takes with it what its peer has not received yet, and a provider that maps the
//! peer's memory may be using it at that moment. So an endpoint stays until the peer has hung up as well.

use super::endpoint::Endpoint;
use super::side::Side;
use crate::departed::{self, Departed};

/// How many times the socket of one that departed is read in a row.
const LOOKS_MAX: usize = 64;

/// Keeps an endpoint until its peer has hung up.
pub(super) fn keep(endpoint: Endpoint, side: Side) {
    departed::keep(Box::new(StillHeard { endpoint, side }));
}

struct StillHeard {
    endpoint: Endpoint,
    side: Side,
}

impl Departed for StillHeard {
    fn is_done(&mut self) -> bool {
        // A peer may fill the socket faster than it is read; the next look goes on.
        for _ in 0..LOOKS_MAX {
            match self.side.look() {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => return true,
            }
        }
        self.side.is_over()
    }

    /// All endpoints are drained before any is closed: two may be each other's peer.
    fn prepare_to_close(&mut self) {
        self.endpoint.drain();
    }
}
