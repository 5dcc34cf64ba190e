//! A connection between two ends.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outboard_wire::Time;

use super::fault::Dice;
use super::network::Shared;
use super::pipe::{Pipe, Taken};
use crate::Loss;
use crate::memory::Window;
use crate::stream::{Arrival, ByteStream, Scatter};

/// A handshake message must fit a pipe.
const PIPE_MIN: usize = 4096;

/// Both directions: the pipe at an end's own number is the one it writes to.
pub(super) struct LoopbackWire {
    pipes: [Pipe; 2],
    /// Which ends have bytes left that found no room.
    blocked: [bool; 2],
}

impl LoopbackWire {
    /// When `end` will find something to do.
    fn next_event(&self, end: usize) -> Option<Time> {
        if self.blocked[end] && self.pipes[end].room() > 0 {
            return Some(Time::ZERO);
        }
        self.pipes[1 - end].next_arrival()
    }

    /// When either end will find something to do.
    pub(super) fn first_event(&self) -> Option<Time> {
        [0, 1].into_iter().filter_map(|end| self.next_event(end)).min()
    }

    /// The connection is cut: what is on its way arrives, nothing follows.
    fn cut(&mut self) {
        for pipe in &mut self.pipes {
            pipe.is_abandoned = true;
            pipe.finish();
        }
    }
}

/// One end of a connection within a process.
pub struct LoopbackBytes {
    network: Arc<Shared>,
    wire: Arc<Mutex<LoopbackWire>>,
    end: usize,
    dice: Dice,
}

impl LoopbackBytes {
    /// Both ends of a new connection.
    pub(super) fn pair(network: &Arc<Shared>, number: u64) -> [Self; 2] {
        let dice = |use_of| Dice::new(network.seed, number * 4 + use_of);
        let pipe = |end| Pipe::new(network.config.pipe_bytes.max(PIPE_MIN), dice(end));
        let wire = Arc::new(Mutex::new(LoopbackWire { pipes: [pipe(0), pipe(1)], blocked: [false; 2] }));
        network.note(&wire);
        [0, 1].map(|end| Self {
            network: Arc::clone(network),
            wire: Arc::clone(&wire),
            end,
            dice: dice(2 + end as u64),
        })
    }

    fn wire(&self) -> MutexGuard<'_, LoopbackWire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ByteStream for LoopbackBytes {
    const NAME: &'static str = "loopback";

    fn begin_records(&mut self, _deadline: Duration) {
        let end = self.end;
        self.wire().pipes[end].begin_records(self.network.plan());
    }

    fn send(&mut self, now: Time, bytes: &[u8]) -> Result<usize, Loss> {
        let now = self.network.advance(now);
        let (end, network) = (self.end, Arc::clone(&self.network));
        let mut wire = self.wire();
        let pipe = &mut wire.pipes[end];
        if pipe.is_abandoned || pipe.is_finished {
            return Err(Loss::Gone);
        }
        match pipe.put(now, bytes, network.plan(), &network.tally) {
            Taken::Bytes(len) => {
                wire.blocked[end] = len < bytes.len();
                Ok(len)
            }
            Taken::Broken => {
                wire.cut();
                Err(Loss::Gone)
            }
        }
    }

    fn receive(&mut self, now: Time, into: &mut [u8]) -> Result<Arrival, Loss> {
        let now = self.network.advance(now);
        let from = 1 - self.end;
        let most = into.len();
        let put = |at: usize, bytes: &[u8]| into[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(self.wire().pipes[from].take(now, most, put))
    }

    fn send_gathered(&mut self, now: Time, head: &[u8], body: Window<'_>) -> Result<usize, Loss> {
        let bytes = [head, &body.to_vec()].concat();
        self.send(now, &bytes)
    }

    fn receive_scattered(&mut self, now: Time, mut into: Scatter<'_>) -> Result<Arrival, Loss> {
        let now = self.network.advance(now);
        let from = 1 - self.end;
        Ok(self.wire().pipes[from].take(now, into.len(), |at, bytes| into.write(at, bytes)))
    }

    fn finish(&mut self) {
        let end = self.end;
        let mut wire = self.wire();
        wire.pipes[end].finish();
        wire.pipes[1 - end].is_abandoned = true;
        wire.pipes[1 - end].wake();
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn next_event(&self) -> Option<Time> {
        self.wire().next_event(self.end)
    }

    fn prepare_to_wait(&mut self) -> bool {
        let (end, now) = (self.end, self.network.now());
        let mut wire = self.wire();
        if wire.next_event(end).is_some_and(|event| event <= now) {
            return false;
        }
        wire.pipes[end].writer = Some(std::thread::current());
        wire.pipes[1 - end].reader = Some(std::thread::current());
        true
    }

    fn tear(&mut self, borders: usize) -> Option<usize> {
        let border = self.dice.tear(self.network.plan(), borders)?;
        self.network.tally.torn.fetch_add(1, Relaxed);
        Some(border)
    }
}

impl Drop for LoopbackBytes {
    fn drop(&mut self) {
        self.finish();
    }
}
