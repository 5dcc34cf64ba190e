//! Remote writes, each of which chooses between two paths.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use outboard::{
    Address, FarRegion, Memory, Outboard, WriteOptions, WritePath, WriteTarget, Writer, WriterOptions,
};

use super::{Finding, per_second, times};
use crate::commands::demo::stage::{By, Stage};

/// The length of a write, and the size of the region.
const WRITE: usize = 64;
const REGION: usize = 1 << 20;
/// Writes between two flushes.
const CHUNK: usize = 1000;
/// How long is measured, and how often: of all rounds the best counts.
const SPAN: Duration = Duration::from_millis(80);
const ROUNDS: usize = 2;
/// The paths of all writes of a writer; none leaves it to each.
const PATHS: [Option<WritePath>; 3] = [None, Some(WritePath::Offload), Some(WritePath::Unload)];

/// Small writes over both links: each by the path it chooses, all offloaded, all unloaded.
pub(super) fn both_links(stage: &mut Stage) -> Result<Finding> {
    let mut finding = Finding::text("");
    let (mut parts, mut gains) = (Vec::new(), Vec::new());
    for by in By::BOTH {
        let ([chosen, offloaded, unloaded], share) = measure(stage, by)?;
        let (path, most, other, against) = match share >= 0.5 {
            true => ("straight into memory", share, unloaded, "by the server's processor"),
            false => ("by the server's processor", 1.0 - share, offloaded, "straight into memory"),
        };
        parts.push(format!("{} {}, {:.0} % {path}", per_second(chosen), by.words(), most * 100.0));
        let mut gain = format!("{} {} as fast as all {against}", by.words(), times(chosen, other));
        if chosen < other && matches!(by, By::Tcp) {
            gain += " (both use it there)";
        }
        gains.push(gain);
        for (what, rate) in [("chosen", chosen), ("offloaded", offloaded), ("unloaded", unloaded)] {
            finding = finding.with(format!("writes_{what}_{}_per_s", by.name()), rate);
        }
        finding = finding.with(format!("writes_{}_offloaded_share", by.name()), share);
    }
    let text = format!(
        "{WRITE} B each to random places, each by the path it chooses, all as written: {}",
        parts.join("; ")
    );
    Ok(Finding { text, gain: gains.join("; "), ..finding })
}

/// Writes in a second by each of [`PATHS`], and which share of those that chose was offloaded.
fn measure(stage: &Stage, by: By) -> Result<([f64; 3], f64)> {
    let mut scribes = Vec::with_capacity(PATHS.len());
    for path in PATHS {
        let options = WriterOptions { path, ..WriterOptions::default() };
        let mut scribe = Scribe::new(stage, (by, None), options)?;
        // Learning at the beginning, and the first touch of fresh memory, are not to be measured.
        scribe.write(4 * CHUNK, None)?;
        scribes.push(scribe);
    }
    let mut rates = [0.0_f64; 3];
    // By turns, so that whatever else the machine does is there for all.
    for _ in 0..ROUNDS {
        for (rate, scribe) in rates.iter_mut().zip(&mut scribes) {
            *rate = rate.max(scribe.rate(stage)?);
        }
    }
    let counts = scribes[0].writer.stats();
    scribes.into_iter().try_for_each(Scribe::check)?;
    Ok((rates, counts.offloaded as f64 / (counts.offloaded + counts.unloaded).max(1) as f64))
}

/// Writes by way of an agent that is killed in the middle.
pub(super) fn without_agent(stage: &mut Stage) -> Result<Finding> {
    const WRITES: usize = 20_000;
    let (agent, victim) = (stage.agent_address()?, stage.victim()?);
    let options = WriterOptions::default().with_writes_by_agent();
    let mut scribe = Scribe::new(stage, (By::Shm, Some(agent)), options)?;
    let drained_by = scribe.writer.drained_by();
    ensure!(drained_by.contains("agent"), "the writer did without the agent: {drained_by}");
    scribe.write(WRITES / 2, Some(WritePath::Unload))?;
    // These are on their way when it dies.
    scribe.begin(CHUNK, Some(WritePath::Unload))?;
    victim.kill()?;
    stage.go_on()?;
    scribe.write(WRITES / 2 - CHUNK, None)?;
    stage.bury_agent()?;
    let resent = scribe.writer.stats().resent;
    scribe.check()?;
    let text = format!(
        "{WRITES} writes; killed after half of them; {resent} that it had not settled were sent again, to the memory \
         server"
    );
    Ok(Finding::text(text)
        .gained("every byte is the one that was written last")
        .with("writes_resent", resent as f64))
}

/// A writer, and what its region must hold.
struct Scribe {
    memory: Memory,
    region: FarRegion,
    writer: Writer,
    target: WriteTarget,
    expected: Vec<u8>,
    random: fastrand::Rng,
}

impl Scribe {
    fn new(stage: &Stage, (by, agent): (By, Option<Address>), options: WriterOptions) -> Result<Self> {
        let mut memory = stage.connect_memory(by)?;
        let region = memory.reserve(REGION as u64, None)?;
        let outboard = stage.outboard(by)?;
        let outboard = agent.into_iter().fold(outboard, Outboard::with_agent);
        let mut writer = outboard.writer_with(options)?;
        let target = writer.open(&region)?;
        let (expected, random) = (vec![0; REGION], fastrand::Rng::with_seed(1));
        Ok(Self { memory, region, writer, target, expected, random })
    }

    /// Begins so many writes.
    fn begin(&mut self, count: usize, path: Option<WritePath>) -> Result<()> {
        for _ in 0..count {
            let at = self.random.usize(..REGION / WRITE) * WRITE;
            let bytes = [self.random.u64(..).to_le_bytes(); WRITE / 8];
            let options = WriteOptions { path, ..WriteOptions::default() };
            self.writer.write_with(self.target, at as u64, bytes.as_flattened(), options)?;
            self.expected[at..at + WRITE].copy_from_slice(bytes.as_flattened());
        }
        Ok(())
    }

    /// Makes so many writes, all of which are visible then.
    fn write(&mut self, count: usize, path: Option<WritePath>) -> Result<()> {
        self.begin(count, path)?;
        Ok(self.writer.flush()?)
    }

    /// Writes in a second.
    fn rate(&mut self, stage: &Stage) -> Result<f64> {
        let (began, mut done) = (Instant::now(), 0);
        while began.elapsed() < SPAN {
            stage.go_on()?;
            self.write(CHUNK, None)?;
            done += CHUNK;
        }
        Ok(done as f64 / began.elapsed().as_secs_f64())
    }

    /// Compares all bytes with what was written.
    fn check(mut self) -> Result<()> {
        self.writer.flush()?;
        let mut found = vec![0xff; REGION];
        self.memory.read(&self.region, 0, &mut found)?;
        let wrong = found.iter().zip(&self.expected).position(|(found, expected)| found != expected);
        ensure!(wrong.is_none(), "byte {wrong:?} is not what was written last");
        drop(self.writer);
        self.memory.free(self.region)?;
        self.memory.close("done");
        Ok(())
    }
}
