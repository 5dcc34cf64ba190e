//! What a caller notes of a call that is under way.

use std::time::Duration;

use outboard_steering::Site;

use super::leaving::Past;

/// What is known of a call that is under way.
#[derive(Debug)]
pub(super) struct Flight {
    /// As its caller knows it, whichever numbers it has had since.
    pub(super) id: u64,
    pub(super) site: Site,
    /// The sites where it may still be, or that could not do it, by their places in [`Site::ALL`].
    pub(super) tried: u8,
    pub(super) handle: u32,
    pub(super) slot: u8,
    /// Kept where the call may have to begin again.
    pub(super) arguments: Option<Vec<u8>>,
    /// The call as it travelled, if it goes on in the middle of its run and may write.
    pub(super) travelled: Option<Vec<u8>>,
    /// What it has done at another memory server, if it comes from one.
    pub(super) past: Option<Box<Past>>,
}

/// A patience as it travels. A call without any time left has a microsecond: zero would mean for ever.
#[inline]
pub(super) fn patience_us(patience: Option<Duration>) -> u32 {
    let micros = |patience: Duration| u32::try_from(patience.as_micros()).unwrap_or(u32::MAX).max(1);
    patience.map_or(0, micros)
}

/// A site in [`Flight::tried`].
#[inline]
pub(super) fn bit(site: Site) -> u8 {
    1 << site as u8
}

pub(super) fn recycle(spare: &mut Vec<Vec<u8>>, flight: Option<Flight>) {
    spare.extend(flight.and_then(|flight| flight.arguments));
}
