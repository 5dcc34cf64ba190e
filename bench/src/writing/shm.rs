//! Real writes over shared memory to a memory server in a process of its own.

use std::time::Instant;

use outboard::{Outboard, WritePath, WriteTarget, Writer, WriterOptions};
use outboard_link::Address;

use super::bare::Bare;
use crate::daemons::{Host, HostSpec};
use crate::harness::{Duel, Effort, Figure, Progress, Round, Side, Unit};
use crate::{BenchError, BenchOptions};

/// Bytes of a small write.
pub(super) const SMALL: usize = 64;
/// Far beyond what any TLB covers.
const COLD_BYTES: u64 = 1 << 30;
/// Within every cache.
const HOT_BYTES: u64 = 256 << 10;
/// Writes in one round.
const ROUND: u64 = 400_000;

/// An order of places for each: the writer that comes second must not find in a cache what the first has left there.
pub(super) fn order(whose: &str) -> fastrand::Rng {
    fastrand::Rng::with_seed(whose.bytes().fold(7, |seed, byte| 31 * seed + u64::from(byte)))
}

/// A writer to a region, and the order in which it writes.
struct Scribe {
    writer: Writer,
    target: WriteTarget,
    size: u64,
    random: fastrand::Rng,
}

/// What daemons know the benchmark by.
const NAME: &str = "bench writing";

impl Scribe {
    /// With the whole region mapped and populated.
    fn start(
        address: &Address,
        region: &outboard::FarRegion,
        path: Option<WritePath>,
    ) -> Result<Self, BenchError> {
        let options = WriterOptions { path, ..WriterOptions::default() };
        let mut writer = Outboard::at(address.clone()).with_name(NAME).writer_with(options)?;
        let target = writer.open(region)?;
        let size = region.size();
        let mut scribe = Self { writer, target, size, random: order(path.map_or("adaptive", |_| "fixed")) };
        scribe.populate()?;
        Ok(scribe)
    }

    fn populate(&mut self) -> Result<(), BenchError> {
        let offload =
            outboard::WriteOptions { path: Some(WritePath::Offload), ..outboard::WriteOptions::default() };
        let bytes = [0; 4096];
        for page in 0..self.size / 4096 {
            self.writer.write_with(self.target, page * 4096, &bytes, offload)?;
        }
        Ok(self.writer.flush()?)
    }

    /// So many small writes to random places, all visible at the end. Returns how long they took in seconds.
    fn round(&mut self, writes: u64) -> Result<f64, BenchError> {
        let bytes = [1; SMALL];
        let places = self.size / SMALL as u64;
        let began = Instant::now();
        for _ in 0..writes {
            let offset = self.random.u64(..places) * SMALL as u64;
            self.writer.write(self.target, offset, &bytes)?;
        }
        self.writer.flush()?;
        Ok(began.elapsed().as_secs_f64())
    }
}

/// The time that all threads of a process have had on processors, in seconds.
fn cpu_seconds(pid: u32) -> f64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0.0 };
    let had = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    had.sum::<u64>() as f64 / 1e9
}

/// The figures of both regions.
pub(super) fn figures(options: &BenchOptions) -> Result<Vec<Figure>, BenchError> {
    let host = Host::start(&options.peer, &HostSpec::Memory { data_dir: None, workers: None })?;
    let mut figures = Vec::new();
    let cold = if options.effort == Effort::Tiny { HOT_BYTES } else { COLD_BYTES };
    for (name, size) in [("cold", cold), ("hot", HOT_BYTES)] {
        figures.extend(region_figures(options, &host, name, size)?);
    }
    Ok(figures)
}

fn region_figures(
    options: &BenchOptions,
    host: &Host,
    name: &str,
    size: u64,
) -> Result<Vec<Figure>, BenchError> {
    let mut memory = Outboard::at(host.local.clone()).with_name(NAME).memory()?;
    let region = memory.reserve_shared(size, &format!("bench-writing-{name}"))?;
    let mut ours = Scribe::start(&host.local, &region, None)?;
    let mut fixed = Scribe::start(&host.local, &region, Some(WritePath::Offload))?;
    let writes = options.effort.items(ROUND);
    let own = std::process::id();
    // Two figures from the same rounds would mix up their scores, so each has rounds of its own.
    let mut round = |side: Side, by_cpu: bool| {
        let scribe = if side == Side::Ours { &mut ours } else { &mut fixed };
        let before = cpu_seconds(own) + cpu_seconds(host.pid());
        let seconds = scribe.round(writes)?;
        let spent = cpu_seconds(own) + cpu_seconds(host.pid()) - before;
        Ok(Round::rate(writes, if by_cpu { spent.max(1e-9) } else { seconds }))
    };
    let progress = Progress::new(options.effort, 3);
    progress.begin(&format!("writing.shm.{name}"));
    let by_time = Duel::run(options.effort, &progress, |side| round(side, false))?;
    let versus = "a writer whose path is fixed to offload";
    let gain = |figure: Figure, name: String| {
        let ratio = figure.ratio;
        Figure::new(name, Unit::Ratio, ratio, 1.0, versus)
    };
    let figure = by_time.figure("", Unit::MessagesPerSecond, 1.0, versus);
    let mut figures = vec![gain(figure, format!("writing.shm.{name}.adaptive_over_offload"))];
    if name == "cold" {
        let by_cpu = Duel::run(options.effort, &progress, |side| round(side, true))?;
        let figure = by_cpu.figure("", Unit::MessagesPerSecond, 1.0, versus);
        figures.insert(0, gain(figure, "writing.shm.cold.per_cpu_second".to_owned()));
    }
    let mut bare = Bare::start(&host.local, &region)?;
    let over_bare = Duel::run(options.effort, &progress, |side| {
        let seconds = if side == Side::Ours { ours.round(writes)? } else { bare.round(writes)? };
        Ok(Round::rate(writes, seconds))
    })?;
    let versus = "the link's own writes, without a writer, completions taken by the 32";
    let ratio = over_bare.figure("", Unit::MessagesPerSecond, 1.0, versus).ratio;
    figures.push(Figure::new(format!("writing.shm.{name}.over_bare_link"), Unit::Ratio, ratio, 1.0, versus));
    drop((ours, fixed, bare));
    memory.free(region)?;
    Ok(figures)
}
