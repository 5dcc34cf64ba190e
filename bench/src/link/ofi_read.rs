//! How long does it take to read the peer's memory through libfabric, within a machine?
//!
//! Before every read the owner, on its own core, writes the chunk anew, as where shared memory is measured, and then
//! lets its endpoint work: a provider may need it. Both sides read the same kind of memory into buffers of the same kind.

use std::sync::Arc;
use std::time::Instant;

use outboard_link::memory::{Buffer, Segment, SegmentAccess};
use outboard_link::{AccessError, AccessOutcome, Export, Exports, Link, OpenRegion, RemoteMemory, Token};
use outboard_wire::{Generation, RegionId, RegionKey, Rights};

use super::Question;
use super::ofi::{Bare, Ofi, OverShm, unfit};
use super::payload::Source;
use super::pump::Pump;
use super::shm_read::{ASKED, BELLS, CHUNK, REGION, Shared, WRITTEN, check, offset};
use super::stage::{Stage, join};
use super::transport::Transport;
use crate::BenchError;
use crate::error::Named;
use crate::harness::{Duel, Figure, Round, Side};
use crate::pair::{Answer, Control, Order, spin_until};

pub(crate) const QUESTION: Question =
    Question { name: "link.ofi_shm.read_64KiB", unfit: unfit::<OverShm>, lead, serve };

type OfiLink = <Ofi<OverShm> as Transport>::Link;

const READS: u64 = 600;
/// The bare endpoints exchange no messages, and have places for few.
const SLOTS: usize = 8;
const SLOT_BYTES: usize = 4096;
const KEY: RegionKey = RegionKey([0x5b; 16]);
const VERSUS: &str =
    "fi_read between bare libfabric endpoints of the same provider, shm, into the same kind of buffer";

fn lead(stage: &Stage<'_>) -> Result<Vec<Figure>, BenchError> {
    let link = stage.meet::<Ofi<OverShm>>(None)?;
    let bells = Segment::create(c"outboard-bench-bells", BELLS).named("memfd_create")?;
    stage.control().send_descriptor(bells.descriptor())?;
    let bare = Bare::meet::<OverShm>(stage, SLOTS, SLOT_BYTES)?;
    let far: (u64, u64) = stage.control().receive("the bare endpoint's memory")?;
    let mut reader = Reader::new(link, (bare, far), Shared(bells))?;
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
    Ok(super::echo::figures("link.ofi_shm.read_64KiB", &duel, VERSUS))
}

/// The side that reads.
struct Reader {
    pump: Pump<OfiLink>,
    region: OpenRegion,
    bare: Bare,
    /// What the bare endpoint reads: the key, and where it begins.
    far: (u64, u64),
    bells: Shared,
    ours: Buffer,
    theirs: Buffer,
    /// Chunks read so far, by either means.
    count: u64,
}

impl Reader {
    fn new(link: OfiLink, (bare, far): (Bare, (u64, u64)), bells: Shared) -> Result<Self, BenchError> {
        let mut pump = Pump::new(link);
        let grant = outboard_wire::Grant {
            region: RegionId(1),
            generation: Generation(1),
            key: KEY,
            rights: Rights::READ,
            size: REGION as u64,
        };
        pump.link.open(&grant, Rights::READ, Token(0))?;
        let AccessOutcome::Opened(region) = ended(&mut pump, "the region to open", Token(0))? else {
            return Err(AccessError::NotOpen.into());
        };
        let buffer = || Buffer::allocate(CHUNK).named("mmap");
        Ok(Self { pump, region, bare, far, bells, ours: buffer()?, theirs: buffer()?, count: 0 })
    }

    fn round(&mut self, side: Side, reads: u64, source: &Source) -> Result<Round, BenchError> {
        let mut times_ns = Vec::with_capacity(reads as usize);
        for _ in 0..reads {
            let number = self.count;
            self.count += 1;
            self.bells.ring(ASKED, self.count);
            self.bells.wait(WRITTEN, self.count, "the owner to write a chunk")?;
            let began = Instant::now();
            match side {
                Side::Ours => {
                    let at = offset(number) as u64;
                    self.pump.link.read(self.region, at, &self.ours, 0, CHUNK, Token(number))?;
                    ended(&mut self.pump, "the end of a read", Token(number))?;
                }
                Side::Yardstick => {
                    let (key, base) = self.far;
                    self.bare.read((key, base + offset(number) as u64), &self.theirs, CHUNK)?;
                }
            }
            times_ns.push(began.elapsed().as_nanos() as u32);
            let buffer = if side == Side::Ours { &self.ours } else { &self.theirs };
            check(&buffer.window().to_vec(), source.message(number))?;
            self.pump.progress()?;
            self.bare.turn()?;
        }
        Ok(Round::times(times_ns))
    }
}

/// Waits for the end of an operation, the only one that is under way.
fn ended(pump: &mut Pump<OfiLink>, awaited: &'static str, token: Token) -> Result<AccessOutcome, BenchError> {
    let completion = pump.until(awaited, |link| {
        let mut ended = None;
        link.completions(|completion| ended = Some(completion));
        Ok(ended)
    })?;
    if completion.token != token {
        return Err(BenchError::PeerGone { awaited });
    }
    Ok(completion.result?)
}

fn serve(control: &Control) -> Result<(), BenchError> {
    let memory = || -> Result<_, BenchError> {
        let segment = Segment::create(c"outboard-bench-region", REGION).named("memfd_create")?;
        // No side writes what the other reads at that moment, so it is lent.
        segment.set_quiet(true);
        Ok(Arc::new(segment))
    };
    let (ours, theirs) = (memory()?, memory()?);
    let exports = Exports::new();
    let keys = vec![(KEY, Rights::READ)];
    let (region, generation) = (RegionId(1), Generation(1));
    exports.add(Export { region, generation, memory: Arc::clone(&ours), keys });
    let mut pump = Pump::new(join::<Ofi<OverShm>>(control, exports)?.link);
    let descriptor = control.receive_descriptor()?;
    let bells = Segment::adopt(descriptor, BELLS, SegmentAccess::ReadWrite);
    let bells = Shared(bells.map_err(std::io::Error::other).named("mmap")?);
    let mut bare = Bare::exchange::<OverShm>(control, SLOTS, SLOT_BYTES)?;
    control.send(&bare.lend(&theirs)?)?;
    let is_open = |link: &mut OfiLink| Ok((link.counters().accesses_served > 0).then_some(()));
    pump.until("the lead to open the region", is_open)?;
    let mut count = 0;
    while let Order::Run { side, items, seed, .. } = control.receive("the next round")? {
        let source = Source::new(seed, 2, CHUNK);
        control.send(&Answer::Ready)?;
        for _ in 0..items {
            spin_until("the lead to ask for a chunk", || {
                if bells.has_rung(ASKED, count + 1) {
                    return Some(Ok(()));
                }
                let worked = pump.progress().and_then(|()| bare.turn());
                worked.err().map(Err)
            })??;
            let memory = if side == Side::Ours { &ours } else { &theirs };
            memory.window_mut(offset(count), CHUNK).write(0, source.message(count));
            count += 1;
            bells.ring(WRITTEN, count);
        }
        control.send(&Answer::Done { digest: 0, marks_ns: Vec::new() })?;
    }
    Ok(())
}
