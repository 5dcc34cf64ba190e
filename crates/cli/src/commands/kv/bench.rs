//! `outboard kv bench`: YCSB on a table of its own.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use outboard_kv::ycsb::{Distribution, KEYS_MAX, Mix, Tally, VALUE_MIN, YcsbLoad, YcsbOperation, trace};
use outboard_kv::{Kv, KvTable, TableOptions};
use outboard_settings::parse_count;
use serde::Serialize;

use crate::commands::functions::bench::{BenchFlags, check_range};
use crate::commands::functions::{At, Where};
use crate::numbers;

/// Measure gets and puts at a memory server, as YCSB does
///
/// Makes a table that no other process sees and that goes with this process, puts all keys, then gets and puts them for some
/// seconds; every value that comes is checked.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard kv bench --keys 1M                          1 put in 20, some keys more often
  outboard kv bench --workload A --distribution uniform --clients 4
  outboard kv bench --site application --batch 1       one at a time, by one-sided access
  outboard kv bench --json                             one JSON object for programs")]
pub(super) struct Bench {
    #[command(flatten)]
    at: At,
    /// Which share of the operations are puts: A half, B 1 in 20, C none
    #[arg(long, value_enum, ignore_case = true, default_value_t = Workload::B)]
    workload: Workload,
    /// Whether some keys are used far more often than others, by Zipf's law with the exponent 0.99, or all alike
    #[arg(long, value_enum, default_value_t = Keys::Zipf)]
    distribution: Keys,
    /// How many keys
    #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = parse_count)]
    keys: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    value_size: usize,
    #[command(flatten)]
    flags: BenchFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
enum Workload {
    #[value(name = "A")]
    A,
    #[value(name = "B")]
    B,
    #[value(name = "C")]
    C,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Keys {
    Uniform,
    Zipf,
}

/// The measurements.
#[derive(Debug, Serialize)]
struct Found {
    workload: Workload,
    distribution: Keys,
    site: Where,
    clients: usize,
    batch: usize,
    keys: u64,
    value_size: usize,
    operations: u64,
    seconds: f64,
    operations_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    tried_again: u64,
    wrong: u64,
}

/// Operations between two looks at the clock.
const CHUNK: usize = 4096;
/// Operations that a thread takes turns in.
const TRACE: usize = 64 * CHUNK;
/// Times that are kept of each thread: enough for any percentile, however long it measures.
const TIMES_MAX: usize = 4 << 20;

impl Bench {
    /// Measures, and prints what was found.
    pub(super) fn run(&self) -> Result<()> {
        check_range("--keys", self.keys, 1, KEYS_MAX.into())?;
        check_range("--value-size", self.value_size as u64, VALUE_MIN as u64, 16 << 10)?;
        self.flags.check()?;
        let Some(server) = self.at.place.find(super::COMMAND, false)? else { return Ok(()) };
        // The table is there for as long as this link.
        let mut memory = server.memory()?;
        let options = TableOptions { keys: self.keys, key_max: 8, value_max: self.value_size as u64 };
        let table = KvTable::create_unnamed(&mut memory, &options).context("no table to measure")?;
        let mut loads = Vec::with_capacity(self.flags.clients);
        for _ in 0..self.flags.clients {
            let kv = Kv::new(server.caller(self.flags.caller_options(), self.flags.agent.as_ref())?, &table)?;
            loads.push(YcsbLoad::new(kv, self.value_size, self.flags.batch).timed());
        }
        loads[0].fill(self.keys as u32).context("the table cannot be filled")?;
        let (tallies, seconds) =
            self.flags.play(loads, |load, number, until| self.play(load, number, until))?;
        let found = self.sum_up(tallies, seconds);
        self.flags.print(&found, found.row())?;
        if found.wrong > 0 {
            bail!("{} of {} values were wrong", found.wrong, found.operations);
        }
        Ok(())
    }

    fn sum_up(&self, tallies: Vec<Tally>, seconds: f64) -> Found {
        let mut all = Tally::default();
        tallies.into_iter().for_each(|tally| all.add(tally));
        all.times_ns.sort_unstable();
        let at = |share: f64| {
            let place = (all.times_ns.len().saturating_sub(1) as f64 * share) as usize;
            all.times_ns.get(place).map_or(0.0, |time| f64::from(*time) / 1e3)
        };
        Found {
            workload: self.workload,
            distribution: self.distribution,
            site: self.flags.site,
            clients: self.flags.clients,
            batch: self.flags.batch,
            keys: self.keys,
            value_size: self.value_size,
            operations: all.done,
            seconds,
            operations_per_second: all.done as f64 / seconds,
            p50_us: at(0.5),
            p99_us: at(0.99),
            tried_again: all.again,
            wrong: all.wrong,
        }
    }

    /// The work of one thread.
    fn play(&self, mut load: YcsbLoad, number: u64, until: Instant) -> Result<Tally> {
        let mix = match self.workload {
            Workload::A => Mix::A,
            Workload::B => Mix::B,
            Workload::C => Mix::C,
        };
        let distribution = match self.distribution {
            Keys::Uniform => Distribution::Uniform,
            Keys::Zipf => Distribution::Zipf,
        };
        let operations: Vec<YcsbOperation> = trace(self.keys as u32, mix, distribution, TRACE, number + 1);
        let mut all = Tally::default();
        for chunk in operations.chunks(CHUNK).cycle() {
            let mut tally = load.run(chunk.iter().copied())?;
            if all.times_ns.len() >= TIMES_MAX {
                tally.times_ns.clear();
            }
            all.add(tally);
            if Instant::now() >= until {
                break;
            }
        }
        if number == 0 {
            self.at.explain(load.kv().caller());
        }
        Ok(all)
    }
}

impl Found {
    fn row(&self) -> [(&'static str, String); 7] {
        let time = |micros: f64| numbers::time(Duration::from_secs_f64(micros / 1e6));
        let distribution = format!("{:?}", self.distribution).to_lowercase();
        [
            ("workload", format!("{:?}, {distribution}", self.workload)),
            ("keys", self.keys.to_string()),
            ("clients", self.clients.to_string()),
            ("operations", self.operations.to_string()),
            ("in a second", format!("{:.0}", self.operations_per_second)),
            ("p50", time(self.p50_us)),
            ("p99", time(self.p99_us)),
        ]
    }
}
