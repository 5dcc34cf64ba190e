//! One-sided access to the memory server's regions.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use outboard::Memory;
use outboard_wire::Rights;

use super::{Finding, times};
use crate::commands::demo::stage::{By, Stage};
use crate::numbers;

/// How much is written and read back.
const SIZE: usize = 16 << 20;
/// The number that each of two clients adds, one at a time.
const INCREMENTS: u64 = 2_000;
/// A region that two clients open.
const SHARED: &str = "demo-atomics";

/// The bytes per second that one kind of link carries.
struct Speed {
    writing: f64,
    reading: f64,
}

/// Writes and reads over both links, and adds to one word over both at once.
pub(super) fn both_links(stage: &mut Stage) -> Result<Finding> {
    let shm = write_and_read(stage, By::Shm)?;
    let tcp = write_and_read(stage, By::Tcp)?;
    stage.go_on()?;
    let (total, adding) = add_together(stage)?;
    let second = Duration::from_secs(1);
    let speeds = |Speed { writing, reading }: &Speed| {
        let [writing, reading] = [*writing, *reading].map(|rate| numbers::bandwidth(rate as u64, second));
        format!("written at {writing}, read at {reading}")
    };
    let text = format!(
        "{}: {} {}, {} {}, every byte as it was; {total} increments of one word by two clients, none lost",
        numbers::bytes(SIZE as u64),
        speeds(&shm),
        By::Shm.words(),
        speeds(&tcp),
        By::Tcp.words(),
    );
    let gain = format!("no process at the other end: {} the speed of TCP", times(shm.reading, tcp.reading));
    let mut finding = Finding::text(text).gained(gain).with("fetch_adds_per_s", total as f64 / adding);
    for (by, Speed { writing, reading }) in [(By::Shm, shm), (By::Tcp, tcp)] {
        finding = finding.with(format!("write_{}_bytes_per_s", by.name()), writing);
        finding = finding.with(format!("read_{}_bytes_per_s", by.name()), reading);
    }
    Ok(finding)
}

fn write_and_read(stage: &Stage, by: By) -> Result<Speed> {
    let mut memory = stage.connect_memory(by)?;
    let region = memory.reserve(SIZE as u64, None)?;
    let written = pattern(by as u64 + 1);
    // Once beforehand, and read into bytes that are not zero: the first touch of fresh memory is not what is timed.
    memory.write(&region, 0, &written)?;
    let rate = |began: Instant| SIZE as f64 / began.elapsed().as_secs_f64().max(1e-9);
    let began = Instant::now();
    memory.write(&region, 0, &written)?;
    let writing = rate(began);
    let mut read = vec![0xff; SIZE];
    let began = Instant::now();
    memory.read(&region, 0, &mut read)?;
    let reading = rate(began);
    ensure!(read == written, "what came back is not what was written");
    memory.free(region)?;
    memory.close("done");
    Ok(Speed { writing, reading })
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

/// Two clients add to one word at the same time, one through shared memory, one over TCP. Returns what the word is then,
/// and how many seconds it took.
fn add_together(stage: &Stage) -> Result<(u64, f64)> {
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
    Ok((total, took.as_secs_f64().max(1e-9)))
}

fn add(mut memory: Memory) -> Result<()> {
    let region = memory.open_shared(SHARED, Rights::READ.and(Rights::WRITE))?;
    for _ in 0..INCREMENTS {
        memory.fetch_add(&region, 0, 1)?;
    }
    memory.close("done");
    Ok(())
}
