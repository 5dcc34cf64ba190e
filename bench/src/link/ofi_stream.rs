//! How many bytes per second go through a link over libfabric, where libfabric moves them by TCP?

use outboard_link::Exports;

use super::Question;
use super::ofi::{Bare, Ofi, OfiStream, OverTcp, unfit};
use super::stage::{Stage, join};
use super::stream::{self, Load};
use crate::BenchError;
use crate::harness::{Figure, Unit};
use crate::pair::Control;

pub(crate) const QUESTION: Question =
    Question { name: "link.ofi_tcp.stream_64KiB", unfit: unfit::<OverTcp>, lead, serve };

const MESSAGE: usize = 1 << 16;
/// How many messages the bare endpoints have under way, as many as the link may have.
const SLOTS: usize = 64;

/// As for the bandwidth of plain TCP: several times what fits between the two processes.
const LOAD: Load = Load { window: 256, windows: 4, messages: SLOTS, message_len: MESSAGE };

const VERSUS: &str = "bare libfabric endpoints of the same provider, tcp;ofi_rxm on loopback: 64 KiB messages, 64 under way, \
                      sent from where they lie and read where they arrive; both spin";

fn lead(stage: &Stage<'_>) -> Result<Vec<Figure>, BenchError> {
    let link = stage.meet::<Ofi<OverTcp>>(None)?;
    let mut ours = OfiStream::new(link);
    let mut bare = Bare::meet::<OverTcp>(stage, SLOTS, MESSAGE)?;
    let duel = stream::lead(stage, &LOAD, &mut ours, &mut bare)?;
    let (unit, scale) = (Unit::BytesPerSecond, MESSAGE as f64);
    Ok(vec![duel.figure("link.ofi_tcp.stream_64KiB.bandwidth", unit, scale, VERSUS)])
}

fn serve(control: &Control) -> Result<(), BenchError> {
    let link = join::<Ofi<OverTcp>>(control, Exports::new())?.link;
    let mut ours = OfiStream::new(link);
    let mut bare = Bare::exchange::<OverTcp>(control, SLOTS, MESSAGE)?;
    stream::serve(control, &mut ours, &mut bare)
}
