//! `outboard btree bench`: look-ups in a tree that is served.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use comfy_table::{CellAlignment, Table as Grid, presets};
use outboard::CallerOptions;
use outboard_btree::{BTree, Tree};
use outboard_link::Address;
use serde::Serialize;

use super::{At, value_of};
use crate::commands::functions::Where;
use crate::terminal;

/// Measure look-ups in a tree, in random order
///
/// The tree must have been served with `--filled`, so that every value that comes can be checked.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard btree serve --keys 1000000 --filled 1000000 &
  outboard btree bench --keys 1000000
  outboard btree bench --keys 1000000 --site application --batch 1 --clients 2
  outboard btree bench --keys 1000000 --json           one JSON object for programs")]
pub(super) struct Bench {
    #[command(flatten)]
    at: At,
    /// How many keys the tree was filled with
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    keys: u64,
    /// How many threads use the tree, each with a link of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    clients: usize,
    /// How many look-ups of each are under way at once
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

/// What was measured.
#[derive(Debug, Serialize)]
struct Found {
    site: Where,
    clients: usize,
    batch: usize,
    keys: u64,
    lookups: u64,
    seconds: f64,
    lookups_per_second: f64,
    wrong: u64,
}

/// The most threads, and look-ups of one that are under way.
const CLIENTS_MAX: usize = 1024;
const BATCH_MAX: usize = 4096;

impl Bench {
    fn check(&self) -> Result<()> {
        let within = |what: &str, value: u64, most: u64| match (1..=most).contains(&value) {
            true => Ok(()),
            false => Err(anyhow!("{what} {value}: give a number from 1 to {most}")),
        };
        within("--keys", self.keys, 1 << 40)?;
        within("--clients", self.clients as u64, CLIENTS_MAX as u64)?;
        within("--batch", self.batch as u64, BATCH_MAX as u64)?;
        if !(self.seconds > 0.0 && self.seconds <= 86_400.0) {
            bail!("--seconds {}: give a time of more than 0 and at most 86400", self.seconds);
        }
        if self.site == Where::Agent && self.agent.is_none() {
            bail!("--site agent needs an agent; name it with --agent ADDRESS");
        }
        Ok(())
    }

    /// Measures, and prints what was found.
    pub(super) fn run(&self) -> Result<()> {
        self.check()?;
        let Some(server) = self.at.find()? else { return Ok(()) };
        let tree = Tree::open(&mut server.memory()?, &self.at.tree)?;
        let mut users = Vec::with_capacity(self.clients);
        for _ in 0..self.clients {
            let (placement, agent) = (self.site.placement(), self.agent.clone());
            let options = CallerOptions { under_way_max: self.batch, placement, agent };
            users.push(BTree::new(server.caller(options)?, &tree)?);
        }
        let found = self.measure(users)?;
        terminal::print(&if self.json { serde_json::to_string(&found)? } else { found.to_text() })?;
        if found.wrong > 0 {
            let Found { wrong, lookups, .. } = found;
            bail!(
                "{wrong} of {lookups} values were wrong: was the tree served with `--filled {}`?",
                self.keys
            );
        }
        Ok(())
    }

    fn measure(&self, users: Vec<BTree>) -> Result<Found> {
        let (began, span) = (Instant::now(), Duration::from_secs_f64(self.seconds));
        let results: Vec<Result<(u64, u64)>> = std::thread::scope(|scope| {
            let play = |(number, user): (usize, BTree)| {
                scope.spawn(move || self.play(user, number as u64 + 1, began + span))
            };
            let threads: Vec<_> = users.into_iter().enumerate().map(play).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(u64, u64)>>| {
                thread.join().unwrap_or_else(|_| Err(anyhow!("a thread has panicked")))
            };
            threads.into_iter().map(join).collect()
        });
        let seconds = began.elapsed().as_secs_f64();
        let (mut lookups, mut wrong) = (0, 0);
        for result in results {
            let (done, failed) = result?;
            (lookups, wrong) = (lookups + done, wrong + failed);
        }
        let &Self { site, clients, batch, keys, .. } = self;
        let lookups_per_second = lookups as f64 / seconds;
        Ok(Found { site, clients, batch, keys, lookups, seconds, lookups_per_second, wrong })
    }

    /// What one thread does. Returns how many look-ups it made, and how many gave something wrong.
    fn play(&self, mut user: BTree, seed: u64, until: Instant) -> Result<(u64, u64)> {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut done, mut wrong, mut failed) = (0, 0, None);
        // What a call was for, by its number.
        let mut wanted = std::collections::HashMap::with_capacity(self.batch);
        while Instant::now() < until || !wanted.is_empty() {
            while wanted.len() < self.batch && Instant::now() < until {
                let key = 2 * random.u64(..self.keys);
                wanted.insert(user.begin_lookup(key)?, key);
            }
            user.drain(|id, answer| {
                let key = wanted.remove(&id);
                match answer {
                    Ok(answer) => wrong += u64::from(answer.value() != key.map(value_of)),
                    Err(error) => failed = Some(error),
                }
                done += 1;
            });
            if let Some(error) = failed.take() {
                return Err(error.into());
            }
        }
        if seed == 1 {
            self.at.explain(user.caller());
        }
        Ok((done, wrong))
    }
}

impl Found {
    fn to_text(&self) -> String {
        let mut grid = Grid::new();
        grid.load_preset(presets::NOTHING);
        grid.set_header(["keys", "clients", "under way", "look-ups", "in a second"]);
        grid.add_row([
            self.keys.to_string(),
            self.clients.to_string(),
            self.batch.to_string(),
            self.lookups.to_string(),
            format!("{:.0}", self.lookups_per_second),
        ]);
        grid.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        format!("{}\n", grid.trim_fmt())
    }
}
