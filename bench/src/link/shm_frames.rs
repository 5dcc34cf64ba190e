//! How many small frames per second go through shared memory?

use outboard_link::Exports;

use super::RING_BYTES;
use super::payload::BLOCK;
use super::pump::Pump;
use super::stage::{Stage, join};
use super::stream::{self, LinkStream, Load, RingStream};
use super::transport::Shm;
use crate::BenchError;
use crate::harness::{Figure, Unit};
use crate::pair::Control;
use crate::raw::BareRings;

/// Frames that become visible at once, on both sides.
const BATCH: u64 = 32;

/// A window takes some hundred microseconds and is twice what fits into a ring; the 256 different frames stay in
/// the first-level cache.
const LOAD: Load = Load { window: 1 << 14, windows: 64, messages: 256, message_len: BLOCK };

const VERSUS: &str = "a bare SPSC ring in shared memory: 64-byte slots, batches of 32, spinning";

pub(super) fn lead(stage: &Stage<'_>) -> Result<Vec<Figure>, BenchError> {
    let link = stage.meet::<Shm>(None)?;
    let rings = BareRings::offer(stage.control(), RING_BYTES)?;
    let mut ours = LinkStream::<_, 1> { pump: Pump::new(link), batch: BATCH };
    let mut bare = RingStream { ring: rings.writer::<BLOCK>(0), batch: BATCH };
    let duel = stream::lead(stage, &LOAD, &mut ours, &mut bare)?;
    Ok(vec![duel.figure("link.shm.frames_64B.rate", Unit::FramesPerSecond, 1.0, VERSUS)])
}

pub(super) fn serve(control: &Control) -> Result<(), BenchError> {
    let met = join::<Shm>(control, Exports::new())?;
    let rings = BareRings::take(control, RING_BYTES)?;
    let mut ours = LinkStream::<_, 1> { pump: Pump::new(met.link), batch: BATCH };
    let mut bare = RingStream { ring: rings.reader::<BLOCK>(0), batch: BATCH };
    stream::serve(control, &mut ours, &mut bare)
}
