//! Messages there and back, one at a time.

use std::time::Instant;

use outboard_link::{Disposition, Link};
use outboard_wire::{FrameHead, FrameKind, Room};

use super::payload::{Digest, Source};
use super::pump::Pump;
use super::stage::Stage;
use crate::BenchError;
use crate::harness::{Duel, Figure, Round, Side, Unit};
use crate::pair::{Answer, Control, Order};
use crate::raw::{BareReader, BareSocket, BareWriter};

/// Sends a message and receives one. Both copy between memory of the caller's own and the wire.
pub(super) trait Echo {
    /// Sends `message`.
    fn send(&mut self, message: &[u8]) -> Result<(), BenchError>;

    /// Fills `message` with the next one.
    fn receive(&mut self, message: &mut [u8]) -> Result<(), BenchError>;
}

/// What is moved in one round.
pub(super) struct Load {
    pub(super) trips: u64,
    pub(super) message_len: usize,
}

/// How many different messages go round.
const MESSAGES: usize = 4;

/// The lead sends each message and times how long it takes to come back, by turns through both.
pub(super) fn lead(
    stage: &Stage<'_>,
    load: &Load,
    ours: &mut impl Echo,
    yardstick: &mut impl Echo,
) -> Result<Duel, BenchError> {
    let items = stage.effort.items(load.trips);
    let mut seed = 0;
    Duel::run(stage.effort, stage.progress, |side| {
        seed += 1;
        let source = Source::new(seed, MESSAGES, load.message_len);
        stage.control().send(&Order::Run { side, variant: 0, items, windows: 1, seed })?;
        stage.control().ready()?;
        let round = match side {
            Side::Ours => trips(ours, &source, items)?,
            Side::Yardstick => trips(yardstick, &source, items)?,
        };
        let (expected, (found, _)) = (source.digest(items).value(), stage.control().done()?);
        if found != expected {
            return Err(BenchError::Changed { what: "a request", expected, found });
        }
        Ok(round)
    })
}

fn trips(echo: &mut impl Echo, source: &Source, count: u64) -> Result<Round, BenchError> {
    let mut times_ns = Vec::with_capacity(count as usize);
    let mut answer = vec![0; source.message(0).len()];
    for number in 0..count {
        let message = source.message(number);
        let began = Instant::now();
        echo.send(message)?;
        echo.receive(&mut answer)?;
        times_ns.push(began.elapsed().as_nanos() as u32);
        if answer != message {
            let of = |bytes: &[u8]| {
                let mut digest = Digest::default();
                digest.add_all(bytes);
                digest.value()
            };
            return Err(BenchError::Changed { what: "an echo", expected: of(message), found: of(&answer) });
        }
    }
    Ok(Round::times(times_ns))
}

/// The peer sends everything back from memory of its own.
pub(super) fn serve(
    control: &Control,
    message_len: usize,
    ours: &mut impl Echo,
    yardstick: &mut impl Echo,
) -> Result<(), BenchError> {
    let mut message = vec![0; message_len];
    while let Order::Run { side, items, .. } = control.receive("the next round")? {
        control.send(&Answer::Ready)?;
        let digest = match side {
            Side::Ours => answer(ours, items, &mut message)?,
            Side::Yardstick => answer(yardstick, items, &mut message)?,
        };
        control.send(&Answer::Done { digest: digest.value(), marks_ns: Vec::new() })?;
    }
    Ok(())
}

fn answer(echo: &mut impl Echo, count: u64, message: &mut [u8]) -> Result<Digest, BenchError> {
    let mut digest = Digest::default();
    for _ in 0..count {
        echo.receive(message)?;
        echo.send(message)?;
        // After the answer is away, so that the asker does not wait for it.
        digest.add_all(message);
    }
    Ok(digest)
}

/// The median, and the slowest tenth over all rounds. What is slower still tells of the scheduler, not of the link.
pub(super) fn figures(name: &str, duel: &Duel, versus: &str) -> Vec<Figure> {
    vec![
        duel.figure(&format!("{name}.p50"), Unit::Nanoseconds, 1.0, versus),
        duel.figure_of_all(&format!("{name}.p90"), 0.90, versus),
    ]
}

/// A link whose every frame is sent at once.
pub(super) struct LinkEcho<L>(pub(super) Pump<L>);

impl<L: Link> Echo for LinkEcho<L> {
    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<(), BenchError> {
        self.0.send_now(FrameHead::new(FrameKind::new(Room::Trial, 0)), message)
    }

    #[inline]
    fn receive(&mut self, message: &mut [u8]) -> Result<(), BenchError> {
        self.0.until("an echo", |link| {
            let taken = link.receive(1, |frame| {
                frame.payload.read(0, message);
                Disposition::Taken
            })?;
            Ok(Some(()).filter(|()| taken > 0))
        })
    }
}

/// A bare ring for each direction.
pub(super) struct RingEcho<const SLOT: usize> {
    pub(super) out: BareWriter<SLOT>,
    pub(super) back: BareReader<SLOT>,
}

impl<const SLOT: usize> Echo for RingEcho<SLOT> {
    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<(), BenchError> {
        self.out.push_bytes(message)
    }

    #[inline]
    fn receive(&mut self, message: &mut [u8]) -> Result<(), BenchError> {
        self.back.pull(1, |slot| message.copy_from_slice(slot)).map(|_| ())
    }
}

impl Echo for BareSocket {
    fn send(&mut self, message: &[u8]) -> Result<(), BenchError> {
        self.write_all(message)
    }

    fn receive(&mut self, message: &mut [u8]) -> Result<(), BenchError> {
        self.read_exact(message)
    }
}
