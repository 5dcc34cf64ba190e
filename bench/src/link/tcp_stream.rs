//! How many bytes per second go through one TCP connection?

use outboard_link::Exports;

use super::pump::Pump;
use super::stage::{Stage, join};
use super::stream::{self, LinkStream, Load, SocketStream};
use super::transport::Tcp;
use crate::BenchError;
use crate::harness::{Figure, Unit};
use crate::pair::Control;
use crate::raw::{BareListener, BareSocket};

const MESSAGE: usize = 1 << 16;

/// A window of 16 MiB, some milliseconds, is several times what fits into the buffers of two sockets.
const LOAD: Load = Load { window: 256, windows: 4, messages: 8, message_len: MESSAGE };

/// Larger reads than messages take fewer calls.
const READ_BUFFER: usize = 1 << 18;

const VERSUS: &str = "a bare socket pair on loopback: 64 KiB writes, reads of up to 256 KiB; both spin and sleep by turns, the better counts";

pub(super) fn lead(stage: &Stage<'_>) -> Result<Vec<Figure>, BenchError> {
    let listener = BareListener::bind()?;
    let link = stage.meet::<Tcp>(Some(listener.address()?))?;
    let mut ours = LinkStream::<_, 2> { pump: Pump::new(link), batch: 1 };
    let mut bare = SocketStream { socket: listener.accept()?, buffer: Vec::new(), message_len: MESSAGE };
    let duel = stream::lead(stage, &LOAD, &mut ours, &mut bare)?;
    let (unit, scale) = (Unit::BytesPerSecond, MESSAGE as f64);
    Ok(vec![duel.figure("link.tcp.stream_64KiB.bandwidth", unit, scale, VERSUS)])
}

pub(super) fn serve(control: &Control) -> Result<(), BenchError> {
    let met = join::<Tcp>(control, Exports::new())?;
    let address = met.socket.ok_or(BenchError::PeerGone { awaited: "the bare socket's address" })?;
    let mut ours = LinkStream::<_, 2> { pump: Pump::new(met.link), batch: 1 };
    let (socket, buffer) = (BareSocket::connect(address)?, vec![0; READ_BUFFER]);
    let mut bare = SocketStream { socket, buffer, message_len: MESSAGE };
    stream::serve(control, &mut ours, &mut bare)
}
