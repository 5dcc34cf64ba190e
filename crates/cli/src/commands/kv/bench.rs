//! `outboard kv bench`: YCSB on a table that is served.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use comfy_table::{CellAlignment, Table as Grid, presets};
use outboard::CallerOptions;
use outboard_kv::ycsb::{Distribution, KEYS_MAX, Load, Mix, Operation, Tally, VALUE_MIN, trace};
use outboard_link::Address;
use serde::Serialize;

use super::At;
use crate::commands::functions::Where;
use crate::{numbers, terminal};

/// Measure gets and puts on a table, as YCSB does
///
/// Puts all keys, then gets and puts them for some seconds; every value that comes is checked. Keys are numbers, so what
/// is in the table already stays, unless its key has 8 bytes. The server must have been started with enough room for
/// keys of 8 bytes and these values.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard kv serve --keys 1000000 --key-max 8 --value-max 64 &
  outboard kv bench --keys 1000000                     1 put in 20, some keys far more often than others
  outboard kv bench --workload A --distribution uniform --clients 4
  outboard kv bench --site application --batch 1       one at a time, by one-sided access of this process
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
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    keys: u32,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    value_size: usize,
    /// How many threads use the table, each with a link of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    clients: usize,
    /// How many operations of each are under way at once
    #[arg(long, value_name = "N", default_value_t = 256)]
    batch: usize,
    /// How long to measure, in seconds
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    seconds: f64,
    /// Where functions run
    #[arg(long, value_enum, default_value_t = Where::Steered)]
    site: Where,
    /// An agent at which they may run
    #[arg(long, value_name = "ADDRESS")]
    agent: Option<Address>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
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

/// What was measured.
#[derive(Debug, Serialize)]
struct Found {
    workload: Workload,
    distribution: Keys,
    site: Where,
    clients: usize,
    batch: usize,
    keys: u32,
    value_size: usize,
    operations: u64,
    seconds: f64,
    operations_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    tried_again: u64,
    wrong: u64,
}

/// The most threads.
const CLIENTS_MAX: usize = 1024;
/// The most operations of one thread that are under way at once.
const BATCH_MAX: usize = 4096;
/// Operations between two looks at the clock.
const CHUNK: usize = 4096;
/// Operations that a thread takes turns in.
const TRACE: usize = 64 * CHUNK;

impl Bench {
    fn check(&self) -> Result<()> {
        let within = |what: &str, value: usize, least: usize, most: usize| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(anyhow!("{what} {value}: give a number from {least} to {most}"))
            }
        };
        within("--keys", self.keys as usize, 1, KEYS_MAX as usize)?;
        within("--value-size", self.value_size, VALUE_MIN, 16 << 10)?;
        within("--clients", self.clients, 1, CLIENTS_MAX)?;
        within("--batch", self.batch, 1, BATCH_MAX)?;
        if !(self.seconds > 0.0 && self.seconds <= 86_400.0) {
            bail!("--seconds {}: give a time of more than 0 and at most 86400", self.seconds);
        }
        if self.site == Where::Agent && self.agent.is_none() {
            bail!("--site agent needs an agent; name it with --agent ADDRESS");
        }
        Ok(())
    }

    fn caller_options(&self) -> CallerOptions {
        CallerOptions {
            under_way_max: self.batch,
            placement: self.site.placement(),
            agent: self.agent.clone(),
        }
    }

    /// Measures, and prints what was found.
    pub(super) fn run(&self) -> Result<()> {
        self.check()?;
        let Some(server) = self.at.find()? else { return Ok(()) };
        let mut loads = Vec::with_capacity(self.clients);
        for _ in 0..self.clients {
            let kv = super::open(&server, &self.at.table, self.caller_options())?;
            loads.push(Load::new(kv, self.value_size, self.batch).timed());
        }
        loads[0].fill(self.keys).context("the table cannot be filled")?;
        let found = self.measure(loads)?;
        terminal::print(&if self.json { serde_json::to_string(&found)? } else { found.to_text() })?;
        if found.wrong > 0 {
            bail!("{} of {} values were wrong", found.wrong, found.operations);
        }
        Ok(())
    }

    fn measure(&self, loads: Vec<Load>) -> Result<Found> {
        let span = Duration::from_secs_f64(self.seconds);
        let began = Instant::now();
        let results: Vec<Result<Tally>> = std::thread::scope(|scope| {
            let play = |(number, load): (usize, Load)| {
                scope.spawn(move || self.play(load, number as u64, began, span))
            };
            let threads: Vec<_> = loads.into_iter().enumerate().map(play).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Tally>>| {
                thread.join().unwrap_or_else(|_| Err(anyhow!("a thread has panicked")))
            };
            threads.into_iter().map(join).collect()
        });
        let seconds = began.elapsed().as_secs_f64();
        let mut all = Tally::default();
        for result in results {
            let Tally { done, wrong, again, times_ns } = result?;
            (all.done, all.wrong, all.again) = (all.done + done, all.wrong + wrong, all.again + again);
            all.times_ns.extend(times_ns);
        }
        all.times_ns.sort_unstable();
        let at = |share: f64| {
            let place = (all.times_ns.len().saturating_sub(1) as f64 * share) as usize;
            all.times_ns.get(place).map_or(0.0, |time| f64::from(*time) / 1e3)
        };
        Ok(Found {
            workload: self.workload,
            distribution: self.distribution,
            site: self.site,
            clients: self.clients,
            batch: self.batch,
            keys: self.keys,
            value_size: self.value_size,
            operations: all.done,
            seconds,
            operations_per_second: all.done as f64 / seconds,
            p50_us: at(0.5),
            p99_us: at(0.99),
            tried_again: all.again,
            wrong: all.wrong,
        })
    }

    /// What one thread does.
    fn play(&self, mut load: Load, number: u64, began: Instant, span: Duration) -> Result<Tally> {
        let mix = match self.workload {
            Workload::A => Mix::A,
            Workload::B => Mix::B,
            Workload::C => Mix::C,
        };
        let distribution = match self.distribution {
            Keys::Uniform => Distribution::Uniform,
            Keys::Zipf => Distribution::Zipf,
        };
        let operations: Vec<Operation> = trace(self.keys, mix, distribution, TRACE, number + 1);
        let mut all = Tally::default();
        for chunk in operations.chunks(CHUNK).cycle() {
            let Tally { done, wrong, again, times_ns } = load.run(chunk.iter().copied())?;
            (all.done, all.wrong, all.again) = (all.done + done, all.wrong + wrong, all.again + again);
            if all.times_ns.len() < TIMES_MAX {
                all.times_ns.extend(times_ns);
            }
            if began.elapsed() >= span {
                break;
            }
        }
        if number == 0 {
            self.at.explain_sites(load.kv());
        }
        Ok(all)
    }
}

/// Times that are kept of each thread: enough for any percentile, however long it measures.
const TIMES_MAX: usize = 4 << 20;

impl Found {
    fn to_text(&self) -> String {
        let mut grid = Grid::new();
        grid.load_preset(presets::NOTHING);
        grid.set_header(["workload", "keys", "clients", "operations", "in a second", "p50", "p99"]);
        let time = |micros: f64| numbers::time(Duration::from_secs_f64(micros / 1e6));
        grid.add_row([
            format!("{:?}, {}", self.workload, format!("{:?}", self.distribution).to_lowercase()),
            self.keys.to_string(),
            self.clients.to_string(),
            self.operations.to_string(),
            format!("{:.0}", self.operations_per_second),
            time(self.p50_us),
            time(self.p99_us),
        ]);
        for column in grid.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{}\n", grid.trim_fmt())
    }
}
