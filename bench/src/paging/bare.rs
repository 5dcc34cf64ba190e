//! Rounds of the yardsticks, to be run by turns with rounds of our own.

use std::sync::atomic::Ordering;
use std::time::Instant;

use outboard_link::memory::Segment;

use super::touches::{Touches, word};
use crate::BenchError;
use crate::error::Named;
use crate::harness::Round;
use crate::pair::Waits;
use crate::raw::{BareClient, BareRecycle, HandOver, Shape, Traffic};

/// Faults that the bare loop answers.
pub(crate) struct BareFaults {
    bare: BareRecycle,
    traffic: Traffic,
    touches: Touches,
}

impl BareFaults {
    /// Makes the region and starts the loop.
    pub(crate) fn start(shape: Shape, traffic: Traffic) -> Result<Self, BenchError> {
        let bare = BareRecycle::start(shape, traffic, word)?;
        Ok(Self { bare, traffic, touches: Touches::new(&shape, 1) })
    }

    /// The times of those of `count` random accesses that faulted.
    pub(crate) fn round(&mut self, count: u64) -> Result<Round, BenchError> {
        let Self { bare, traffic, touches } = self;
        // SAFETY: the region of this shape, which no other code knows.
        let times_ns = unsafe { touches.run(bare.region(), *traffic, count, || bare.faults()) };
        match times_ns {
            Ok(times_ns) if !times_ns.is_empty() => Ok(Round::times(times_ns)),
            // A handler that has failed answers nothing, and its error says more.
            other => {
                bare.stop()?;
                other.map(Round::times)
            }
        }
    }
}

/// Faults that the thread which faults answers itself.
pub(crate) struct OwnFaults {
    region: HandOver,
    touches: Touches,
}

impl OwnFaults {
    /// Makes the region.
    pub(crate) fn start(shape: Shape) -> Result<Self, BenchError> {
        let source = Segment::create(c"outboard-bare-source", shape.footprint()).named("memfd_create")?;
        for offset in (0..shape.footprint()).step_by(8) {
            source.word(offset).store(word(offset), Ordering::Relaxed);
        }
        Ok(Self { region: HandOver::start(shape, source)?, touches: Touches::new(&shape, 1) })
    }

    /// The times of those of `count` random accesses that faulted.
    pub(crate) fn round(&mut self, count: u64) -> Result<Round, BenchError> {
        let Self { region, touches } = self;
        // SAFETY: the region of this shape, which no other code knows.
        let times_ns = unsafe { touches.run(region.region(), Traffic::Loads, count, || region.faults()) };
        times_ns.map(Round::times)
    }
}

/// Chunks over a bare socket.
pub(crate) struct BareFetches {
    client: BareClient,
    chunk: Vec<u8>,
}

/// Reads of a stream take more than one chunk if there is more: fewer calls.
const STREAM_BUFFER: usize = 1 << 18;

impl BareFetches {
    /// Starts the server of chunks of `chunk_len` bytes.
    pub(crate) fn start(chunk_len: usize) -> Result<Self, BenchError> {
        Ok(Self { client: BareClient::start(chunk_len)?, chunk: vec![0; chunk_len] })
    }

    /// The times of `count` fetches, one after the other.
    pub(crate) fn round(&mut self, count: u64) -> Result<Round, BenchError> {
        times(count, || self.client.fetch(&mut self.chunk))
    }

    /// Bytes per second of `count` chunks asked for at once; spinning and asleep, the better counts. The receiver
    /// reads every word, as a program that scans a region does.
    pub(crate) fn stream_round(&mut self, count: u32) -> Result<Round, BenchError> {
        let (chunk_len, mut buffer) = (self.chunk.len(), vec![0; STREAM_BUFFER]);
        let mut best: f64 = 0.0;
        for waits in Waits::BOTH {
            let (began, mut sum) = (Instant::now(), 0u64);
            self.client.stream(count, chunk_len, waits, &mut buffer, |bytes| {
                sum = sum.wrapping_add(sum_of(bytes))
            })?;
            std::hint::black_box(sum);
            let bytes = f64::from(count) * chunk_len as f64;
            best = best.max(bytes / began.elapsed().as_secs_f64());
        }
        Ok(Round { score: best, samples_ns: Vec::new() })
    }
}

/// The sum of all whole words.
fn sum_of(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}

fn times(count: u64, mut work: impl FnMut() -> Result<(), BenchError>) -> Result<Round, BenchError> {
    let time = |_| {
        let began = Instant::now();
        work().map(|()| began.elapsed().as_nanos() as u32)
    };
    (0..count).map(time).collect::<Result<_, _>>().map(Round::times)
}
