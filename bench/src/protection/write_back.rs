//! What does it cost to write to a region that is kept, beside one that is not?

use std::time::Instant;

use outboard::{FarRegion, Memory};

use super::stage::Stage;
use crate::harness::{Duel, Figure, Progress, Round, Side, Unit};
use crate::{BenchError, BenchOptions};

const VERSUS: &str = "the same to a region that ends with its process";

/// How much a round writes, all of it again in the next one.
const SIZE: u64 = 32 << 20;
/// A chunk of far memory.
const CHUNK: usize = 64 << 10;

pub(super) fn ask(options: &BenchOptions, progress: &Progress) -> Result<Vec<Figure>, BenchError> {
    let stage = Stage::new()?;
    let host = stage.start(&options.peer)?;
    let mut memory = stage.memory()?;
    let kept = memory.reserve(SIZE, Some("kept"))?;
    let other = memory.reserve(SIZE, None)?;
    let duel = Duel::run(options.effort, progress, |side| {
        let region = if side == Side::Ours { &kept } else { &other };
        round(&mut memory, region)
    })?;
    drop(host);
    Ok(vec![duel.figure("protection.keep.write_back.bandwidth", Unit::BytesPerSecond, 1.0, VERSUS)])
}

fn round(memory: &mut Memory, region: &FarRegion) -> Result<Round, BenchError> {
    let chunk = vec![7; CHUNK];
    let began = Instant::now();
    for offset in (0..SIZE).step_by(CHUNK) {
        memory.write_back(region, offset, &chunk)?;
    }
    Ok(Round::rate(SIZE, began.elapsed().as_secs_f64()))
}
