//! How long does it take to read the peer's memory?
//!
//! Before every read the owner, on its own core, writes the chunk anew, so that the bytes have to come out of
//! its cache; chunks are taken in turn from a region of sixteen. Ours and memcpy read memory of the same kind
//! into buffers of the same kind.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use outboard_link::memory::{Buffer, Segment, SegmentAccess};
use outboard_link::{AccessError, AccessOutcome, Export, Exports, Link, OpenRegion, RemoteMemory, Token};
use outboard_wire::{Generation, RegionId, RegionKey, Rights};

use super::payload::{Digest, Source};
use super::pump::Pump;
use super::stage::{Stage, join};
use super::transport::{Shm, Transport};
use crate::BenchError;
use crate::error::Named;
use crate::harness::{Duel, Figure, Round, Side};
use crate::pair::{Answer, Control, Order, spin_until};

pub(super) const CHUNK: usize = 1 << 16;
const CHUNKS: u64 = 16;
pub(super) const REGION: usize = CHUNK * CHUNKS as usize;

/// A page for the two counts, before the memory that memcpy reads.
pub(super) const BELLS: usize = 4096;
/// How many chunks the lead has asked for.
pub(super) const ASKED: usize = 0;
/// How many chunks the owner has written.
pub(super) const WRITTEN: usize = 128;

const READS: u64 = 600;
const KEY: RegionKey = RegionKey([0x5a; 16]);
const VERSUS: &str = "memcpy from the same kind of shared memory, written by the owner just before";

/// What the two processes share beside the link: the bells, and the memory that memcpy reads.
pub(super) struct Shared(pub(super) Segment);

impl Shared {
    pub(super) fn ring(&self, bell: usize, count: u64) {
        self.0.word(bell).store(count, Ordering::Release);
    }

    pub(super) fn has_rung(&self, bell: usize, count: u64) -> bool {
        self.0.word(bell).load(Ordering::Acquire) >= count
    }

    pub(super) fn wait(&self, bell: usize, count: u64, awaited: &'static str) -> Result<(), BenchError> {
        spin_until(awaited, || self.has_rung(bell, count).then_some(()))
    }
}

/// Where chunk `number` lies in its region.
pub(super) fn offset(number: u64) -> usize {
    (number % CHUNKS) as usize * CHUNK
}

pub(super) fn lead(stage: &Stage<'_>) -> Result<Vec<Figure>, BenchError> {
    let link = stage.meet::<Shm>(None)?;
    let segment = Segment::create(c"outboard-bare-memory", BELLS + REGION).named("memfd_create")?;
    stage.control().send_descriptor(segment.descriptor())?;
    let mut reader = Reader::new(link, Shared(segment))?;
    let items = stage.effort.items(READS);
    let mut seed = 0;
    let duel = Duel::run(stage.effort, stage.progress, |side| {
        seed += 1;
        stage.control().send(&Order::Run { side, variant: 0, items, windows: 1, seed })?;
        stage.control().ready()?;
        let round = reader.round(side, items, &Source::new(seed, 2, CHUNK))?;
        stage.control().done()?;
        Ok(round)
    })?;
    Ok(super::echo::figures("link.shm.read_64KiB", &duel, VERSUS))
}

/// The side that reads.
struct Reader {
    pump: Pump<<Shm as Transport>::Link>,
    region: OpenRegion,
    shared: Shared,
    ours: Buffer,
    bare: Buffer,
    /// Chunks read so far, by either means.
    count: u64,
}

impl Reader {
    fn new(link: <Shm as Transport>::Link, shared: Shared) -> Result<Self, BenchError> {
        let mut pump = Pump::new(link);
        let grant = outboard_wire::Grant {
            region: RegionId(1),
            generation: Generation(1),
            key: KEY,
            rights: Rights::READ,
            size: REGION as u64,
        };
        pump.link.open(&grant, Rights::READ, Token(0))?;
        let opened = pump.until("the region to open", |link| {
            let mut result = None;
            link.completions(|completion| result = Some(completion.result));
            Ok(result)
        })?;
        let AccessOutcome::Opened(region) = opened? else { return Err(AccessError::NotOpen.into()) };
        let buffer = || Buffer::allocate(CHUNK).named("mmap");
        Ok(Self { pump, region, shared, ours: buffer()?, bare: buffer()?, count: 0 })
    }

    fn round(&mut self, side: Side, reads: u64, source: &Source) -> Result<Round, BenchError> {
        let mut times_ns = Vec::with_capacity(reads as usize);
        for _ in 0..reads {
            let number = self.count;
            self.count += 1;
            self.shared.ring(ASKED, self.count);
            self.shared.wait(WRITTEN, self.count, "the owner to write a chunk")?;
            let began = Instant::now();
            match side {
                Side::Ours => self.read_ours(number)?,
                Side::Yardstick => self.read_bare(number),
            }
            times_ns.push(began.elapsed().as_nanos() as u32);
            let buffer = if side == Side::Ours { &self.ours } else { &self.bare };
            check(&buffer.window().to_vec(), source.message(number))?;
            self.pump.progress()?;
        }
        Ok(Round::times(times_ns))
    }

    #[inline]
    fn read_ours(&mut self, number: u64) -> Result<(), BenchError> {
        let link = &mut self.pump.link;
        link.read(self.region, offset(number) as u64, &self.ours, 0, CHUNK, Token(number))?;
        let mut result = None;
        link.completions(|completion| result = Some(completion));
        match result {
            Some(completion) if completion.token == Token(number) => completion.result.map(|_| ())?,
            _ => return Err(BenchError::PeerGone { awaited: "the end of a read" }),
        }
        Ok(())
    }

    #[inline]
    fn read_bare(&self, number: u64) {
        let from = self.shared.0.start().as_ptr().wrapping_add(BELLS + offset(number));
        // SAFETY: the chunk lies in the segment and the buffer is a chunk long; the owner has written the chunk
        // and will not touch it before it is asked again.
        unsafe { self.bare.window_mut().as_mut_ptr().copy_from_nonoverlapping(from, CHUNK) };
    }
}

pub(super) fn check(found: &[u8], expected: &[u8]) -> Result<(), BenchError> {
    if found == expected {
        return Ok(());
    }
    let digest = |bytes| {
        let mut digest = Digest::default();
        digest.add_all(bytes);
        digest.value()
    };
    Err(BenchError::Changed { what: "a chunk", expected: digest(expected), found: digest(found) })
}

pub(super) fn serve(control: &Control) -> Result<(), BenchError> {
    let exported = Arc::new(Segment::create(c"outboard-bench-region", REGION).named("memfd_create")?);
    let exports = Exports::new();
    exports.add(Export {
        region: RegionId(1),
        generation: Generation(1),
        memory: Arc::clone(&exported),
        keys: vec![(KEY, Rights::READ)],
    });
    let met = join::<Shm>(control, exports)?;
    let mut pump = Pump::new(met.link);
    let descriptor = control.receive_descriptor()?;
    let shared = Segment::adopt(descriptor, BELLS + REGION, SegmentAccess::ReadWrite)
        .map_err(std::io::Error::other)
        .named("mmap")?;
    let shared = Shared(shared);
    let served =
        |link: &mut <Shm as Transport>::Link| Ok((link.counters().accesses_served > 0).then_some(()));
    pump.until("the lead to open the region", served)?;
    let mut count = 0;
    while let Order::Run { side, items, seed, .. } = control.receive("the next round")? {
        let source = Source::new(seed, 2, CHUNK);
        control.send(&Answer::Ready)?;
        for _ in 0..items {
            shared.wait(ASKED, count + 1, "the lead to ask for a chunk")?;
            let bytes = source.message(count);
            match side {
                Side::Ours => exported.window_mut(offset(count), CHUNK).write(0, bytes),
                Side::Yardstick => shared.0.window_mut(BELLS + offset(count), CHUNK).write(0, bytes),
            }
            count += 1;
            shared.ring(WRITTEN, count);
        }
        control.send(&Answer::Done { digest: 0, marks_ns: Vec::new() })?;
    }
    Ok(())
}
