//! How long does a message take through shared memory and back?

use outboard_link::Exports;

use super::RING_BYTES;
use super::echo::{self, LinkEcho, Load, RingEcho};
use super::pump::Pump;
use super::stage::{Stage, join};
use super::transport::Shm;
use crate::BenchError;
use crate::harness::Figure;
use crate::pair::Control;
use crate::raw::BareRings;

const VERSUS: &str = "memcpy in, bare ring, memcpy out, and the same back: same capacity, message and answer of this size, spinning";

/// Round trips of `LEN` bytes each way.
pub(super) fn lead<const LEN: usize>(
    stage: &Stage<'_>,
    name: &str,
    trips: u64,
) -> Result<Vec<Figure>, BenchError> {
    let link = stage.meet::<Shm>(None)?;
    let rings = BareRings::offer(stage.control(), RING_BYTES)?;
    let mut ours = LinkEcho(Pump::new(link));
    let mut bare = RingEcho::<LEN> { out: rings.writer(0), back: rings.reader(1) };
    let duel = echo::lead(stage, &Load { trips, message_len: LEN }, &mut ours, &mut bare)?;
    Ok(echo::figures(name, &duel, VERSUS))
}

pub(super) fn serve<const LEN: usize>(control: &Control) -> Result<(), BenchError> {
    let met = join::<Shm>(control, Exports::new())?;
    let rings = BareRings::take(control, RING_BYTES)?;
    let mut ours = LinkEcho(Pump::new(met.link));
    let mut bare = RingEcho::<LEN> { out: rings.writer(1), back: rings.reader(0) };
    echo::serve(control, LEN, &mut ours, &mut bare)
}
