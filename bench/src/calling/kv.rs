//! How many gets and puts does a memory server do in a second, beside the same table without eBPF?

use std::time::Instant;

use outboard_kv::ycsb::{Distribution, Mix, YcsbLoad, YcsbOperation, trace};
use outboard_kv::{Kv, KvTable, TableOptions};
use outboard_link::Address;

use super::native::NativeHost;
use super::stage::{Stage, caller, keys_beyond_cache, wrong};
use crate::harness::{Duel, Effort, Figure, Progress, Round, Side, Unit};
use crate::{BenchError, BenchOptions};

/// How many questions there are.
pub(super) const COUNT: usize = 2;

/// Bytes of a value; with its key and what the table needs it fills two lines of a cache.
pub(super) const VALUE: usize = 64;
/// Operations that are under way at once.
pub(super) const DEPTH: usize = 256;
/// Operations in one round.
const ROUND: u64 = 200_000;
/// Operations that rounds take turns in.
const TRACE: u64 = 4_000_000;
/// What a key takes at least of index and slots together.
const BYTES_EACH: u64 = 192;
/// How many times as large as the caches the table is.
const TIMES_CACHE: u64 = 8;

/// Operations, round by round and from the beginning again.
pub(super) struct Rounds {
    operations: Vec<YcsbOperation>,
    at: usize,
}

impl Rounds {
    pub(super) fn new(effort: Effort, keys: u64, distribution: Distribution) -> Self {
        let length = effort.items(TRACE) as usize;
        Self { operations: trace(keys as u32, Mix::B, distribution, length, 1), at: 0 }
    }

    fn next(&mut self, count: usize) -> impl Iterator<Item = YcsbOperation> {
        let at = self.at;
        self.at = (at + count) % self.operations.len();
        self.operations.iter().cycle().skip(at).take(count).copied()
    }

    /// The operations of one round, as numbers of keys and whether they are puts.
    pub(super) fn round(&mut self, effort: Effort) -> (u64, impl Iterator<Item = YcsbOperation>) {
        let count = effort.items(ROUND);
        (count, self.next(count as usize))
    }
}

/// The shape of the tables.
pub(super) fn table_options(effort: Effort) -> TableOptions {
    let keys = keys_beyond_cache(effort, TIMES_CACHE, BYTES_EACH);
    TableOptions { keys, key_max: 8, value_max: VALUE as u64 }
}

/// Both sides: the server's functions, and the yardstick's.
struct Both {
    ours: YcsbLoad,
    native: YcsbLoad,
    rounds: Rounds,
}

/// A table, used by functions at this address.
pub(super) fn load(address: &Address, table: &KvTable) -> Result<YcsbLoad, BenchError> {
    let kv = Kv::new(caller(address, DEPTH)?, table).map_err(wrong)?;
    Ok(YcsbLoad::new(kv, VALUE, DEPTH))
}

/// One round, whose values must all be right.
pub(super) fn round(load: &mut YcsbLoad, rounds: &mut Rounds, effort: Effort) -> Result<Round, BenchError> {
    let (count, operations) = rounds.round(effort);
    let began = Instant::now();
    let tally = load.run(operations).map_err(wrong)?;
    let seconds = began.elapsed().as_secs_f64();
    if tally.wrong > 0 || tally.done != count {
        let why =
            format!("of {count} operations {} were done, {} with a wrong value", tally.done, tally.wrong);
        return Err(BenchError::Calls { why });
    }
    Ok(Round::rate(count, seconds))
}

/// The figures, with and without keys that are used more often than others.
pub(super) fn figures(
    options: &BenchOptions,
    stage: &mut Stage,
    progress: &mut Progress,
) -> Result<Vec<Figure>, BenchError> {
    let effort = options.effort;
    let shape = table_options(effort);
    let native_host = NativeHost::start(&options.peer, stage.server_core(), &shape)?;
    let table = KvTable::create(&mut stage.memory, "bench-calling-kv", &shape).map_err(wrong)?;
    let mut both = Both {
        ours: load(&stage.host.local, &table)?,
        native: load(&native_host.address, &table)?,
        rounds: Rounds { operations: Vec::new(), at: 0 },
    };
    for load in [&mut both.ours, &mut both.native] {
        load.fill(shape.keys as u32).map_err(wrong)?;
    }
    let mib = table.layout().size() >> 20;
    let mut figures = Vec::new();
    for (suffix, words, distribution) in
        [("", "Zipf 0.99", Distribution::Zipf), (".uniform", "uniform", Distribution::Uniform)]
    {
        let name = format!("calling.kv.ycsb_b.server.shm{suffix}");
        progress.begin(&name);
        both.rounds = Rounds::new(effort, shape.keys, distribution);
        let duel = Duel::run(effort, progress, |side| match side {
            Side::Ours => round(&mut both.ours, &mut both.rounds, effort),
            Side::Yardstick => round(&mut both.native, &mut both.rounds, effort),
        })?;
        let versus = format!(
            "the same table and messages with Rust instead of eBPF, over the same link: {} keys, {VALUE} bytes, {mib} MiB, {words}, {DEPTH} at once",
            shape.keys
        );
        figures.push(duel.figure(&name, Unit::OperationsPerSecond, 1.0, &versus));
        progress.end();
    }
    drop(both);
    table.free(&mut stage.memory).map_err(wrong)?;
    Ok(figures)
}
