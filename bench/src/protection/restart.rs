//! How long does it take from the death of a server, under writes, until its next process gives a right answer?

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outboard::{AskError, FarRegion, Memory};

use super::stage::Stage;
use crate::harness::{Effort, Figure, Progress, Unit, percentile};
use crate::{BenchError, BenchOptions};

/// What it may take.
const LIMIT_MS: f64 = 1000.0;
const VERSUS: &str = "a limit: 1,000 ms from the kill to the first right answer";

/// How much is kept.
fn size(effort: Effort) -> u64 {
    match effort {
        Effort::Full => 1 << 30,
        Effort::Quick => 1 << 28,
        Effort::Tiny => 1 << 22,
    }
}

/// How many bytes are written at once.
const PIECE: usize = 64 << 10;
/// How long writes go on before the server is killed.
const BEFORE: Duration = Duration::from_millis(200);
/// How long a server is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a look that found no server waits before the next.
const PAUSE: Duration = Duration::from_micros(200);

pub(super) fn ask(options: &BenchOptions, progress: &Progress) -> Result<Figure, BenchError> {
    let stage = Stage::new()?;
    let mut host = stage.start(&options.peer)?;
    let mut memory = stage.memory()?;
    let region = memory.reserve_shared(size(options.effort), "kept")?;
    // Every piece has its number and how often it was written at its beginning.
    for piece in 0..region.size() / PIECE as u64 {
        write(&mut memory, &region, piece, 0)?;
    }
    let began = Instant::now();
    let mut times_ms = Vec::new();
    for round in 1..=options.effort.items(20).max(2) {
        let last = write_until_killed(&stage, &region, round, host)?;
        let killed = Instant::now();
        host = stage.start(&options.peer)?;
        await_right(&mut memory, &region, round, last)?;
        times_ms.push(killed.elapsed().as_secs_f64() * 1e3);
        progress.show(began.elapsed());
    }
    drop(host);
    let value = percentile(&mut times_ms, 0.5);
    Ok(Figure::new("protection.restart_ms", Unit::Milliseconds, value, LIMIT_MS, VERSUS))
}

fn write(memory: &mut Memory, region: &FarRegion, piece: u64, round: u64) -> Result<(), AskError> {
    let mut bytes = vec![round as u8; PIECE];
    bytes[..8].copy_from_slice(&piece.to_le_bytes());
    bytes[8..16].copy_from_slice(&round.to_le_bytes());
    memory.write(region, piece * PIECE as u64, &bytes)
}

/// Another client writes until the server dies in the middle of that. Returns the last piece that was acknowledged.
fn write_until_killed(
    stage: &Stage,
    region: &FarRegion,
    round: u64,
    host: crate::daemons::Host,
) -> Result<u64, BenchError> {
    let has_begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<u64, BenchError> {
            let mut memory = stage.memory()?;
            let own = memory.open_shared("kept", outboard::Rights::READ.and(outboard::Rights::WRITE))?;
            let pieces = region.size() / PIECE as u64;
            let mut last = 0;
            for piece in (0..pieces).cycle() {
                match write(&mut memory, &own, piece, round) {
                    Ok(()) => last = piece,
                    Err(AskError::Lost(_)) if has_begun.load(Ordering::Acquire) => return Ok(last),
                    Err(error) => return Err(error.into()),
                }
                has_begun.store(true, Ordering::Release);
            }
            Ok(last)
        });
        while !has_begun.load(Ordering::Acquire) && !writer.is_finished() {
            std::thread::yield_now();
        }
        std::thread::park_timeout(BEFORE);
        drop(host);
        writer.join().unwrap_or(Err(BenchError::PeerFailed { why: "the writer panicked".to_owned() }))
    })
}

/// Asks until there is an answer, which must be what was acknowledged last.
fn await_right(memory: &mut Memory, region: &FarRegion, round: u64, last: u64) -> Result<(), BenchError> {
    let until = Instant::now() + PATIENCE;
    let mut head = [0; 16];
    loop {
        match memory.read(region, last * PIECE as u64, &mut head) {
            Ok(()) => break,
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => std::thread::park_timeout(PAUSE),
        }
    }
    let right = [last.to_le_bytes(), round.to_le_bytes()].concat();
    if head[..] == right[..] {
        return Ok(());
    }
    let why = format!("piece {last} of round {round} was acknowledged, and {head:?} is there");
    Err(BenchError::PeerFailed { why })
}
