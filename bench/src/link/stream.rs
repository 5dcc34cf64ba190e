//! Messages one way, as fast as they go.

use outboard_link::{Disposition, FrameSendError, Link, LinkError};
use outboard_wire::{FrameHead, FrameKind, Room};

use super::payload::{BLOCK, Digest, Source};
use super::pump::Pump;
use super::stage::Stage;
use crate::BenchError;
use crate::harness::{Duel, Round, Side};
use crate::pair::{Answer, Control, Order, Waits, now_ns};
use crate::raw::{BareReader, BareSocket, BareWriter};

/// Does its work in one or several ways, of which the best in each round counts.
pub(super) trait Variants {
    /// How many ways there are.
    const COUNT: usize = 1;

    /// Work that way from now on.
    fn choose(&mut self, _variant: usize) {}
}

/// Sends messages.
pub(super) trait Outlet: Variants {
    /// Sends `count` messages of `source`, the first of them as number `first`.
    fn send(&mut self, source: &Source, first: u64, count: u64) -> Result<(), BenchError>;

    /// Sees to it that everything leaves.
    fn finish(&mut self) -> Result<(), BenchError>;
}

/// Receives messages.
pub(super) trait Inlet: Variants {
    /// Receives `count` messages and reads every byte.
    fn receive(&mut self, count: u64, digest: &mut Digest) -> Result<(), BenchError>;
}

/// What is moved in one round.
///
/// Both sides note when each window ends. A window takes as long as it took the slower of the two, so that
/// neither a sender that runs ahead into an empty buffer nor a receiver that finds a full one counts as speed;
/// and the best window of a round is one in which neither process was interrupted.
pub(super) struct Load {
    /// Messages in a window: more than fits between the two processes, or each would be measured by itself; and
    /// no more than they get through between two interruptions.
    pub(super) window: u64,
    pub(super) windows: u64,
    /// How many different messages there are.
    pub(super) messages: usize,
    pub(super) message_len: usize,
}

/// The lead sends by turns through both.
pub(super) fn lead(
    stage: &Stage<'_>,
    load: &Load,
    ours: &mut impl Outlet,
    yardstick: &mut impl Outlet,
) -> Result<Duel, BenchError> {
    let mut seed = 0;
    Duel::run(stage.effort, stage.progress, |side| {
        seed += 1;
        let source = Source::new(seed, load.messages, load.message_len);
        match side {
            Side::Ours => round(stage, load, side, ours, &source),
            Side::Yardstick => round(stage, load, side, yardstick, &source),
        }
    })
}

/// One round by one means, in all its ways.
fn round<O: Outlet>(
    stage: &Stage<'_>,
    load: &Load,
    side: Side,
    outlet: &mut O,
    source: &Source,
) -> Result<Round, BenchError> {
    let (items, windows) = (stage.effort.items(load.window), load.windows);
    let expected = source.digest(items * windows).value();
    let mut best_ns = u64::MAX;
    for variant in 0..O::COUNT {
        outlet.choose(variant);
        stage.control().send(&Order::Run { side, variant, items, windows, seed: 0 })?;
        stage.control().ready()?;
        let sent_ns = send_round(outlet, source, items, windows)?;
        let (found, received_ns) = stage.control().done()?;
        if found != expected {
            return Err(BenchError::Changed { what: "a stream", expected, found });
        }
        let spans = |marks: &[u64]| marks.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
        let slower = spans(&sent_ns).into_iter().zip(spans(&received_ns)).map(|(a, b)| a.max(b));
        best_ns = slower.fold(best_ns, u64::min);
    }
    Ok(Round::rate(items, best_ns.max(1) as f64 * 1e-9))
}

fn send_round(
    outlet: &mut impl Outlet,
    source: &Source,
    window: u64,
    windows: u64,
) -> Result<Vec<u64>, BenchError> {
    let mut marks_ns = vec![now_ns()];
    for number in 0..windows {
        outlet.send(source, number * window, window)?;
        marks_ns.push(now_ns());
    }
    outlet.finish()?;
    Ok(marks_ns)
}

/// The peer receives what the lead sends.
pub(super) fn serve(
    control: &Control,
    ours: &mut impl Inlet,
    yardstick: &mut impl Inlet,
) -> Result<(), BenchError> {
    while let Order::Run { side, variant, items, windows, .. } = control.receive("the next round")? {
        match side {
            Side::Ours => ours.choose(variant),
            Side::Yardstick => yardstick.choose(variant),
        }
        control.send(&Answer::Ready)?;
        let (digest, marks_ns) = match side {
            Side::Ours => receive_round(ours, items, windows)?,
            Side::Yardstick => receive_round(yardstick, items, windows)?,
        };
        control.send(&Answer::Done { digest: digest.value(), marks_ns })?;
    }
    Ok(())
}

fn receive_round(
    inlet: &mut impl Inlet,
    window: u64,
    windows: u64,
) -> Result<(Digest, Vec<u64>), BenchError> {
    let mut digest = Digest::default();
    let mut marks_ns = vec![now_ns()];
    for _ in 0..windows {
        inlet.receive(window, &mut digest)?;
        marks_ns.push(now_ns());
    }
    Ok((digest, marks_ns))
}

/// A link that sends, or receives, frames in batches of `batch`, waiting in the first `WAYS` ways.
pub(super) struct LinkStream<L, const WAYS: usize> {
    pub(super) pump: Pump<L>,
    pub(super) batch: u64,
}

impl<L, const WAYS: usize> Variants for LinkStream<L, WAYS> {
    const COUNT: usize = WAYS;

    fn choose(&mut self, variant: usize) {
        self.pump.waits = Waits::BOTH[variant % WAYS];
    }
}

impl<L: Link, const WAYS: usize> Outlet for LinkStream<L, WAYS> {
    fn send(&mut self, source: &Source, first: u64, count: u64) -> Result<(), BenchError> {
        let head = FrameHead::new(FrameKind::new(Room::Trial, 0));
        let end = first + count;
        let mut number = first;
        while number < end {
            let batch = number..end.min(number + self.batch);
            let frames = batch.map(|number| (head, source.message(number)));
            match self.pump.link.send_batch(frames) {
                Ok(sent) => number += sent as u64,
                Err(FrameSendError::Full) => {
                    self.pump.send_when_possible(head, source.message(number))?;
                    number += 1;
                }
                Err(error) => return Err(error.into()),
            }
            self.pump.link.flush()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.pump.drain()
    }
}

impl<L: Link, const WAYS: usize> Inlet for LinkStream<L, WAYS> {
    fn receive(&mut self, count: u64, digest: &mut Digest) -> Result<(), BenchError> {
        let mut seen = 0;
        while seen < count {
            let max = (2 * self.batch).min(count - seen) as usize;
            let taken = self.pump.until("a frame", |link| -> Result<_, LinkError> {
                let taken = link.receive(max, |frame| {
                    for offset in (0..frame.payload.len()).step_by(BLOCK) {
                        digest.add(&frame.payload.array(offset));
                    }
                    Disposition::Taken
                })?;
                Ok(Some(taken).filter(|taken| *taken > 0))
            })?;
            seen += taken as u64;
        }
        Ok(())
    }
}

/// A bare ring that publishes, or gives slots back, in batches of `batch`.
pub(super) struct RingStream<R> {
    pub(super) ring: R,
    pub(super) batch: u64,
}

impl<R> Variants for RingStream<R> {}

impl<const SLOT: usize> Outlet for RingStream<BareWriter<SLOT>> {
    fn send(&mut self, source: &Source, first: u64, count: u64) -> Result<(), BenchError> {
        let (messages, _) = source.bytes().as_chunks::<SLOT>();
        for number in first..first + count {
            self.ring.push(&messages[number as usize & (messages.len() - 1)], self.batch)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.ring.publish();
        Ok(())
    }
}

impl Inlet for RingStream<BareReader<BLOCK>> {
    fn receive(&mut self, count: u64, digest: &mut Digest) -> Result<(), BenchError> {
        let mut seen = 0;
        while seen < count {
            let max = (2 * self.batch).min(count - seen);
            seen += self.ring.pull(max, |message| digest.add(message))?;
        }
        Ok(())
    }
}

/// A bare socket that reads into a buffer of its own.
pub(super) struct SocketStream {
    pub(super) socket: BareSocket,
    pub(super) buffer: Vec<u8>,
    pub(super) message_len: usize,
}

impl Variants for SocketStream {
    const COUNT: usize = Waits::BOTH.len();

    fn choose(&mut self, variant: usize) {
        self.socket.waits = Waits::BOTH[variant % Self::COUNT];
    }
}

impl Outlet for SocketStream {
    fn send(&mut self, source: &Source, first: u64, count: u64) -> Result<(), BenchError> {
        (first..first + count).try_for_each(|number| self.socket.write_all(source.message(number)))
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        Ok(())
    }
}

impl Inlet for SocketStream {
    fn receive(&mut self, count: u64, digest: &mut Digest) -> Result<(), BenchError> {
        let mut left = count as usize * self.message_len;
        let mut filled = 0;
        while left > 0 {
            let space = self.buffer.len().min(filled + left);
            let len = self.socket.read_some(&mut self.buffer[filled..space])?;
            (filled, left) = (filled + len, left - len);
            let used = digest.add_all(&self.buffer[..filled]);
            self.buffer.copy_within(used..filled, 0);
            filled -= used;
        }
        Ok(())
    }
}
