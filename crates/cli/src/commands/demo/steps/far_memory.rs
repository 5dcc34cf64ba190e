//! One-sided access to the memory server's regions.

use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use outboard::Memory;
use outboard_wire::Rights;

use super::Finding;
use crate::commands::demo::stage::{By, Stage};
use crate::numbers;

/// How much is written and read back.
const SIZE: usize = 32 << 20;
/// What each of two clients adds, one at a time.
const INCREMENTS: u64 = 2_000;
/// A region that two clients open.
const SHARED: &str = "demo-atomics";

pub(super) fn through_shared_memory(stage: &mut Stage) -> Result<Finding> {
    write_and_read(stage, By::Shm)
}

pub(super) fn over_tcp(stage: &mut Stage) -> Result<Finding> {
    write_and_read(stage, By::Tcp)
}

fn write_and_read(stage: &Stage, by: By) -> Result<Finding> {
    let mut memory = stage.connect_memory(by)?;
    let region = memory.reserve(SIZE as u64, None)?;
    let written = pattern(by as u64 + 1);
    // Once beforehand, and read into bytes that are not zero: the first touch of fresh memory is not what is timed.
    memory.write(&region, 0, &written)?;
    let began = Instant::now();
    memory.write(&region, 0, &written)?;
    let writing = began.elapsed();
    let mut read = vec![0xff; SIZE];
    let began = Instant::now();
    memory.read(&region, 0, &mut read)?;
    let reading = began.elapsed();
    ensure!(read == written, "what came back is not what was written");
    memory.free(region)?;
    memory.close("done");
    let size = SIZE as u64;
    let (fast, back) = (numbers::bandwidth(size, writing), numbers::bandwidth(size, reading));
    let text = format!("{} written at {fast}, read at {back}, every byte as it was", numbers::bytes(size));
    let rate = |took: std::time::Duration| size as f64 / took.as_secs_f64().max(1e-9);
    Ok(Finding::text(text)
        .with(format!("write_{}_bytes_per_s", by.name()), rate(writing))
        .with(format!("read_{}_bytes_per_s", by.name()), rate(reading)))
}

/// Bytes that nothing else would leave there: no two blocks are alike.
fn pattern(seed: u64) -> Vec<u8> {
    const BLOCK: usize = 4096;
    let word = |at: u64| (at + 1).wrapping_mul(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes();
    let mut bytes: Vec<u8> = (0..BLOCK as u64 / 8).flat_map(word).collect::<Vec<u8>>().repeat(SIZE / BLOCK);
    for (number, block) in (0..).zip(bytes.chunks_exact_mut(BLOCK)) {
        block[..8].copy_from_slice(&u64::to_le_bytes(number));
    }
    bytes
}

/// Two clients add to one word at the same time, one through shared memory, one over TCP.
pub(super) fn atomics(stage: &mut Stage) -> Result<Finding> {
    let mut owner = stage.connect_memory(By::Shm)?;
    let region = owner.reserve_shared(4096, SHARED)?;
    let clients = [stage.connect_memory(By::Shm)?, stage.connect_memory(By::Tcp)?];
    let began = Instant::now();
    let adding = clients.map(|client| thread::spawn(move || add(client)));
    for thread in adding {
        let added = thread.join().ok().context("a thread that adds has panicked")?;
        added?;
    }
    let took = began.elapsed();
    let total = owner.fetch_add(&region, 0, 0)?;
    owner.free(region)?;
    owner.close("done");
    let expected = 2 * INCREMENTS;
    ensure!(total == expected, "{expected} increments gave {total}");
    let text = format!("{total} increments of one word by two clients, none lost");
    Ok(Finding::text(text).with("fetch_adds_per_s", expected as f64 / took.as_secs_f64().max(1e-9)))
}

fn add(mut memory: Memory) -> Result<()> {
    let region = memory.open_shared(SHARED, Rights::READ.and(Rights::WRITE))?;
    for _ in 0..INCREMENTS {
        memory.fetch_add(&region, 0, 1)?;
    }
    memory.close("done");
    Ok(())
}
