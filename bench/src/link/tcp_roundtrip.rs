//! How long does a message take through TCP and back?

use outboard_link::Exports;

use super::echo::{self, LinkEcho, Load};
use super::pump::Pump;
use super::stage::{Stage, join};
use super::transport::Tcp;
use crate::BenchError;
use crate::harness::Figure;
use crate::pair::Control;
use crate::raw::{BareListener, BareSocket};

const VERSUS: &str = "a bare socket ping-pong on loopback: message and answer of this size, spinning";

/// Round trips of `message_len` bytes each way.
pub(super) fn lead(
    stage: &Stage<'_>,
    name: &str,
    trips: u64,
    message_len: usize,
) -> Result<Vec<Figure>, BenchError> {
    let listener = BareListener::bind()?;
    let link = stage.meet::<Tcp>(Some(listener.address()?))?;
    let mut bare = listener.accept()?;
    let duel = echo::lead(stage, &Load { trips, message_len }, &mut LinkEcho(Pump::new(link)), &mut bare)?;
    Ok(echo::figures(name, &duel, VERSUS))
}

pub(super) fn serve(control: &Control, message_len: usize) -> Result<(), BenchError> {
    let met = join::<Tcp>(control, Exports::new())?;
    let address = met.socket.ok_or(BenchError::PeerGone { awaited: "the bare socket's address" })?;
    let mut bare = BareSocket::connect(address)?;
    echo::serve(control, message_len, &mut LinkEcho(Pump::new(met.link)), &mut bare)
}
