//! How much of a TCP link's bandwidth is left when it is encrypted?

use outboard_link::Exports;

use super::pump::Pump;
use super::stage::{Stage, join};
use super::stream::{self, LinkStream, Load};
use super::transport::{Tcp, Tls};
use super::{ANYWHERE, Question};
use crate::BenchError;
use crate::harness::{Figure, Unit};
use crate::pair::Control;

pub(crate) const QUESTION: Question = Question { name: "cluster.tls", unfit: ANYWHERE, lead, serve };

const MESSAGE: usize = 1 << 16;

/// As for the bandwidth of plain links: several times what fits into the buffers of two sockets.
const LOAD: Load = Load { window: 256, windows: 4, messages: 8, message_len: MESSAGE };

const VERSUS: &str = "the same link without encryption, on loopback: 64 KiB frames; both spin and sleep by turns, the better counts";

fn lead(stage: &Stage<'_>) -> Result<Vec<Figure>, BenchError> {
    let encrypted = stage.meet::<Tls>(None)?;
    let plain = stage.meet::<Tcp>(None)?;
    let mut ours = LinkStream::<_, 2> { pump: Pump::new(encrypted), batch: 1 };
    let mut yardstick = LinkStream::<_, 2> { pump: Pump::new(plain), batch: 1 };
    let duel = stream::lead(stage, &LOAD, &mut ours, &mut yardstick)?;
    let (unit, scale) = (Unit::BytesPerSecond, MESSAGE as f64);
    Ok(vec![duel.figure("cluster.tls.overhead", unit, scale, VERSUS)])
}

fn serve(control: &Control) -> Result<(), BenchError> {
    let encrypted = join::<Tls>(control, Exports::new())?.link;
    let plain = join::<Tcp>(control, Exports::new())?.link;
    let mut ours = LinkStream::<_, 2> { pump: Pump::new(encrypted), batch: 1 };
    let mut yardstick = LinkStream::<_, 2> { pump: Pump::new(plain), batch: 1 };
    stream::serve(control, &mut ours, &mut yardstick)
}
