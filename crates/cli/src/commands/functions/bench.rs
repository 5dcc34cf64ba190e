//! Measuring what functions do, by several threads for some seconds.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use comfy_table::{CellAlignment, Table as Grid, presets};
use outboard::CallerOptions;
use outboard_link::Address;
use serde::Serialize;

use super::Where;
use crate::failure::wrong_usage;
use crate::terminal;

/// How it is measured.
#[derive(clap::Args)]
pub(crate) struct BenchFlags {
    /// How many threads measure, each with a link of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) clients: usize,
    /// How many operations of each are under way at once
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) batch: usize,
    /// How long to measure, in seconds
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    seconds: f64,
    /// Where functions run
    #[arg(long, value_enum, default_value_t = Where::Steered)]
    pub(crate) site: Where,
    /// An agent at which they may run
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) agent: Option<Address>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// The most threads, and operations of one that are under way.
const CLIENTS_MAX: u64 = 1024;
const BATCH_MAX: u64 = 4096;

/// Whether a number that was given makes sense.
pub(crate) fn check_range(what: &str, value: u64, least: u64, most: u64) -> Result<()> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(wrong_usage(&format!("{what} {value}: give a number from {least} to {most}"))),
    }
}

impl BenchFlags {
    pub(crate) fn check(&self) -> Result<()> {
        check_range("--clients", self.clients as u64, 1, CLIENTS_MAX)?;
        check_range("--batch", self.batch as u64, 1, BATCH_MAX)?;
        if !(self.seconds > 0.0 && self.seconds <= 86_400.0) {
            let seconds = self.seconds;
            return Err(wrong_usage(&format!(
                "--seconds {seconds}: give a time of more than 0 and at most 86400"
            )));
        }
        if self.site == Where::Agent && self.agent.is_none() {
            return Err(wrong_usage("--site agent needs an agent; name it with --agent ADDRESS"));
        }
        Ok(())
    }

    pub(crate) fn caller_options(&self) -> CallerOptions {
        CallerOptions::default().with_under_way_max(self.batch).with_placement(self.site.placement())
    }

    /// Has each of those play in a thread of its own, who is told its number and when to end. Returns what they found, and
    /// how many seconds it took.
    pub(crate) fn play<P: Send, T: Send>(
        &self,
        players: Vec<P>,
        play: impl Fn(P, u64, Instant) -> Result<T> + Sync,
    ) -> Result<(Vec<T>, f64)> {
        let began = Instant::now();
        let until = began + Duration::from_secs_f64(self.seconds);
        let results: Vec<Result<T>> = std::thread::scope(|scope| {
            let play = &play;
            let start = |(number, player)| scope.spawn(move || play(player, number, until));
            let threads: Vec<_> = (0..).zip(players).map(start).collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended.map(|ended| ended.unwrap_or_else(|_| Err(anyhow!("a thread has panicked")))).collect()
        });
        let seconds = began.elapsed().as_secs_f64();
        Ok((results.into_iter().collect::<Result<_>>()?, seconds))
    }

    /// Prints what was found: as JSON, or as a table of one row.
    pub(crate) fn print<const N: usize>(
        &self,
        found: &impl Serialize,
        row: [(&str, String); N],
    ) -> Result<()> {
        if self.json {
            return terminal::print(&serde_json::to_string(found)?);
        }
        let mut grid = Grid::new();
        grid.load_preset(presets::NOTHING);
        grid.set_header(row.each_ref().map(|(name, _)| *name));
        grid.add_row(row.map(|(_, value)| value));
        grid.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        terminal::print(&format!("{}\n", grid.trim_fmt()))
    }
}
